"""The spaces of a task as JSON, for a policy that acts without the environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.spaces import dict_space

_BOUNDS = ("low", "high")


def conversions(task: dict[str, Any]) -> tuple[ObservationConversion, ActionConversion]:
    """From a task's observations to the agent's, and back from its actions.

    Args:
        task: what :func:`~rlkit_sac.envs.describe_task` returned.

    >>> from rlkit_sac.envs import describe_task, make_env
    >>> observe, act = conversions(describe_task(make_env("Pendulum-v1")))
    >>> act(np.array([0.5]))
    array([1.], dtype=float32)
    """
    observations, actions = (
        space_from_json(task[name]) for name in ("observation_space", "action_space")
    )
    return (
        ObservationConversion(observations, indices=task["observation_indices"]),
        ActionConversion(actions, rescale=task["rescale_actions"]),
    )


def task_description(
    observations: Space[Any], actions: Space[Any], **options: Any
) -> dict[str, Any]:
    """What :func:`~rlkit_sac.envs.describe_task` returns of a task.

    Args:
        observations: those that are observed.
        actions: with the bounds that the agent's are clipped to.
        options: ``observation_indices``, ``rescale_actions`` and ``action_mask``.
    """
    spaces = {"observation_space": observations, "action_space": actions}
    return {name: space_to_json(space) for name, space in spaces.items()} | options


def space_to_json(space: Space[Any]) -> dict[str, Any]:
    """A space as JSON values; infinite bounds, which JSON does not have, as the largest number.

    Raises:
        TypeError: for a space of another kind.

    >>> space_to_json(Tuple([Discrete(3, start=1), Box(0, np.array([1, 2]))]))["parts"][1]
    {'kind': 'Box', 'dtype': 'float32', 'shape': [2], 'low': 0.0, 'high': [1.0, 2.0]}
    """
    if isinstance(space, Tuple):
        return {"kind": "Tuple", "parts": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, Dict):
        parts = [[name, space_to_json(part)] for name, part in space.spaces.items()]
        return {"kind": "Dict", "parts": parts}
    if isinstance(space, Box):
        bounds = {"low": _bound_to_json(space.low), "high": _bound_to_json(space.high)}
        return {"kind": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
    if isinstance(space, Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, MultiBinary):
        return {"kind": "MultiBinary", "n": list(space.shape)}
    raise TypeError(f"{space} cannot be described as JSON")


def space_from_json(described: dict[str, Any]) -> Space[Any]:
    """The space that :func:`space_to_json` described.

    >>> space = Dict(speed=Box(0, np.inf, (2,)), mode=MultiDiscrete([2, 3]))
    >>> space_from_json(space_to_json(space)) == space
    True
    """
    entries = dict(described)
    kind = entries.pop("kind")
    if kind == "Tuple":
        return Tuple([space_from_json(part) for part in entries["parts"]])
    if kind == "Dict":
        return dict_space({name: space_from_json(part) for name, part in entries["parts"]})
    if kind == "Box":
        dtype, shape = np.dtype(entries["dtype"]), entries["shape"]
        bounds = (np.array(entries[name], dtype) for name in _BOUNDS)
        low, high = (np.broadcast_to(_with_infinity(bound), shape) for bound in bounds)
        return Box(low, high, dtype=dtype.type)
    plain: dict[str, Any] = {each.__name__: each for each in (Discrete, MultiBinary, MultiDiscrete)}
    return plain[kind](**entries)


def _with_infinity(bound: NDArray[Any]) -> NDArray[Any]:
    if not np.issubdtype(bound.dtype, np.floating):
        return bound
    return np.where(np.abs(bound) < np.finfo(bound.dtype).max, bound, np.copysign(np.inf, bound))


def _bound_to_json(bound: NDArray[Any]) -> Any:
    """One number where all are the same."""
    finite = np.nan_to_num(bound)
    same = finite.size and (finite == finite.flat[0]).all()
    return finite.flat[0].item() if same else finite.tolist()
