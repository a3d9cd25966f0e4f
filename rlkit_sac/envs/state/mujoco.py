"""The state of a MuJoCo simulation: every array of its ``MjData`` whose size the model fixes.

MuJoCo's own list of state variables is not enough here: an environment may read, after a step,
derived quantities that MuJoCo has not brought up to date since (contact forces in Ant, for one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlkit_sac.envs.state.plain_data import CannotSaveError
from rlkit_sac.errors import ConfigError


def is_mujoco(value: Any, name: str) -> bool:
    """Whether a value is of one of MuJoCo's own types, ``MjModel`` or ``MjData``.

    >>> is_mujoco(1.0, "MjData")
    False
    """
    kind = type(value)
    return kind.__name__ == name and str(getattr(kind, "__module__", "")).startswith("mujoco.")


def read_data(data: Any) -> dict[str, Any]:
    """Returns the arrays by name, and the scalars that are numbers of the simulation or flags.

    Args:
        data: a ``mujoco.MjData``.

    Raises:
        CannotSaveError: the model has plugins, which keep memory of their own, or an array has
            another size than the model gives it at first.
    """
    if data.model.nplugin:
        raise CannotSaveError("a MuJoCo model with plugins cannot be saved")
    fresh = type(data)(data.model)
    state: dict[str, Any] = {}
    for name in dir(data):
        if name.startswith("_"):
            continue
        value = getattr(data, name)
        if isinstance(value, (bool, float)):
            state[name] = value
        elif isinstance(value, np.ndarray):
            size = getattr(fresh, name).size
            if value.size == size:
                # What is empty in fresh data (constraints, islands) is made anew in each step.
                state.update({name: value.copy()} if size else {})
            elif size:
                raise CannotSaveError(f"MuJoCo's {name} changes its size and cannot be saved")
    return state


def write_data(data: Any, state: dict[str, Any], path: str) -> None:
    """Copies what :func:`read_data` returned into the arrays of a simulation of the same model.

    Args:
        data: a ``mujoco.MjData``.
        state: arrays and scalars by name.
        path: where the data belongs, for the error.

    Raises:
        ConfigError: an array is missing or has another shape.
    """
    for name, saved in state.items():
        current = getattr(data, name, None)
        if not isinstance(current, np.ndarray):
            if type(current) is not type(saved):
                raise ConfigError(_misfit(f"{path}.{name}", "another version of MuJoCo has it"))
            setattr(data, name, saved)
        elif (shape := np.shape(saved)) != current.shape:
            reason = f"it has shape {list(shape)} there and {list(current.shape)} here"
            raise ConfigError(_misfit(f"{path}.{name}", reason))
        else:
            current[...] = saved


def _misfit(path: str, reason: str) -> str:
    return f"the saved state of the environment does not fit at {path}: {reason}"
