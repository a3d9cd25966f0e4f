"""What the numbers of an earlier run mean: the units of its observations and actions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from torchrl.envs import EnvBase

from rlkit_sac.envs import describe_task
from rlkit_sac.envs.observations import is_image
from rlkit_sac.envs.spaces import leaves, path_str
from rlkit_sac.envs.task_tensors import make_conversions
from rlkit_sac.errors import ConfigError


def check_units(stored: dict[str, Any] | None, env: EnvBase, run: Path | str) -> None:
    """Refuse to take over data or networks of a run whose numbers have other meanings.

    Args:
        stored: the description of the earlier run's task, if it has one.
        env: the environment of the present run.
        run: the directory of the earlier run.

    Raises:
        ConfigError: naming the option, or the property of the actions, that differs.
    """
    own = describe_task(env)
    if stored is None or own is None:
        if stored is not own:
            text = "one of the environments has transforms of its own"
            warnings.warn(f"what the numbers of {run} mean is not known: {text}", stacklevel=2)
        return
    (seen, before), (sees, now) = make_conversions(stored), make_conversions(own)
    found, wanted = (
        [(path_str(path), _kind(leaf)) for path, leaf, _ in leaves(c.space)] for c in (seen, sees)
    )
    _check_equal("the parts of the observation", found, wanted, run)
    if before.agent_space().__class__ is not now.agent_space().__class__:
        return  # the shapes of the data or weights will not fit
    if not (np.all(now.low == -1) and np.all(now.high == 1)):  # else rescaling changes nothing
        _check_equal("env.rescale_actions", before.rescale, now.rescale, run)
    _check_equal(
        "env.observation_indices", stored["observation_indices"], own["observation_indices"], run
    )
    names = {"low": "lower bounds", "high": "upper bounds", "counts": "choices", "starts": "starts"}
    for name, text in names.items():
        found, wanted = (getattr(each, name).tolist() for each in (before, now))
        _check_equal(f"the {text} of the actions", found, wanted, run)


def _kind(leaf: Space[Any]) -> Any:
    """Return what must be equal for the numbers of a part of an observation to mean the same."""
    return list(leaf.shape) if isinstance(leaf, Box) and not is_image(leaf) else str(leaf)


def _check_equal(name: str, found: Any, wanted: Any, run: Path | str) -> None:
    if found != wanted:
        text = "the same numbers would mean two things"
        raise ConfigError(f"in {run} {name} was {found}, and is {wanted} here: {text}")
