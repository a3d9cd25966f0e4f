"""The pendulum of Gymnasium as a camera sees it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.spaces import Box, Dict, Space
from numpy.typing import NDArray

Observation = dict[str, NDArray[Any]]


class PendulumImagesEnv(gym.ObservationWrapper[Observation, Any, Any]):
    """Pendulum-v1, observed by gray pixels of its rod, and by its speed, which one image lacks.

    - Observation: ``Dict(camera=Box(0, 255, [side, side], uint8), speed=Box(-8, 8, [1]))``; pixels
      of the rod are 255, others 0.
    - Action, reward and reset: those of Pendulum-v1. Registered with its time limit of 200 steps.

    Args:
        side: pixels of each side. Default: 24.
        render_mode: the render mode of Pendulum-v1, or None.

    >>> env = gym.make("rlkit_sac/PendulumImages-v0")
    >>> observation, _ = env.reset(seed=0)
    >>> observation["camera"].shape, bool(observation["camera"].any())
    ((24, 24), True)
    """

    def __init__(self, side: int = 24, render_mode: str | None = None) -> None:
        super().__init__(PendulumEnv(render_mode))
        self.observation_space: Space[Any] = Dict(
            camera=Box(0, 255, (side, side), np.uint8), speed=Box(-8, 8, (1,))
        )
        places = np.linspace(-1.2, 1.2, side)  # of the centers of pixels, in lengths of the rod
        self._x, self._y = np.meshgrid(places, -places)

    def observation(self, observation: NDArray[np.float32]) -> Observation:
        """Return the image and the speed of the state (cos, sin, speed)."""
        cosine, sine, _ = observation
        along = self._x * sine + self._y * cosine
        across = self._x * cosine - self._y * sine
        rod = (along > 0) & (along < 1) & (abs(across) < 0.1)
        return {"camera": np.where(rod, 255, 0).astype(np.uint8), "speed": observation[2:]}
