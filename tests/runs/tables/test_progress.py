from rlkit_sac.runs.tables.report import summary_table


def test_the_table_is_aligned() -> None:
    lines = summary_table({"a": "1", "long name": "2", "b": "3"}).splitlines()
    assert {line.index(value) for line, value in zip(lines, "123", strict=True)} == {11}
