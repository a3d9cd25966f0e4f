"""The search space of a sweep: which options its trials change, within which limits."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rlkit_sac.config.bounds import without_limits
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.config.flat import Option, options_of
from rlkit_sac.config.read import read_yaml, unknown_option
from rlkit_sac.config.values import read_value
from rlkit_sac.errors import one_line, refuse

Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
_SAME_IN_ALL = ("seed", "resume", "time_limit", "evaluation", "logging", "checkpoint")


def read_space(file: Path, config: Any) -> dict[str, Distribution]:
    """Read a search space and check it against the options of a recipe.

    The file maps options to ``{low, high}``, with ``log: true`` or a ``step`` if wanted, or to
    ``{choices: [...]}``. The configuration's own value must be among them, since the first trial
    runs it.

    Args:
        file: a YAML file.
        config: of the recipe, without errors.

    Returns:
        What Optuna draws from, by dotted key; lists and mappings are JSON texts.

    Raises:
        ConfigError: with a line for each problem.

    >>> import tempfile
    >>> from rlkit_sac.runs import RunConfig
    >>> file = Path(tempfile.mkdtemp()) / "space.yaml"
    >>> _ = file.write_text("update.lr_actor: {low: 1e-5, high: 1e-2, log: true}")
    >>> read_space(file, RunConfig())
    {'update.lr_actor': FloatDistribution(high=0.01, log=True, low=1e-05, step=None)}
    """
    options = options_of(config)
    settings = read_yaml(file, config)
    problems = [] if settings else [f"{file}: names no option"]
    space: dict[str, Distribution] = {}
    for setting in settings:
        key = setting.key
        if key not in options:
            problems.append(f"{setting.where}: {unknown_option(key, options)}")
            continue
        try:
            if {key, key.partition(".")[0]} & set(_SAME_IN_ALL):
                raise ValueError("is the same in all trials: take it out")
            space[key] = _distribution(setting.value, options[key])
        except (TypeError, ValueError) as error:
            problems.append(f"{setting.where}: {error}")
            continue
        problems += [
            f"{setting.where}: {'' if name == key else f'{name}: '}{text}"
            for value in _limits(space[key])
            for name, text in config_errors(configure(config, {key: value}), checks=[])
        ]
    refuse([one_line(problem) for problem in dict.fromkeys(problems)])
    return space


def _distribution(given: Any, option: Option) -> Distribution:
    """What Optuna draws the values of an option from."""
    own = encode(option.value)
    is_number = isinstance(own, int | float) and not isinstance(own, bool)
    found: Distribution
    match given:
        case {"choices": [_, *_] as choices}:
            values = [encode(read_value(value, option.hint)) for value in choices]
            found, is_inside = CategoricalDistribution(values), own in values
        case {"low": _, "high": _} if is_number:
            is_float = float in {hint := without_limits(option.hint), *get_args(hint)}
            number = float if is_float else int
            limits = {k: read_value(v, bool if k == "log" else number) for k, v in given.items()}
            found = (FloatDistribution if is_float else IntDistribution)(**limits)
            is_inside = found.low <= own <= found.high
        case _:
            ranges = "{low: ..., high: ...}, with log: true or step: ..., or " if is_number else ""
            raise ValueError(f"expected {ranges}{{choices: [...]}}, got {given!r}")
    if not is_inside:
        text = f"must hold the value of the configuration itself, {option.value!r}"
        raise ValueError(f"{text}, which the first trial runs")
    return found


def _limits(distribution: Distribution) -> Sequence[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    return distribution.low, distribution.high


def encode(value: Any) -> Any:
    """The value of an option as Optuna can store it: lists and mappings become JSON texts."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def configure(config: Any, params: Mapping[str, Any]) -> Any:
    """A copy of a configuration with the options of a trial.

    Args:
        config: of the recipe.
        params: of the trial, by dotted key.

    >>> from rlkit_sac.runs import RunConfig
    >>> configure(RunConfig(), {"network.num_cells": "[64]"}).network.num_cells
    [64]
    """
    config = copy.deepcopy(config)
    options = options_of(config)
    for key, value in params.items():
        is_json = isinstance(value, str) and value.startswith(("[", "{"))
        setattr(options[key].section, options[key].name, json.loads(value) if is_json else value)
    return config
