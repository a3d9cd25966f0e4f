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

from rlkit_sac.envs.adapted_env import adapted_task
from rlkit_sac.envs.spaces import map_leaves
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.errors import ConfigError, summary
from rlkit_sac.valid_steps import TRAJECTORY

_PER_STEP = ("actions", "rewards", "terminations", "truncations")


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
    task: Any = adapted_task(env) or gym_envs(env)[0]
    parts = [_transitions(episode, task, number) for number, episode in enumerate(episodes)]
    if not parts:
        raise ConfigError("there are no episodes")
    return torch.cat(parts)


def _transitions(episode: Any, task: Any, number: int) -> TensorDictBase:
    try:
        found = _read(episode, task)
        return found.set(TRAJECTORY, torch.full(found.shape, number))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = error if isinstance(error, ConfigError) else summary(error)
        raise ConfigError(f"episode {number}: {reason}") from error


def _read(episode: Any, task: Any) -> TensorDictBase:
    def part(name: str) -> Any:
        return episode[name] if hasattr(episode, "__getitem__") else getattr(episode, name)

    read = [task.observe] if task.critic is None else [task.observe, task.critic]
    given = part("observations")
    observations = [_split_steps(convert.space, given) for convert in read]
    actions = _split_steps(task.act.space, part("actions"))
    rewards, terminations, truncations = (np.asarray(part(name)) for name in _PER_STEP[1:])
    lengths = [len(each) for each in (actions, rewards, terminations, truncations)]
    if not actions or set(lengths) != {len(observations[0]) - 1}:
        numbers = ", ".join(f"{n} {name}" for n, name in zip(lengths, _PER_STEP, strict=True))
        raise ConfigError(
            f"it has {len(observations[0])} observations, {numbers}: give one observation more "
            "than actions, and one of each other for each action"
        )
    ends = (terminations.astype(bool) | truncations.astype(bool)).reshape(-1, 1)
    if ends[:-1].any():
        raise ConfigError("it ends before its last step: give each episode by itself")
    entries: dict[NestedKey, Tensor] = {}
    for convert, steps in zip(read, observations, strict=True):
        entries |= _stack_steps(map(convert, steps))
    written = _stack_steps(map(task.act.agent_action, actions))
    count = len(actions)
    found = TensorDict({key: value[:-1] for key, value in entries.items()}, batch_size=[count])
    for key, values in written.items():
        found[key] = values
        previous = "prev_action" if key == "action" else ("prev_action", key[1])
        found[previous] = torch.cat([torch.zeros_like(values[:1]), values[:-1]])
    found["is_init"] = torch.arange(count).unsqueeze(-1) == 0
    found["next"] = TensorDict(
        {key: value[1:] for key, value in entries.items()}
        | {
            "reward": torch.tensor(rewards.reshape(count, -1), dtype=torch.float32),
            "terminated": torch.tensor(terminations.reshape(-1, 1), dtype=torch.bool),
            "truncated": torch.tensor(truncations.reshape(-1, 1), dtype=torch.bool),
            "done": torch.tensor(ends),
        },
        batch_size=[count],
    )
    return found


def _stack_steps(steps: Iterable[Mapping[NestedKey, Any]]) -> dict[NestedKey, Tensor]:
    """Return the entries of steps, with their number in front."""
    found = list(steps)
    return {key: torch.from_numpy(np.stack([step[key] for step in found])) for key in found[0]}


def _split_steps(space: Space[Any], values: Any) -> list[Any]:
    """Return the value of each step, in the structure of a space."""
    if isinstance(values, list):
        return values
    lengths: set[int] = set()

    def read(leaf: Space[Any], value: Any) -> Any:
        array = np.asarray(value)
        lengths.add(len(array))
        return array

    arrays = map_leaves(space, read, values)
    if len(lengths) != 1:
        raise ConfigError(f"its parts have {sorted(lengths)} steps, wanted one number")
    return [
        map_leaves(space, lambda leaf, array, step=step: array[step], arrays)
        for step in range(*lengths)
    ]
