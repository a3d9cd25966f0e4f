"""Command lines drawn at random: a valid configuration, or lines of errors.

The quick tests draw a few hundred, always the same; the slow ones thousands.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlkit_sac.config.conditions import Check, check_config, config_errors
from rlkit_sac.config.flat import options_of
from rlkit_sac.config.read import parse_config, to_yaml
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig


@dataclasses.dataclass
class Options(RunConfig):
    """The options of a run without the checks of machine and task."""

    def checks(self, open_env: Any = None) -> list[Check]:
        """None."""
        return []


QUICK, MANY = 300, 5_000
SECONDS = 30  # far more than any example takes, but no file may take minutes

OPTIONS = options_of(RunConfig())
SECTIONS = sorted({key.rpartition(".")[0] for key in OPTIONS} - {""})
ENTRIES = [f"{key}.x" for key, option in OPTIONS.items() if isinstance(option.value, dict)]
VALUES = [
    *("", "0", "1", "-1", "2", "3.0", "0.5", "-0.0", "1e3", "1e400", "-1e400", "1e-400", "5e-324"),
    *("9" * 19, "0x10", "010", "1_000", ".nan", ".inf", "-.inf", "nan", "inf", "true", "false"),
    *("yes", "null", "~", "auto", "'1'", "[]", "[1]", "[64, 64]", "[1, [2]]", "{}", "{a: 1}"),
    *("{a: {b: [1, null]}}", "{0: 1}", "{1: [1.0]}", "{lr_actor: {0: 0.1, 10: 0}}", "[joint]"),
    *("[[actor, qvalue], target]", "{actor: 2}", "*a", "&a 1", "!!set", "2026-11-22", "=", "<<"),
    *("{<<: {a: 1}}", "- 1", "? a", "{[1]: 2}", "a: b: c", "# 1", "%", "@", "`", "|", ">", "'"),
    *("x" * 100, "/dev/null", "..", "cpu", "cuda:99", "meta", "Pendulum-v1", "light", "torchrl"),
    *("memmap", "min", "mean", "l2", "expected"),
]
texts = st.text(max_size=20)
hostile = st.integers(0, len(VALUES) - 1).map(VALUES.__getitem__)
values = hostile | texts | st.integers().map(str) | st.floats().map(repr)
options = st.sampled_from([*OPTIONS, *ENTRIES, *SECTIONS])
names = options | options | options | texts | hostile
words = st.one_of(
    st.tuples(names, values).map(lambda pair: [f"--{pair[0]}={pair[1]}"]),
    st.tuples(names, values).map(lambda pair: [f"--{pair[0]}", pair[1]]),
    st.tuples(names).map(lambda name: [f"--{name[0]}"]),
    st.tuples(values).map(list),
)
#: Without --config and --resume, which name files, and --help, which ends the program.
command_lines = (
    st.lists(words, max_size=6)
    .map(lambda lists: [word for each in lists for word in each])
    .filter(lambda argv: not any(word.startswith(("--config", "--resume")) for word in argv))
    .filter(lambda argv: not {"-h", "--help"} & {word.partition("=")[0] for word in argv})
)


def are_lines(error: ConfigError, *places: str) -> None:
    """Each begins with an option or file."""
    for line in str(error).split("\n"):
        assert line.isprintable()
        assert len(line) < 1_100
        assert line.startswith(("--", "unexpected argument ", *places, *OPTIONS))


def is_valid_or_refused(argv: list[str], *places: str) -> Options | None:
    """The configuration, which reads back equal from its own file; None if it was refused."""
    start = time.monotonic()
    try:
        config = parse_config(Options, argv)
    except ConfigError as error:
        are_lines(error, *places)
        return None
    finally:
        assert time.monotonic() - start < SECONDS
    assert config_errors(config) == []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(to_yaml(dataclasses.asdict(config)), encoding="utf-8")
        again = parse_config(Options, ["--config", str(file)])
    assert repr(again) == repr(config)  # NaN, which an environment may take, is not equal to itself
    return config


def command_line(argv: list[str]) -> None:
    is_valid_or_refused(argv)


def checked_run(argv: list[str]) -> None:
    """All that a recipe checks of the machine and the task before it makes anything."""
    config = is_valid_or_refused(argv)
    if config is None:
        return
    exists = Path(config.logging.dir).exists()
    try:
        check_config(config, checks=RunConfig.checks(config))
    except ConfigError as error:
        are_lines(error)
    assert os.listdir(tempfile.gettempdir()) == []
    assert Path(config.logging.dir).exists() == exists


@st.composite
def plausible(draw: st.DrawFn) -> list[str]:
    """A command line whose options are mostly of their types."""
    numbers = st.sampled_from(["1", "2", "7", "64", "1e3", "1e6", "1e9", "1e15", str(2**63 - 1)])
    shares = st.sampled_from(["0", "1", "0.5", "1e-3", "1e-300", "5e-324"])
    argv = []
    for key in draw(st.lists(st.sampled_from(list(OPTIONS)), min_size=1, max_size=5, unique=True)):
        kind = type(OPTIONS[key].value)
        drawn = {
            int: numbers,
            float: shares,
            bool: st.sampled_from(["true", "false"]),
            list: st.lists(numbers, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        }
        argv.append(f"--{key}={draw(drawn.get(kind, values | numbers))}")
    return [word for word in argv if not word.startswith(("--resume", "--logging.wandb="))]


def fuzzed(test: Callable[[Any], None], drawn: st.SearchStrategy[Any], examples: int) -> None:
    shrinking = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=shrinking,
    )(given(drawn)(test))()


@pytest.mark.parametrize(
    ("test", "drawn", "share"),
    [(command_line, command_lines, 2), (checked_run, plausible(), 6)],
    ids=["command lines", "checks"],
)
@pytest.mark.parametrize("examples", [QUICK, pytest.param(MANY, marks=pytest.mark.slow)])
def test_each_is_valid_or_refused_in_single_lines(
    test: Callable[[Any], None],
    drawn: st.SearchStrategy[Any],
    share: int,
    examples: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "working").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    fuzzed(test, drawn, examples if examples == MANY else examples // share)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["temporary", "working"]
