"""A square field with a round target: the base of Moving, Sliding and Hard Move."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas

FIELD = 1.0
RADIUS = 0.1
PENALTY = 0.001

_PIXELS = 256
_GRASS, _TARGET, _AGENT = (240, 240, 232), (244, 165, 130), (33, 102, 172)

Action = tuple[int, NDArray[np.float32]]


class FieldEnv(gym.Env[NDArray[np.float32], Any], ABC):
    """The field [-1, 1]², a target of radius 0.1 somewhere in it, and the rewards.

    The reward is the distance gained minus 0.001, plus 1 where the target is reached; it is -1 in
    place of all this where the agent leaves the field. Both end the episode.

    Subclasses define the spaces, the effect of an action, and when the target counts as reached.

    Args:
        render_mode: ``"rgb_array"`` or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._x = self._y = self._target_x = self._target_y = 0.0
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draws the positions of target and agent, with the whole target in the field."""
        super().reset(seed=seed)
        uniform, inner = self.np_random.uniform, FIELD - RADIUS
        self._target_x, self._target_y = uniform(-inner, inner), uniform(-inner, inner)
        self._x, self._y = uniform(-FIELD, FIELD), uniform(-FIELD, FIELD)
        self._steps = 0
        self._prepare()
        return self._observe(), {}

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one step."""
        before = self._distance()
        self._steps += 1
        self._act(int(action[0]), [float(value) for value in action[1]])
        reward = before - self._distance() - PENALTY
        arrived = self._is_inside() and self._can_finish()
        left = not arrived and max(abs(self._x), abs(self._y)) > FIELD
        if arrived:
            reward += 1.0
        elif left:
            reward = -1.0
        return self._observe(), reward, arrived or left, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """Returns an image `[256, 256, 3]` of the present state."""
        if self.render_mode is None:
            return None
        scale = _PIXELS / (2 * FIELD)
        canvas = Canvas(_PIXELS, _PIXELS, left=-FIELD, bottom=-FIELD, scale=scale, color=_GRASS)
        canvas.disk(self._target_x, self._target_y, RADIUS, _TARGET)
        self._draw(canvas)
        canvas.disk(self._x, self._y, 0.04, _AGENT)
        return canvas.pixels()

    def _prepare(self) -> None:
        """Begins an episode, after the positions were drawn."""

    @abstractmethod
    def _act(self, choice: int, parameters: list[float]) -> None:
        """Moves the agent."""

    def _can_finish(self) -> bool:
        """Whether being in the target ends the episode."""
        return True

    @abstractmethod
    def _observe(self) -> NDArray[np.float32]:
        """Returns the observation."""

    @abstractmethod
    def _draw(self, canvas: Canvas) -> None:
        """Draws the state of the agent, below the agent itself."""

    def _distance(self) -> float:
        return math.hypot(self._x - self._target_x, self._y - self._target_y)

    def _is_inside(self) -> bool:
        return self._distance() < RADIUS

    def _target_features(self) -> tuple[float, ...]:
        """Place of the target, distance, and whether the agent is in it."""
        return self._target_x, self._target_y, self._distance(), float(self._is_inside())
