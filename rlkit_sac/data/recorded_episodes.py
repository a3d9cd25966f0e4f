"""Transitions of episodes that were recorded elsewhere, as the agent sees and acts in a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rlkit_sac.envs.spaces import build_from_leaves, map_leaves
from rlkit_sac.envs.specs import find_conversion
from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.valid_steps import TRAJECTORY

_PER_STEP = ("actions", "rewards", "terminations", "truncations")
# What the conversion of wrong values raises.
_WRONG = AttributeError, LookupError, RuntimeError, TypeError, ValueError


def demonstrations(episodes: Iterable[Any], env: EnvBase) -> TensorDictBase:
    """Return the transitions of recorded episodes, with the entries of a collector's frames.

    An episode of T steps is a mapping, or an object with attributes, as Minari's episodes are:

    - ``observations``: T + 1, the last one that after the last action,
    - ``actions``: T, in the units of the task,
    - ``rewards``, ``terminations`` and ``truncations``: T numbers or booleans.

    Observations and actions are a list with one for each step, or arrays with T + 1 or T in front
    in the structure of the task: an array, or nested dictionaries or tuples of arrays. Arrays of
    ``numpy.load`` and groups of h5py can be given as they are. The steps become what the agent
    reads and writes: observations flattened, continuous actions rescaled, choices an index.

    Args:
        episodes: the episodes.
        env: an environment of the task, made by :func:`~rlkit_sac.envs.make_env`.

    Returns:
        Transitions ``[n]`` on the CPU, numbered by episode in ``("collector", "traj_ids")``.

    Raises:
        ConfigError: naming the episode, for a part that is missing, of another length or shape, or
            an action that the task does not have.

    >>> from rlkit_sac.envs import make_env
    >>> episode = {"observations": np.zeros((3, 3)), "actions": [[2.0], [-1.0]], "rewards": [0, 1],
    ...            "terminations": [False, False], "truncations": [False, True]}
    >>> demonstrations([episode], make_env("Pendulum-v1"))["action"]
    tensor([[ 1.0000],
            [-0.5000]])
    """
    task = find_conversion(env)
    parts = []
    for number, episode in enumerate(episodes):
        with prefix_errors(f"episode {number}", *_WRONG):
            part = _read(episode, task)
            parts.append(part.set(TRAJECTORY, torch.full(part.shape, number)))
    if not parts:
        raise ConfigError("there are no episodes")
    return torch.cat(parts)


def _read(episode: Any, task: Any) -> TensorDictBase:
    def part(name: str) -> Any:
        return episode[name] if hasattr(episode, "__getitem__") else getattr(episode, name)

    read = [task.observe] if task.critic is None else [task.observe, task.critic]
    given = part("observations")
    observations = [_split_steps(convert.space, given) for convert in read]
    actions = _split_steps(task.act.space, part("actions"))
    reward, terminated, truncated = (
        torch.tensor(np.asarray(part(name))).unsqueeze(-1).flatten(1) for name in _PER_STEP[1:]
    )
    lengths = [count := len(actions), len(reward), len(terminated), len(truncated)]
    if not actions or {count + 1} != {len(observations[0]), *(n + 1 for n in lengths)}:
        numbers = ", ".join(f"{n} {name}" for n, name in zip(lengths, _PER_STEP, strict=True))
        text = "give one observation more than actions, and one of each other for each action"
        raise ConfigError(f"it has {len(observations[0])} observations, {numbers}: {text}")
    after = {"reward": reward.float(), "terminated": terminated.bool()}
    after |= {"truncated": truncated.bool(), "done": terminated.bool() | truncated.bool()}
    if after["done"][:-1].any():
        raise ConfigError("it ends before its last step: give each episode by itself")
    found = TensorDict({"next": TensorDict(after, batch_size=[count])}, batch_size=[count])
    for convert, steps in zip(read, observations, strict=True):
        for key, values in _stack_steps(map(convert, steps)).items():
            found[key], found["next", key] = values[:-1], values[1:]
    for key, values in _stack_steps(map(task.act.agent_action, actions)).items():
        previous = "prev_action" if key == "action" else ("prev_action", key[1])
        found[key], found[previous] = values, values.roll(1, 0)
        found[previous][0] = 0
    return found.set("is_init", torch.arange(count).unsqueeze(-1) == 0)


def _stack_steps(steps: Iterable[Mapping[NestedKey, Any]]) -> dict[NestedKey, Tensor]:
    """Return the entries of steps, with their number in front."""
    found = list(steps)
    return {key: torch.from_numpy(np.stack([step[key] for step in found])) for key in found[0]}


def _split_steps(space: Space[Any], values: Any) -> list[Any]:
    """Return the value of each step, in the structure of a space."""
    if isinstance(values, list):
        return values
    arrays: list[Any] = []
    map_leaves(space, lambda leaf, value: arrays.append(np.asarray(value)), values)
    steps = zip(*arrays, strict=True)  # refuses parts of other lengths
    return [build_from_leaves(space, iter(step)) for step in steps]
