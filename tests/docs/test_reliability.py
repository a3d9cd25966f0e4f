"""The page on reliability names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (\d+) .*\|$", (ROOT / "docs" / "reliability.md").read_text("utf-8"), re.M)
TESTS = re.findall(
    r"(\*\*slow\*\* )?`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "reliability.md").read_text("utf-8")
)


def test_each_scenario_has_a_row() -> None:
    assert [int(number) for number in ROWS] == list(range(1, 18))


@pytest.mark.parametrize("file", sorted({file for _, file, _ in TESTS}))
def test_the_tests_exist(file: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    marks = {
        node.name: {ast.unparse(mark) for mark in node.decorator_list}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    named = {name: bool(slow) for slow, of, name in TESTS if of == file}
    assert named == {name: "pytest.mark.slow" in marks[name] for name in named if name in marks}, (
        "a test that does not exist, or one that is slow without being called so"
    )
