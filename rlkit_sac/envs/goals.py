"""Goals of a task: their columns in observations, and rewards for other goals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor
from torchrl.envs import EnvBase

from rlkit_sac.envs.agent_env import AgentEnv
from rlkit_sac.envs.specs import find_conversion
from rlkit_sac.errors import ConfigError, RunError, prefix_errors, summary

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"


def goal_arguments(env: EnvBase, reward_function: str | None = None) -> dict[str, Any]:
    """Return the arguments of a :class:`~rlkit_sac.data.HindsightTransform` that the task decides.

    Gymnasium's tasks compute rewards by ``compute_reward``, and, where they have it, the end of an
    episode by ``compute_terminated``.

    Args:
        env: an environment made by :func:`~rlkit_sac.envs.make_env`.
        reward_function: ``module:function`` that returns rewards ``[n, 1]`` from achieved and
            desired goals ``[n, G]``. Needed for an environment of TorchRL.

    Raises:
        ConfigError: if the task has no goals, its observation leaves one out, or no function
            computes rewards.
        RunError: by the functions, if the task's own raise an exception.
    """
    task: Any = find_conversion(env)
    read = [task.observe] if task.critic is None else [task.observe, task.critic]
    arguments: dict[str, Any] = {
        "achieved": (task.observe.vector_key, task.observe.columns(ACHIEVED)),
        "desired": [(observe.vector_key, observe.columns(DESIRED)) for observe in read],
    }
    goal = task.observe.space[DESIRED]
    for name in ("reward", "terminated"):
        if isinstance(task, AgentEnv) and task.has_wrapper_attr(f"compute_{name}"):
            method = task.get_wrapper_attr(f"compute_{name}")
            arguments[f"{name}_function"] = _of_tensors(method, goal)
    if reward_function is not None:
        kinds = AttributeError, ImportError, ValueError
        with prefix_errors(f"no function is at {reward_function}", *kinds):
            arguments["reward_function"] = resolve_name(reward_function)
    if "reward_function" not in arguments:
        text = "set reward_function to module:function, which computes rewards from goals"
        raise ConfigError(f"the task has no compute_reward: {text}")
    return arguments


def _of_tensors(method: Callable[..., Any], goal: Box) -> Callable[..., Tensor]:
    """Return a task's function of goals as a function of tensors ``[n, G]``."""

    def compute(achieved: Tensor, desired: Tensor) -> Tensor:
        pair = (each.cpu().numpy().astype(goal.dtype) for each in (achieved, desired))
        goals = [each.reshape(-1, *goal.shape) for each in pair]
        count, values = len(achieved), np.empty(0)
        with suppress(Exception):  # of a method that takes one pair of goals
            values = np.asarray(method(*goals, [{}] * count))
        if values.shape[:1] != (count,):
            try:
                values = np.array([method(*pair, {}) for pair in zip(*goals, strict=True)])
            except Exception as error:
                text = "it may read more than goals, as its info does: leave out replay.goals"
                name = method.__qualname__
                raise RunError(f"replay.goals: {name} raised {summary(error)}; {text}") from error
        return torch.from_numpy(values).to(achieved.device, torch.float32).reshape(count, 1)

    return compute
