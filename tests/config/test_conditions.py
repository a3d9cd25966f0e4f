"""Ranges, conditions and checks of a configuration come together in one list."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rlkit_sac.config import LoggingConfig
from rlkit_sac.config.options import PositiveInt, check_config, config_errors
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

    def errors(self) -> list[tuple[str, str]]:
        """A condition on two options."""
        return [("count", "too many")] if self.count > 5 and self.section.name != "b" else []


def test_a_condition_adds_a_pair_unless_its_option_is_refused_already() -> None:
    assert config_errors(Config(count=6)) == [("count", "too many")]
    assert config_errors(Config(count=6), wrong=["count"]) == []


def test_check_config_raises_all_lines_at_once() -> None:
    check_config(Config())
    with pytest.raises(ConfigError) as caught:
        check_config(Config(count=6, section=Section(count=0)))
    assert str(caught.value).splitlines() == [
        "section.count: must be greater than or equal to 1, got 0",
        "count: too many",
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
