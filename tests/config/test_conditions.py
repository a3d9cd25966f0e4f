"""Ranges, conditions and checks of a configuration come together in one list."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rlkit_sac.config import CollectorConfig, WarmStartConfig
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


def test_numbers_are_checked_at_every_depth() -> None:
    @dataclass
    class Deep:
        """Numbers in lists in a mapping."""

        numbers: dict[int, list[float]]
        """Any."""

    assert config_errors(Deep({1: [1.0, 2.0]})) == []
    assert config_errors(Deep({1: [1.0], 2: [0.0, float("nan")]})) == [
        ("numbers", "must be a finite number, got nan")
    ]


def test_more_frames_than_a_run_can_have_are_refused() -> None:
    text = "must be less than or equal to 1000000000000, got 1000000000001"
    assert config_errors(CollectorConfig(total_frames=10**12 + 1)) == [("total_frames", text)]
    assert config_errors(CollectorConfig(total_frames=10**12)) == []


def test_a_check_is_left_out_where_what_it_reads_is_out_of_range() -> None:
    assert config_errors(Config(section=Section(count=0, name="b"))) == [
        ("section.count", "must be greater than or equal to 1, got 0")
    ]


@pytest.mark.parametrize("wrong", ["device", "section.name", "section.nam"])
def test_a_check_is_left_out_where_what_it_reads_could_not_be_read(wrong: str) -> None:
    assert config_errors(Config(count=6), [wrong]) == []
    assert config_errors(Config(count=6), ["other", "sectional.name"]) == [("count", "too many")]


def test_conditions_between_fields_are_left_out_for_fields_that_could_not_be_read() -> None:
    @dataclass
    class Whole:
        warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)

    config = Whole(WarmStartConfig(run="runs/a", modules=[]))
    text = "must name at least one module to take from run"
    assert config_errors(config) == [("warm_start.modules", text)]
    assert config_errors(config, ["warm_start.modules"]) == []


def test_check_config_raises_all_lines_at_once() -> None:
    check_config(Config())
    with pytest.raises(ConfigError) as caught:
        check_config(Config(device="x", section=Section(count=0)))
    assert str(caught.value).splitlines() == [
        "section.count: must be greater than or equal to 1, got 0",
        "device: no such device",
    ]


def test_a_module_is_named_once() -> None:
    assert config_errors(WarmStartConfig(modules=["actor", "actor"])) == [
        ("modules", "must name each module once, got ['actor', 'actor']")
    ]


def test_no_condition_sees_values_of_other_types() -> None:
    config = Config(device=3, section=Section(count="two", name="b"))  # type: ignore[arg-type]
    assert config_errors(config) == [
        ("section.count", "must be a valid integer, got 'two'"),
        ("device", "must be a valid string, got 3"),
    ]
