import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from rlkit_sac.config import (
    CheckpointConfig,
    CollectorConfig,
    ContinuousLossConfig,
    DiscreteLossConfig,
    DiscreteUpdateConfig,
    EnvConfig,
    EvaluationConfig,
    GaussianNetworkConfig,
    HybridLossConfig,
    LoggingConfig,
    NetworkConfig,
    ReplayConfig,
    UpdateConfig,
    WarmStartConfig,
    flat,
)
from rlkit_sac.config.bounds import PositiveInt, Seed
from rlkit_sac.config.conditions import Check, check_config
from rlkit_sac.config.flat import flat_config
from rlkit_sac.config.parse import parse_config
from rlkit_sac.config.yaml_file import read_yaml, to_yaml
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig

SECTIONS = [
    EnvConfig,
    CollectorConfig,
    ReplayConfig,
    NetworkConfig,
    GaussianNetworkConfig,
    ContinuousLossConfig,
    DiscreteLossConfig,
    HybridLossConfig,
    UpdateConfig,
    DiscreteUpdateConfig,
    EvaluationConfig,
    LoggingConfig,
    CheckpointConfig,
    WarmStartConfig,
]


@dataclass
class Config:
    """Train something."""

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="CartPole-v1"))
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: GaussianNetworkConfig = field(default_factory=GaussianNetworkConfig)
    loss: ContinuousLossConfig = field(default_factory=ContinuousLossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    seed: Seed = 0
    """Seed of the run."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the update."""


def errors(argv: list[str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(Config, argv)
    return str(caught.value).splitlines()


def yaml_errors(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    return [line.removeprefix(f"{file}:") for line in errors(["--config", str(file)])]


def test_precedence_is_defaults_then_yaml_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("seed: 1\nupdate:\n  lr_actor: 1e-3\n  lr_alpha: 0.5\n")
    config = parse_config(Config, ["--seed", "7", "--config", str(file), "--update.lr_alpha=2"])
    assert (config.seed, config.update.lr_actor, config.update.lr_alpha) == (7, 1e-3, 2.0)
    assert config.env.id == "CartPole-v1"
    assert config.update.lr_qvalue == UpdateConfig().lr_qvalue


def test_later_yaml_files_win(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{seed: 1, env: {num_envs: 3}}")
    (tmp_path / "b.yaml").write_text("seed: 2")
    config = parse_config(
        Config, ["--config", str(tmp_path / "a.yaml"), f"--config={tmp_path / 'b.yaml'}"]
    )
    assert (config.seed, config.env.num_envs) == (2, 3)


@pytest.mark.parametrize(
    ("argv", "section", "expected"),
    [
        (["--network.num_cells", "[64,32]"], "network", {"num_cells": [64, 32]}),
        (["--network.num_cells", "[]"], "network", {"num_cells": []}),
        (["--network.log_std_min", "-5"], "network", {"log_std_min": -5.0}),
        (["--env.max_episode_steps", "null"], "env", {"max_episode_steps": None}),
        (["--env.rescale_actions", "false"], "env", {"rescale_actions": False}),
        (["--loss.target_entropy=-3"], "loss", {"target_entropy": -3.0}),
        (["--loss.target_entropy", "neg_dim"], "loss", {"target_entropy": "neg_dim"}),
        (["--env.id=a=b"], "env", {"id": "a=b"}),
        (["--env.id", "10"], "env", {"id": "10"}),
        (["--env.num_envs", "2.0"], "env", {"num_envs": 2}),
        (["--env.max_episode_steps", "1e3"], "env", {"max_episode_steps": 1000}),
        (["--replay.capacity", "1.5e6"], "replay", {"capacity": 1_500_000}),
        (["--env.kwargs.a", "1e3"], "env", {"kwargs": {"a": 1e3}}),
        (["--update.periods.target", "2.0"], "update", {"periods": {"target": 2}}),
        (["--loss.reward_weights", "[1, 0.1]"], "loss", {"reward_weights": [1.0, 0.1]}),
        (
            ["--loss.reward_weights_at", "{50: [1, 2]}", "--loss.reward_weights_at.100", "[3, 4]"],
            "loss",
            {"reward_weights_at": {50: [1.0, 2.0], 100: [3.0, 4.0]}},
        ),
        (
            ["--env.kwargs", "{a: 1e-2}", "--env.kwargs.b", "x"],
            "env",
            {"kwargs": {"a": 0.01, "b": "x"}},
        ),
        (["--env.kwargs.b", "x", "--env.kwargs", "{a: 1}"], "env", {"kwargs": {"a": 1}}),
    ],
)
def test_values_are_read_by_their_type(
    argv: list[str], section: str, expected: dict[str, Any]
) -> None:
    default = getattr(Config(), section)
    assert getattr(parse_config(Config, argv), section) == dataclasses.replace(default, **expected)


def test_boolean_or_word() -> None:
    assert parse_config(Config, ["--compile", "false"]).compile is False
    assert parse_config(Config, ["--compile", "auto"]).compile == "auto"


@pytest.mark.parametrize("text", ["", "# nothing\n", "env:\n", "env: {}\n"])
def test_empty_files_and_sections_leave_the_defaults(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert parse_config(Config, ["--config", str(file)]) == Config()


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("sed: 1\nloss:\n  gamma: 2\n  gama: 1\nupdate: {lr_actor: fast}\n")
    argv = ["--config", str(file), "--seed", "1.5", "--replay.capacity", "10", "--num_cells", "[1]"]
    assert sorted(errors(argv)) == sorted(
        [
            f"{file}:1: sed: unknown key; did you mean seed?",
            f"{file}:3: loss.gamma: must be >= 0 and <= 1, got 2",
            f"{file}:4: loss.gama: unknown key; did you mean loss.gamma?",
            f"{file}:5: update.lr_actor: expected a number, got 'fast'",
            "--seed: expected an integer, got '1.5'",
            "--replay.capacity: must be at least batch_size (256), got 10",
            "unknown option --num_cells; did you mean --network.num_cells?",
        ]
    )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--update.lr_actor", "0"], "--update.lr_actor: must be > 0, got 0"),
        (["--update.lr_actor", "1e999"], "--update.lr_actor: must be a finite number, got inf"),
        (
            ["--update.target_update_tau", "0"],
            "--update.target_update_tau: must be > 0 and <= 1, got 0",
        ),
        (["--network.num_cells", "[64,0]"], "--network.num_cells: must be >= 1, got 0"),
        (["--update.periods.target", "0"], "--update.periods.target: must be >= 1, got 0"),
        (["--seed", "-1"], "--seed: must be >= 0 and < 4294967296, got -1"),
        (["--loss.gamma", "nan"], "--loss.gamma: expected a number, got 'nan'"),
        (["--loss.fixed_alpha", "1"], "--loss.fixed_alpha: expected true or false, got '1'"),
        (["--seed", "true"], "--seed: expected an integer, got 'true'"),
        (["--seed", "1.5"], "--seed: expected an integer, got '1.5'"),
        (["--seed", "1e999"], "--seed: expected an integer, got '1e999'"),
        (["--seed", "4294967297"], "--seed: must be >= 0 and < 4294967296, got 4294967297"),
        (
            ["--replay.storage", "disk"],
            "--replay.storage: expected one of tensor, memmap, got 'disk'",
        ),
        (
            ["--update.periods", "{actr: 2}"],
            "--update.periods: must name steps of order ['joint', 'target'], got 'actr'",
        ),
        (["--seed"], "--seed: needs a value; write --seed VALUE"),
        (["--seed", "--compile=auto"], "--seed: needs a value; write --seed VALUE"),
        (["--seed="], "--seed: needs a value; write --seed VALUE"),
        (["--config"], "--config: needs a value; write --config VALUE"),
        (["--env.kwargs.g"], "--env.kwargs.g: needs a value; write --env.kwargs.g VALUE"),
        (["--sed"], "unknown option --sed; did you mean --seed?"),
        (["--version"], "unknown option --version; rlkit-sac --version shows it"),
        (["--no-compile"], "unknown option --no-compile; write --compile false"),
        (
            ["--no_prioritized", "1"],
            "unknown option --no_prioritized; write --replay.prioritized false",
        ),
        (
            ["--no-replay.prioritized"],
            "unknown option --no-replay.prioritized; write --replay.prioritized false",
        ),
        (["--no-seed"], "unknown option --no-seed; did you mean --seed?"),
        (
            ["--env", "CartPole-v1"],
            "--env is a section; did you mean --env.id? Its options are --env.id, --env.num_envs, "
            "--env.rescale_actions, --env.observation_indices, --env.max_episode_steps, "
            "--env.kwargs",
        ),
        (
            ["--network.num_cells", "64,64"],
            "--network.num_cells: expected a list, each item an integer, got '64,64'; write "
            "'[64,64]'",
        ),
        (
            ["--network.num_cells", "(64, 64)"],
            "--network.num_cells: expected a list, each item an integer, got '(64, 64)'; write "
            "'[64, 64]'",
        ),
        (
            ["--network.num_cells", "wide"],
            "--network.num_cells: expected a list, each item an integer, got 'wide'",
        ),
        (
            ["--env.num_envs", "10001"],
            "--env.num_envs: must be >= 1 and <= 10000, got 10001",
        ),
        (["seed"], "unexpected argument 'seed'; options are written --name value"),
        (
            ["--replay", "x"],
            "--replay is a section; set one of its options: --replay.capacity, "
            "--replay.batch_size, --replay.storage, --replay.burn_in, --replay.store_state, "
            "--replay.slice_length, --replay.prioritized, --replay.priority_alpha, "
            "--replay.priority_beta, --replay.priority_beta_frames, --replay.priority_eps",
        ),
        (["--config", "no/such.yaml"], "no/such.yaml: cannot be read: No such file or directory"),
    ],
)
def test_bad_option(argv: list[str], line: str) -> None:
    assert errors(argv) == [line]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed: .nan", "1: seed: expected an integer, got nan"),
        ("loss: {gamma: .nan}", "1: loss.gamma: must be a finite number, got nan"),
        (
            "loss: {target_entropy: .inf}",
            "1: loss.target_entropy: must be a finite number, got inf",
        ),
        ("seed: 1.5", "1: seed: expected an integer, got 1.5"),
        ("seed: true", "1: seed: expected an integer, got true"),
        ("seed: null", "1: seed: expected an integer, got null"),
        ("env: Pendulum-v1", "1: section 'env' must hold 'key: value' lines"),
        ("- 1", "1: the file must hold 'key: value' lines"),
        ("seed: 1\nseed: 2", "2: key 'seed' appears twice"),
        ("env:\n  kwargs: {a: 1, a: 2}", "2: key 'a' appears twice"),
        ("seed: [1", "1: expected ',' or ']', but got '<stream end>'"),
        ("a: b: c", "1: mapping values are not allowed here"),
        (
            "seed: !!python/name:os.system x",
            "1: write the value without its tag tag:yaml.org,2002:python/name:os.system",
        ),
        ("seed: !!int ''", "1: write the value without its tag tag:yaml.org,2002:int"),
        ("env: {kwargs: {a: !mine {b: 1}}}", "1: write the value without its tag !mine"),
        ("seed: 010", "1: seed: expected an integer, got '010'"),
        ("seed: 1:30", "1: seed: expected an integer, got '1:30'"),
        ("seed: 2026-11-22", "1: seed: expected an integer, got '2026-11-22'"),
        ("seed: 0x", "1: seed: expected an integer, got '0x'"),
        ("env: {num_envs: 2}\nenv.num_envs: 3", "2: key 'env.num_envs' appears twice"),
        ("? [a]\n: 1", "1: a key must be a name, not a list or mapping"),
        ("env: {kwargs: {[1]: 2}}", "1: found unhashable key"),
        ("seed: 1\n---\nseed: 2", "2: but found another document"),
        ("env:\n\tid: A-v0", "2: found character '\\t' that cannot start any token"),
        ('env: {id: "a\\Uffffffffb"}', " Python int too large to convert to C int"),
        ('"a\\nb": 1', "1: a\\nb: unknown key; see --help for all options"),
        ('env: {id: "a\\ud800b"}', "1: env.id: must be a text without control characters, got 'a"),
        ("env: {kwargs: &a {b: *a}}", "1: the value of &a contains itself"),
        ("network: {num_cells: &a [*a]}", "1: the value of &a contains itself"),
        ("seed: *a", "1: found undefined alias 'a'"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, line: str) -> None:
    found = yaml_errors(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(line)


def test_no_condition_is_computed_with_items_of_another_type() -> None:
    argv = ["--min_alpha", "[a, -1]", "--max_alpha", "[0.1, 0.1]"]
    with pytest.raises(ConfigError) as caught:
        parse_config(HybridLossConfig, argv)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("--min_alpha: expected ")
    assert line.endswith(", got '[a, -1]'")
    config = HybridLossConfig(min_alpha=["a", -1.0], max_alpha=[0.1, 0.1])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"^min_alpha: expected .*, got \['a', -1\.0\]$"):
        check_config(config)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (line,) = errors(["--config", str(tmp_path / "binary.yaml")])
    assert "is not a UTF-8 text file" in line
    (line,) = errors(["--config", str(tmp_path)])
    assert line == f"{tmp_path}: cannot be read: it is not a regular file"


MERGE = "tag:yaml.org,2002:merge"
DIGITS = "1" * 5000
HEXADECIMAL = "0x" + "f" * 5000
NESTED = "[" * 1000


@pytest.mark.parametrize("text", [DIGITS, HEXADECIMAL, NESTED])
def test_values_too_long_to_be_read(tmp_path: Path, text: str) -> None:
    start, end = repr(text)[:100], repr(text)[-100:]
    shown = f"{start}[...{len(text) + 2 - 200} more...]{end}"
    assert errors(["--seed", text]) == [f"--seed: expected an integer, got {shown}"]
    (line,) = errors([f"--network.num_cells=[{text}]"])
    assert line.startswith("--network.num_cells: expected a list, each item an integer, got '[")
    assert len(line) < 300
    for content in (f"seed: {text}", f"network: {{num_cells: [{text}]}}", f"env: {text}", text):
        assert len(yaml_errors(tmp_path, content)) == 1


def test_a_list_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    for depth in (48, 50, 3000, 40_000):
        for opened, closed in (("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")):
            (line,) = yaml_errors(tmp_path, "seed:\n " + opened * depth + closed * depth)
            if depth == 48:
                assert line.startswith(("1: seed: expected an integer", "2: found unhashable key"))
            elif len(opened + closed) * depth < 100_000:
                assert line == "2: has lists or mappings nested too deeply"


def laughs(indent: str) -> str:
    """A list of a billion items, in nine lines."""
    lines = [f"{indent}- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{indent}- &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"seed:\n{laughs('  ')}", 5),
        (f"network:\n  num_cells:\n{laughs('    ')}", 6),
        (f"env:\n  kwargs:\n    g:\n{laughs('      ')}", 7),
        (f"a: &a {'x' * 50_000}\nenv: {{kwargs: {{g: [*a, *a]}}}}", 2),
    ],
)
def test_small_files_do_not_become_large_by_aliases(tmp_path: Path, text: str, line: int) -> None:
    expected = f"{line}: has too many values, its aliases written out"
    assert yaml_errors(tmp_path, text) == [expected]


def test_other_aliases_are_read(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("network: {num_cells: &n [64, 64]}\nenv: {kwargs: {a: *n, b: {c: *n}}}")
    config = parse_config(Config, ["--config", str(file)])
    assert config.env.kwargs == {"a": [64, 64], "b": {"c": [64, 64]}}
    file.write_text("env: {kwargs: {<<: {a: 1}}}")
    (line,) = errors(["--config", str(file)])
    assert line == f"{file}:1: could not determine a constructor for the tag '{MERGE}'"


def test_only_regular_files_of_a_moderate_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for special in ("/dev/zero", str(tmp_path / "fifo")):
        expected = f"{special}: cannot be read: it is not a regular file"
        assert errors(["--config", special]) == [expected]
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(2**40)
    (line,) = errors(["--config", str(tmp_path / "large.yaml")])
    assert line.endswith("cannot be read: it has 1,099,511,627,776 bytes, more than 100,000")


def test_a_file_name_may_be_impossible() -> None:
    assert errors(["--config", "a\0b"]) == [r"a\x00b: embedded null byte"]
    (line,) = errors(["--config", "x" * 300])
    assert line.endswith(": cannot be read: File name too long")
    (line,) = errors(["--config", "a\udcff\nb"])
    assert line == r"a\udcff\nb: cannot be read: No such file or directory"


def test_numbers_and_texts_that_nothing_can_hold() -> None:
    (line,) = errors(["--env.max_episode_steps", str(2**63)])
    assert line == f"--env.max_episode_steps: must be an integer of 64 bits, got {2**63}"
    (line,) = errors(["--env.kwargs", f"{{a: [{2**63}]}}"])
    assert line == f"--env.kwargs: must be an integer of 64 bits, got {2**63}"
    for text in ("a\0b", "a\nb", "a\x1b[31mb", "a\udcffb", "a\u2028b"):
        shown = f"must be a text without control characters, got {text!r}"
        assert errors(["--env.id", text]) == [f"--env.id: {shown}"]
    assert errors(["--env.kwargs.a", "b\udcff"]) == [
        r"--env.kwargs.a: must be a text without control characters, got 'b\udcff'"
    ]
    assert parse_config(Config, ["--env.kwargs.a", "b\nc"]).env.kwargs == {"a": "b\nc"}
    assert errors(["--a\nb", "1"]) == [r"unknown option --a\nb; see --help for all options"]


def test_numbers_of_what_is_made_one_by_one_are_modest() -> None:
    (line,) = errors(["--loss.num_qvalue_nets", "1e9"])
    assert line == "--loss.num_qvalue_nets: must be >= 1 and <= 1000, got 1000000000"
    (line,) = errors(["--network.num_cells", str([1] * 1001)])
    assert line.startswith("--network.num_cells: List should have at most 1000 items")
    assert len(line) < 350


def test_whole_numbers_may_be_written_as_floats_in_files(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("replay: {capacity: 1e6}\nseed: 3.0\n")
    config = parse_config(Config, ["--config", str(file)])
    assert (config.replay.capacity, config.seed) == (1_000_000, 3)
    assert type(config.replay.capacity) is int


def test_an_option_without_any_likeness_points_to_help() -> None:
    assert errors(["--xyzzy", "1"]) == ["unknown option --xyzzy; see --help for all options"]


@pytest.mark.parametrize("section", SECTIONS)
def test_defaults_are_valid_and_every_field_has_help(
    section: type, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_config(section, []) == section()
    with pytest.raises(SystemExit) as caught:
        parse_config(section, ["--help"])
    assert caught.value.code == 0
    blocks = capsys.readouterr().out.split("\n  --")[2:]
    fields = [f.name for f in dataclasses.fields(section)]
    assert [block.split()[0] for block in blocks] == fields
    for name, block in zip(fields, blocks, strict=True):
        text = block.replace("\n", " ").split("(type:")[0].split(name, 1)[1]
        sentence = text.split("}", 1)[-1] if text.startswith(" {") else text.split("  ", 1)[-1]
        assert len(sentence.split()) >= 2, name


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcdef.", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@example(kwargs={"name": "0", "nested": {"a": "1e3", "b": ["true"]}})
@given(kwargs=st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), json_values, max_size=4))
def test_a_written_configuration_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, kwargs: dict[str, Any]
) -> None:
    config = Config(env=EnvConfig(kwargs=kwargs), update=UpdateConfig(lr_actor=1e-16))
    file = tmp_path_factory.mktemp("yaml") / "c.yaml"
    file.write_text(to_yaml(dataclasses.asdict(config)), encoding="utf-8")
    assert parse_config(Config, ["--config", str(file)]) == config


@settings(deadline=None, max_examples=50)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_the_command_line(value: float) -> None:
    config = parse_config(Config, [f"--loss.target_entropy={value!r}"])
    assert config.loss.target_entropy == value


def test_entries_know_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("a:\n  b: 1\n\n  c: {d: 2}\ne: 1e3\n")
    settings, problems = read_yaml(file, {"a"})
    assert [(setting.key, setting.value, setting.where) for setting in settings] == [
        ("a.b", 1, f"{file}:2: a.b"),
        ("a.c", {"d": 2}, f"{file}:4: a.c"),
        ("e", 1000.0, f"{file}:5: e"),
    ]
    assert problems == []


@dataclass
class Nested:
    """Two levels."""

    inner: Config = field(default_factory=Config)
    count: PositiveInt = 1
    """How many."""


def test_sections_nest() -> None:
    assert parse_config(Nested, ["--inner.env.num_envs", "4"]).inner.env.num_envs == 4
    with pytest.raises(ConfigError, match=r"--inner\.env\.num_envs: must be >= 1 and .*, got 0"):
        parse_config(Nested, ["--inner.env.num_envs", "0"])


@dataclass
class Limited:
    """A mapping of limited size."""

    weights: Annotated[dict[str, float], Field(max_length=1)] = field(default_factory=dict)
    """Numbers by name."""


def test_a_mapping_with_constraints_takes_entries_too() -> None:
    assert parse_config(Limited, ["--weights.a", "2"]).weights == {"a": 2.0}
    with pytest.raises(ConfigError, match=r"^--weights\.b: Dictionary should have at most 1 item"):
        parse_config(Limited, ["--weights.a", "2", "--weights.b", "3"])


@dataclass
class Checked:
    """Refuses every task."""

    env: EnvConfig = field(default_factory=EnvConfig)
    seed: Seed = 0
    """Seed of the run."""

    def checks(self) -> list[Check]:
        """One check of the whole section."""
        return [Check(("env.id", "env"), self.refuse)]

    def refuse(self) -> None:
        raise ConfigError("no such task\nno such bounds")


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (["--seed", "x"], ["--seed: expected an integer, got 'x'", "env.id: no such task"]),
        (
            ["--seed", "x", "--env.id", "A-v0"],
            ["--seed: expected an integer, got 'x'", "--env.id: no such task"],
        ),
        (["--env.num_envs", "x"], ["--env.num_envs: expected an integer, got 'x'"]),
        (["--env.num_envs", "0"], ["--env.num_envs: must be >= 1 and <= 10000, got 0"]),
        (["--env.idd", "A-v0"], ["unknown option --env.idd; did you mean --env.id?"]),
    ],
)
def test_checks_run_only_on_what_could_be_read(argv: list[str], lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(Checked, argv)
    assert str(caught.value).splitlines()[: len(lines)] == lines
    assert ("no such" in str(caught.value)) == any("no such" in line for line in lines)


def test_options_without_errors_leave_the_checks_to_the_run() -> None:
    config = parse_config(Checked, ["--env.id", "A-v0"])
    with pytest.raises(ConfigError, match=r"^env\.id: no such task\nenv\.id: no such bounds$"):
        check_config(config)


RENAMED = "update.products is now update.matmul_precision"


def test_an_option_by_its_old_name_brings_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text("seed: 1\nupdate:\n  products: exact\n")
    with pytest.raises(ConfigError) as caught:
        parse_config(Config, ["--config", str(file), "--update.products", "auto"])
    assert str(caught.value).splitlines() == [
        f"{file}:3: update.products: unknown key; {RENAMED}",
        f"unknown option --update.products; {RENAMED}",
    ]


def test_old_names_are_those_of_options_that_there_are() -> None:
    options = flat_config(RunConfig())
    assert set(flat.RENAMED.values()) <= set(options)
    assert not set(flat.RENAMED) & set(options)
