import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlkit_sac import config as sections
from rlkit_sac.config import (
    EnvConfig,
    GaussianNetworkConfig,
    LoggingConfig,
    PlainContinuousLossConfig,
    ReplayConfig,
    UpdateConfig,
)
from rlkit_sac.config.options import (
    PositiveFloat,
    Seed,
    check_config,
    config_errors,
    limits_of,
    read_values,
)
from rlkit_sac.config.read import parse_config, set_options, to_yaml
from rlkit_sac.errors import ConfigError

SECTIONS = [
    each
    for name, each in vars(sections).items()
    if name.endswith("Config") and not name.endswith("RunConfig")
]


@dataclass
class Config:
    """Train something."""

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="CartPole-v1"))
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: GaussianNetworkConfig = field(default_factory=GaussianNetworkConfig)
    loss: PlainContinuousLossConfig = field(default_factory=PlainContinuousLossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    seed: Seed = 0
    """Seed of the run."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the update."""


def errors(argv: list[str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(Config, argv)
    return str(caught.value).splitlines()


def test_precedence_is_defaults_then_yaml_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("seed: 1\nupdate:\n  lr_actor: 1e-3\n  lr_alpha: 0.5\n")
    config = parse_config(Config, ["--seed", "7", "--config", str(file), "--update.lr_alpha=2"])
    assert (config.seed, config.update.lr_actor, config.update.lr_alpha) == (7, 1e-3, 2.0)
    assert config.env.id == "CartPole-v1"
    assert config.update.lr_qvalue == UpdateConfig().lr_qvalue


def test_a_file_builds_upon_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("update: {lr_actor: 1, lr_alpha: 2}\nseed: 3\n")
    (tmp_path / "b.yaml").write_text("update: {lr_alpha: 4}\nconfig: a.yaml\n")
    config = parse_config(Config, ["--config", f"{tmp_path}/b.yaml", "--seed", "5"])
    assert (config.update.lr_actor, config.update.lr_alpha, config.seed) == (1, 4, 5)
    for other, text in {"c.yaml": "cannot be read", "b.yaml": "builds upon itself"}.items():
        (tmp_path / "a.yaml").write_text(f"config: {other}")
        (error,) = errors(["--config", f"{tmp_path}/b.yaml"])
        assert "a.yaml: config: " in error
        assert text in error


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
            ["--update.schedules", "{lr_actor: {0: 1e-3, 1e3: 0}}"],
            "update",
            {"schedules": {"lr_actor": {0: 1e-3, 1000: 0.0}}},
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


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("sed: 1\nloss:\n  gamma: 2\n  gama: 1\nupdate: {lr_actor: fast}\n")
    argv = ["--config", str(file), "--seed", "1.5", "--replay.capacity", "10", "--num_cells", "[1]"]
    assert sorted(errors(argv)) == sorted(
        [
            f"{file}: sed: unknown option; did you mean seed?",
            f"{file}: loss.gamma: must be less than or equal to 1, got 2",
            f"{file}: loss.gama: unknown option; did you mean loss.gamma?",
            f"{file}: update.lr_actor: must be a valid number, got 'fast'",
            "--seed: must be a valid integer, got 1.5",
            "--replay.capacity: must be at least batch_size (256), got 10",
            "--num_cells: unknown option; did you mean --network.num_cells?",
        ]
    )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--update.lr_actor", "0"], "--update.lr_actor: must be greater than 0, got 0"),
        (["--update.lr_actor", "1e999"], "--update.lr_actor: must be a finite number, got inf"),
        (["--network.num_cells", "[64,0]"], "--network.num_cells: must be greater than or equal"),
        (["--update.periods.target", "0"], "--update.periods.target: must be greater than or"),
        (["--loss.fixed_alpha", "1"], "--loss.fixed_alpha: must be a valid boolean, got 1"),
        (["--seed", "true"], "--seed: must be a valid integer, got True"),
        (["--seed", "4294967297"], "--seed: must be less than 4294967296, got 4294967297"),
        (["--replay.storage", "disk"], "--replay.storage: must be 'tensor' or 'memmap', got "),
        (["--loss.target_entropy", "x"], "--loss.target_entropy: must be a valid number or 'auto'"),
        (["--update.periods", "{actr: 2}"], "--update.periods: must name steps of order"),
        (["--update.order", "[joint,[qvalue,3]]"], "--update.order: must be 'actor', 'qvalue' or"),
        (["--update.periods", "{actor: 0}"], "--update.periods: must be greater than or"),
        (["--seed"], "--seed: needs a value; write --seed VALUE"),
        (["--seed", "--compile=auto"], "--seed: needs a value; write --seed VALUE"),
        (["--seed="], "--seed: needs a value; write --seed VALUE"),
        (["--sed", "1"], "--sed: unknown option; did you mean --seed?"),
        (["--lr", "1"], "--lr: unknown option; did you mean --update.lr_actor or --update.lr_"),
        (["--critic", "1"], "--critic: unknown option; did you mean --network.critic_keys or --netw"
         "ork.critic_layer_norm or --network.critic_dropout?"),
        (["--xyzzy", "1"], "--xyzzy: unknown option; see --help all"),
        (["--env", "A-v0"], "--env: is a section; its options are --env.id, --env.num_envs, "),
        (["--network.num_cells", "64,64"], "--network.num_cells: must be a valid list, got '64,64'"
         "; write '[64,64]'"),
        (["--seed", "0", "1", "2"], "--seed: takes one value; several are written 0,1,2"),
        (["seed"], "unexpected argument 'seed'; options are written --name value"),
        (["--seed", "1", "--seed=2"], "--seed: is given 2 times; give it once"),
        (["--env.kwargs.a=1", "--env.kwargs.a=1"], "--env.kwargs.a: is given 2 times; give it"),
        (["--config", "no/such.y"], "--config: no/such.y cannot be read: [Errno 2] No such"),
    ],
)  # fmt: skip
def test_bad_option(argv: list[str], line: str) -> None:
    (found,) = errors(argv)
    assert found.startswith(line)


@pytest.mark.parametrize("section", SECTIONS)
def test_defaults_are_valid_and_every_field_has_help(
    section: type, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_config(section, []) == section()
    with pytest.raises(SystemExit) as caught:
        parse_config(section, ["--help", "all"])
    assert caught.value.code == 0
    blocks = capsys.readouterr().out.split("\n  --")[2:]
    fields = [f.name for f in dataclasses.fields(section)]
    assert [block.split()[0] for block in blocks] == fields
    for name, block in zip(fields, blocks, strict=True):
        text = block.replace("\n", " ").split("(default:")[0].split(name, 1)[1]
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
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers(), inner, max_size=3)
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


def test_values_of_python_stay_what_they_are() -> None:
    config = Config()
    kwargs = {"mode": "no", "bounds": (0.5, "1e3"), "levels": {1: math.inf}, "make": print}
    given = {"env.kwargs": kwargs, "env.kwargs.other": "null", "seed": np.int64(7)}
    where, problems = set_options([config], given)
    assert problems == []
    assert where["seed"] == "seed"
    assert (config.env.kwargs, config.seed) == ({**kwargs, "other": "null"}, 7)
    _, problems = set_options([Config()], {"update.periods": print, "seed": "7"})
    assert problems == [
        f"update.periods: must be a valid dictionary, got {print!r}",
        "seed: must be a valid integer, got '7'",
    ]


def test_what_a_file_cannot_hold_is_described_and_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(to_yaml({"env": {"kwargs": {"make": [print], "size": 3}}}))
    config = parse_config(Config, ["--config", str(file)])
    assert config.env.kwargs == {"make": [max], "size": 3}  # equal to any object, for a resume
    with pytest.raises(ConfigError, match=r"env\.kwargs\.make was <built-in function print>"):
        config.env.arguments()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("no", "no"), ("9:30", "9:30"), ("1_000", "1_000"), ("2020-01-01", "2020-01-01")),
        *(("010", 10), ("1e3", 1000.0), ("-.inf", -math.inf), ("true", True)),
        *(('"7"', "7"), ("'null'", "null"), ("null", None), ("#5", "#5"), ("a: b", {"a": "b"})),
        *(("[1, no]", [1, "no"]), ("{a: 07}", {"a": 7}), ("[1,", "[1,")),
    ],
)
def test_arguments_of_the_task_are_read_as_yaml_1_2(text: str, value: Any) -> None:
    found = parse_config(Config, [f"--env.kwargs.mode={text}"]).env.kwargs["mode"]
    assert (found, type(found)) == (value, type(value))


def test_a_limit_is_named_wherever_its_number_stands() -> None:
    hint = PositiveFloat | list[PositiveFloat | None] | None
    assert limits_of(hint) == "> 0"
    numbers = dict[int, list[float]]
    values = {"a": [0.1, 0.0], "b": {1: [1.0], 2: [math.nan]}, "c": [1.0]}
    assert read_values({"a": hint, "b": numbers, "c": hint}, values) == (
        {"c": [1.0]},
        {"a": "must be greater than 0, got 0.0", "b.2": "must be a finite number, got nan"},
    )


def test_ranges_and_conditions_come_in_one_list_without_those_on_refused_options() -> None:
    few = ReplayConfig(capacity=10)
    assert config_errors(few) == [("capacity", "must be at least batch_size (256), got 10")]
    assert config_errors(few, wrong=["capacity"]) == []
    of_another_type: Any = "two"
    assert config_errors(ReplayConfig(capacity=of_another_type)) == [
        ("capacity", "must be a valid integer, got 'two'")
    ]
    check_config(Config())
    with pytest.raises(ConfigError) as caught:
        check_config(Config(replay=few, loss=PlainContinuousLossConfig(gamma=2.0)))
    assert sorted(str(caught.value).splitlines()) == [
        "loss.gamma: must be less than or equal to 1, got 2.0",
        "replay.capacity: must be at least batch_size (256), got 10",
    ]
    assert config_errors(LoggingConfig(dir="")) == [
        ("dir", "String should have at least 1 character, got ''")
    ]
