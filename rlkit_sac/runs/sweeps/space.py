"""The search space of a sweep: which options its trials change, within which limits."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rlkit_sac.config.bounds import without_limits
from rlkit_sac.config.command_line import Setting
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.config.flat import Option, options_of, sections_of
from rlkit_sac.config.names import unknown_option
from rlkit_sac.config.values import read_value, shown
from rlkit_sac.config.yaml_file import read_yaml
from rlkit_sac.errors import ConfigError, one_line

_SAME_IN_ALL = ("seed", "resume", "time_limit", "evaluation", "logging", "checkpoint")


@dataclass(frozen=True)
class SearchSpace:
    """The options that the trials of a sweep change.

    Args:
        distributions: by dotted key.
        choices: of options with choices, by what Optuna calls them: lists and mappings are JSON
            texts. Empty for a range.
        default: the setting of the configuration itself.
    """

    distributions: Mapping[str, BaseDistribution]
    choices: Mapping[str, Mapping[Any, Any]]
    default: Mapping[str, Any]

    def configure(self, config: Any, params: Mapping[str, Any]) -> Any:
        """A copy of a configuration with the options of a trial.

        Args:
            config: of the recipe.
            params: of the trial.
        """
        return _with(config, {key: self.choices[key].get(v, v) for key, v in params.items()})


def find_space(given: str | None, config_class: type[object]) -> Path:
    """The file of a search space: the given one, or ``spaces/<recipe>.yaml`` beside the recipe.

    Args:
        given: the option.
        config_class: the configuration, which the script of the recipe defines.

    Raises:
        ConfigError: if the recipe has none.

    >>> find_space("my_space.yaml", dict)
    PosixPath('my_space.yaml')
    """
    if given is not None:
        return Path(given)
    script = recipe_script(config_class)
    file = script.parent / "spaces" / f"{script.stem}.yaml"
    if not file.is_file():
        raise ConfigError(f"{script.name} comes without a search space: give one, --space FILE")
    return file


def recipe_script(config_class: type[object]) -> Path:
    """The script that defines a configuration."""
    return Path(getattr(sys.modules.get(config_class.__module__), "__file__", None) or "recipe")


def read_space(file: Path, config: Any) -> SearchSpace:
    """Read a search space and check it against the options of a recipe.

    The file maps options to ``{low, high}``, with ``log: true`` or a ``step`` if wanted, or to
    ``{choices: [...]}``. The configuration's own value must be among them, since the first trial
    runs it.

    Args:
        file: a YAML file.
        config: of the recipe, without errors.

    Raises:
        ConfigError: with a line for each problem.

    >>> import tempfile
    >>> from rlkit_sac.runs import RunConfig
    >>> file = Path(tempfile.mkdtemp()) / "space.yaml"
    >>> _ = file.write_text("update.lr_actor: {low: 1e-5, high: 1e-2, log: true}")
    >>> read_space(file, RunConfig()).default
    {'update.lr_actor': 0.0003}
    """
    options = options_of(config)
    settings, problems = read_yaml(file, {prefix[:-1] for prefix, _ in sections_of(config)})
    if not settings and not problems:
        problems = [f"{file}: names no option"]
    distributions, choices, default = dict[str, BaseDistribution](), dict[str, Any](), {}
    for setting in settings:
        key = setting.key
        if key not in options:
            problems.append(unknown_option(setting, options))
            continue
        try:
            if {key, key.partition(".")[0]} & set(_SAME_IN_ALL):
                raise ValueError("is the same in all trials: take it out")
            distributions[key], choices[key], tried = _read_dimension(setting, options[key])
        except (TypeError, ValueError) as error:
            problems.append(f"{setting.where}: {error}")
            continue
        default[key] = _name(options[key].value)
        problems += [
            f"{setting.where}: {'' if name == key else f'{name}: '}{text}"
            for value in tried
            for name, text in config_errors(_with(config, {key: value}), checks=[])
        ]
        if not _holds(distributions[key], default[key]):
            text = f"must hold the value of the configuration itself, {shown(options[key].value)}"
            problems.append(f"{setting.where}: {text}, which the first trial runs")
    if problems:
        raise ConfigError("\n".join(one_line(problem) for problem in dict.fromkeys(problems)))
    return SearchSpace(distributions, choices, default)


def _read_dimension(
    setting: Setting, option: Option
) -> tuple[BaseDistribution, dict[Any, Any], Sequence[Any]]:
    """What Optuna draws from, its choices by their names, and the values to check."""
    given = setting.value if isinstance(setting.value, dict) else {}
    if given.keys() == {"choices"} and isinstance(given["choices"], list) and given["choices"]:
        values = [read_value(value, option.hint) for value in given["choices"]]
        choices = {_name(value): value for value in values}
        return CategoricalDistribution(list(choices)), choices, values
    if not {"low", "high"} <= given.keys() <= {"low", "high", "log", "step"}:
        wanted = "{low: ..., high: ...}, with log: true or step: ..., or {choices: [...]}"
        raise ValueError(f"expected {wanted}, got {shown(setting.value)}")
    hint = without_limits(option.hint)
    types = {hint} if get_origin(hint) is list else {hint, *get_args(hint)}
    if not types & {int, float}:
        raise ValueError("is not a number: give {choices: [...]}")
    number: Any = float if float in types else int
    low, high = number(read_value(given["low"], number)), number(read_value(given["high"], number))
    log, step = read_value(given.get("log", False), bool), given.get("step")
    found: FloatDistribution | IntDistribution
    if number is float:
        found = FloatDistribution(low, high, log=log, step=read_value(step, float | None))
    else:
        step = read_value(1 if step is None else step, int)
        found = IntDistribution(low, high, log=log, step=step)
    return found, {}, (found.low, found.high)


def _with(config: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a configuration with other values, by dotted key."""
    config = copy.deepcopy(config)
    options = options_of(config)
    for key, value in values.items():
        setattr(options[key].section, options[key].name, value)
    return config


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(distribution, FloatDistribution | IntDistribution):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and distribution.low <= value <= distribution.high
    return isinstance(distribution, CategoricalDistribution) and value in distribution.choices


def _name(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
