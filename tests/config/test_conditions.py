"""Ranges, conditions and checks of a configuration come together in one list."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rlkit_sac.config import LoggingConfig
from rlkit_sac.config.bounds import PositiveInt
from rlkit_sac.config.conditions import Check, check_config, config_errors
from rlkit_sac.errors import ConfigError


@dataclass
class Section:
    """A section."""

    count: PositiveInt = 1
    """How many."""
    name: str = "a"
    """Which."""


@dataclass
class Config:
    """Checks its section against the world."""

    section: Section = field(default_factory=Section)
    device: str = "cpu"
    """Where."""
    count: PositiveInt = 1
    """How many."""

    def checks(self) -> list[Check]:
        """Three checks, the last of which needs what the first two judge."""
        return [
            Check(("device",), lambda: refuse(self.device != "cpu", "no such device")),
            Check(("section.name", "section"), lambda: refuse(self.section.name == "b", "b\nis")),
            Check(("count", "device", "section"), lambda: refuse(self.count > 5, "too many")),
        ]


def refuse(condition: bool, message: str) -> None:
    if condition:
        raise ConfigError(message)


def test_checks_add_a_pair_for_each_line() -> None:
    assert config_errors(Config(device="x", section=Section(name="b"))) == [
        ("device", "no such device"),
        ("section.name", "b"),
        ("section.name", "is"),
    ]
    assert config_errors(Config(count=6)) == [("count", "too many")]


@pytest.mark.parametrize(
    "config",
    [Config(device="x", count=6), Config(section=Section(name="b"), count=6)],
    ids=["field", "section"],
)
def test_a_check_is_left_out_where_what_it_reads_is_refused_already(config: Config) -> None:
    assert ("count", "too many") not in config_errors(config)


def test_check_config_raises_all_lines_at_once() -> None:
    check_config(Config())
    with pytest.raises(ConfigError) as caught:
        check_config(Config(device="x", section=Section(count=0)))
    assert str(caught.value).splitlines() == [
        "section.count: must be greater than or equal to 1, got 0",
        "device: no such device",
    ]


def test_no_condition_sees_values_of_other_types() -> None:
    config = Config(device=3, section=Section(count="two", name="b"))  # type: ignore[arg-type]
    assert config_errors(config) == [
        ("section.count", "must be a valid integer, got 'two'"),
        ("device", "must be a valid string, got 3"),
    ]


def test_the_folder_of_runs_has_a_name() -> None:
    assert config_errors(LoggingConfig(dir="")) == [
        ("dir", "String should have at least 1 character, got ''")
    ]
