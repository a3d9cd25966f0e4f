"""Masks of the actions that a task allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict

from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.spaces import dict_space, is_choice, leaves
from rlkit_sac.errors import EnvironmentFault, summary

#: The key of masks in ``info`` and in observations, and of their entry.
ACTION_MASK = "action_mask"


class ActionMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Writes the mask of a task into ``info["action_mask"]``, bool `[K]` over its combinations.

    After a step that terminates, where no action follows, a mask that allows nothing becomes one
    that allows everything.

    Args:
        env: a task that gives masks in ``info``, or as the part ``action_mask`` of a `Dict`
            observation, from which it is taken out.

    Attributes:
        mask_space: the space of a mask.

    Raises:
        EnvironmentFault: in a step or reset, for a mask that is missing, of another shape, or that
            allows nothing.

    >>> env = with_action_masks(gym.make("Taxi-v4"))
    >>> env.reset(seed=0)[1]["action_mask"]
    array([ True,  True, False, False, False, False])
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._conversion = ActionConversion(env.action_space, rescale=True)
        dtype: Any = np.bool_
        self.mask_space = Box(0, 1, (self._conversion.num_choices or 0,), dtype)
        self.is_observed = _observes_mask(env)
        if self.is_observed:
            parts: Any = env.observation_space
            self.observation_space = dict_space(
                {key: part for key, part in parts.items() if key != ACTION_MASK}
            )

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        return self._add_mask(*self.env.reset(**options), over=False)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._add_mask(observation, info, over=terminated)
        return observation, reward, terminated, truncated, info

    def _add_mask(
        self, observation: Any, info: Mapping[str, Any], *, over: bool
    ) -> tuple[Any, dict[str, Any]]:
        given = (observation if self.is_observed else info).get(ACTION_MASK)
        if given is None:
            raise EnvironmentFault(f"gave no {ACTION_MASK}")
        try:
            mask = self._conversion.allowed_choices(given)
        except (LookupError, TypeError, ValueError) as error:
            raise EnvironmentFault(f"gave a wrong {ACTION_MASK}, {summary(error)},") from None
        if not mask.any():
            if not over:
                raise EnvironmentFault(f"gave an {ACTION_MASK} that allows nothing")
            mask[:] = True
        if self.is_observed:
            observation = {key: observation[key] for key in observation if key != ACTION_MASK}
        return observation, {**info, ACTION_MASK: mask}


def with_action_masks(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return the environment, in an :class:`ActionMasks` if it gives masks of allowed actions.

    To know what it has in ``info``, an environment with discrete choices is reset once.

    Args:
        env: any.
    """
    if not any(is_choice(leaf) for _, leaf, _ in leaves(env.action_space)):
        return env
    if not _observes_mask(env):
        try:
            _, info = env.reset(seed=0)
        except (Exception, SystemExit):  # which will end the run at its own first reset
            return env
        if ACTION_MASK not in info:
            return env
    return ActionMasks(env)


def _observes_mask(env: gym.Env[Any, Any]) -> bool:
    space = env.observation_space
    return isinstance(space, Dict) and ACTION_MASK in space.spaces
