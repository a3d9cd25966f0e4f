"""A Gymnasium environment as the agent sees it and acts in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.actions import ActionConversion, replace_bounds
from rlkit_sac.envs.exploration_noise import NOISE, EpisodeNoise
from rlkit_sac.envs.in_use import mark_in_use, mark_unused
from rlkit_sac.envs.observations import (
    CRITIC_OBSERVATION,
    ObservationConversion,
    RewardConversion,
    select_parts,
)
from rlkit_sac.envs.seeding import EpisodeSeeding
from rlkit_sac.envs.task_tensors import make_conversions, task_description
from rlkit_sac.envs.torchrl_env import SUCCESS
from rlkit_sac.errors import EnvironmentFault, RlkitSacError, summary


class AgentEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Converts observations, rewards and actions, and names the place of exceptions.

    Observations become the arrays of an
    :class:`~rlkit_sac.envs.observations.ObservationConversion`, with the mask of actions,
    ``episode_reward``, the sum of the task's own rewards, and ``success``; actions are those of an
    :class:`~rlkit_sac.envs.actions.ActionConversion`, rewards those of a
    :class:`~rlkit_sac.envs.observations.RewardConversion`. Exceptions of `step` and `reset` become
    `EnvironmentFault` with episode, step and seed.

    The observation space is the table of what is observed at a reset and after each step: an entry
    that :meth:`agent_entries` writes and the space declares is collected, and stored where a loss
    reads it.

    Args:
        env: a task in seeded episodes.
        rescale_actions: if true, continuous actions are in [-1, 1].
        action_bounds: the bounds for :func:`~rlkit_sac.envs.actions.replace_bounds`.
        action_mask: if true, a mask in ``info`` is an error when the first reset had none.
        observation_indices: the entries of the vector that are kept. Default: all.
        observation_keys: the parts of a `Dict` that are observed. Default: all.
        critic_keys: the parts of a `Dict` that critics read, as the entry ``critic_observation``
            and images. Default: none of their own.
        noise_color: exponent of correlated noise for exploration; 0 for none.
        sum_type: type of ``episode_reward``.

    Attributes:
        observe, critic, act: the conversions; ``critic`` is None without ``critic_keys``.
        masked: true if there are masks.
        parameter_mask: the parameter mask of the action space.

    Raises:
        ConfigError: for spaces that are not supported.

    >>> env = AgentEnv(EpisodeSeeding(gym.make("FrozenLake-v1"), seed=0))
    >>> env.observation_space["observation"]
    Box(0.0, 1.0, (16,), float32)
    >>> _ = env.reset()
    >>> env.step(7)
    Traceback (most recent call last):
    rlkit_sac.errors.EnvironmentFault: environment 0 raised KeyError: ... in step 1 of its
    episode 0 (reset seed 2044266242)
    """

    def __init__(
        self,
        env: EpisodeSeeding,
        *,
        rescale_actions: bool = True,
        action_bounds: Any = None,
        action_mask: bool = True,
        observation_indices: Sequence[int] | None = None,
        observation_keys: Sequence[str] | None = None,
        critic_keys: Sequence[str] | None = None,
        noise_color: float = 0.0,
        sum_type: type[np.floating[Any]] = np.float64,
    ) -> None:
        super().__init__(env)
        self._seeded = env
        space = env.observation_space
        self._reward = RewardConversion(env)
        self.act = ActionConversion(
            replace_bounds(env.action_space, action_bounds), rescale=rescale_actions
        )
        self.parameter_mask = self.act.parameter_mask()
        self.observe = ObservationConversion(
            select_parts(space, observation_keys), indices=observation_indices
        )
        self.critic: ObservationConversion | None = None
        self.action_space = self.act.agent_space()
        self.reward_space = Box(-np.inf, np.inf, self._reward.shape, np.float32)
        # TorchRL names a bare RGB image "pixels"; a dictionary keeps one key for all.
        entries = self.observe.agent_space()
        if critic_keys is not None:
            read = select_parts(space, critic_keys)
            self.critic = ObservationConversion(read, vector_key=CRITIC_OBSERVATION)
            entries.spaces |= self.critic.agent_space().spaces
        self.masked = env.has_wrapper_attr("mask_space")
        if self.masked:
            entries[ACTION_MASK] = env.get_wrapper_attr("mask_space")
        self._refuses_masks = action_mask and not self.masked and bool(self.act.choices)
        self._noise = None
        if noise_color:
            size, limit = len(self.act.low), getattr(env.spec, "max_episode_steps", None)
            self._noise = EpisodeNoise(size, noise_color, limit)
            entries[NOISE] = Box(-np.inf, np.inf, (size,), np.float32)
        self._sum_type = sum_type
        entries[SUCCESS] = Box(-1, 1, (1,), np.int8)
        entries["episode_reward"] = Box(-np.inf, np.inf, self._reward.shape, sum_type)
        self.observation_space = entries
        mark_in_use(env, self)

    def reset(self, **options: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Resets the environment."""
        try:
            observation, info = self._seeded.reset(**options)
            return self.agent_entries(observation, info) | self._episode_reward(), info
        except (Exception, SystemExit) as error:
            self._raise_fault(error)

    def step(self, action: Any) -> tuple[dict[str, NDArray[Any]], Any, bool, bool, dict[str, Any]]:
        """Takes one step."""
        try:
            after, reward, terminated, truncated, info = self._seeded.step(self.act(action))
            entries, given = self.agent_entries(after, info), self._reward(reward)
            return entries | self._episode_reward(), given, terminated, truncated, info
        except (Exception, SystemExit) as error:
            self._raise_fault(error)

    def step_into(self, arrays: Mapping[str, NDArray[Any]], index: int, action: Any) -> bool:
        """Take one step, and write its results except ``info`` into arrays at an index.

        Args:
            arrays: ``[N, …]``, the entries of the observation space, ``reward``, ``terminated`` and
                ``truncated``; the latter two are ``[N]``.
            index: index of this environment.
            action: action of the agent.

        Returns:
            Whether the episode ended.
        """
        try:
            after, reward, terminated, truncated, info = self._seeded.step(self.act(action))
            for key, value in self.agent_entries(after, info).items():
                arrays[key][index] = value
            arrays["reward"][index] = self._reward(reward)
            arrays["episode_reward"][index] = self._seeded.episode_return
            arrays["terminated"][index], arrays["truncated"][index] = terminated, truncated
            return terminated or truncated
        except (Exception, SystemExit) as error:
            self._raise_fault(error)

    def agent_entries(self, observation: Any, info: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Returns the entries of the observation space, but for ``episode_reward``."""
        found = self.observe(observation)
        found[SUCCESS] = np.array([_read_success(info)], np.int8)
        if self.critic is not None:
            found |= self.critic(observation)
        if self._noise is not None:
            found[NOISE] = self._noise(self._seeded.reset_seed, self._seeded.steps)
        if self._refuses_masks and ACTION_MASK in info:
            raise EnvironmentFault(f"gave an {ACTION_MASK}, which its first reset did not give,")
        return found | {ACTION_MASK: info[ACTION_MASK]} if self.masked else found

    def close(self) -> None:
        """Closes the environment; an exception in it, which loses nothing, becomes a warning."""
        mark_unused(self)
        try:
            super().close()
        except (Exception, SystemExit) as error:
            text = f"environment {self._seeded.env_index} raised {summary(error)} in close"
            print(f"warning: {text}", file=sys.stderr)

    @property
    def description(self) -> dict[str, Any] | None:
        """The description that :func:`~rlkit_sac.envs.describe_task` returns."""
        try:
            described = task_description(
                self.observe.space,
                self.act.space,
                observation_indices=self.observe.indices,
                rescale_actions=self.act.rescale,
                action_mask=self.masked,
            )
            read: dict[str, Any] = json.loads(json.dumps(described))
            make_conversions(read)
        except TypeError:
            return None
        return read

    def _episode_reward(self) -> dict[str, NDArray[Any]]:
        total = self._seeded.episode_return
        return {"episode_reward": np.full(self._reward.shape, total, self._sum_type)}

    def _raise_fault(self, error: Exception | SystemExit) -> NoReturn:
        index, position = self._seeded.env_index, self._seeded.position
        if isinstance(error, EnvironmentFault) and error.__cause__ is None:  # of its mask
            raise EnvironmentFault(f"environment {index} {error} in {position}") from None
        if isinstance(error, RlkitSacError):
            raise error
        text = f"environment {index} raised {summary(error)} in {position}"
        raise EnvironmentFault(text) from error


def _read_success(info: Mapping[str, Any]) -> int:
    """Return 1 for success, 0 for none, and -1 where the task does not say."""
    for value in map(info.get, ("is_success", "success")):
        with suppress(TypeError, ValueError):  # of what is no number
            if value is not None and (number := float(np.asarray(value).item())) == number:
                return int(number != 0)
    return -1
