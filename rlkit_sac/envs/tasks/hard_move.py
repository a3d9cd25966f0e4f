"""Hard Move as published: a point mass, pushed by one of all combinations of its actuators."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas
from rlkit_sac.envs.tasks.field import draw_actuators, draw_field

_RADIUS = 0.2
_BONUS = 20.0
_KEPT_VELOCITY = 0.75
_FORCE = 2.0
_DT = 0.1

Action = tuple[int, tuple[NDArray[np.float32], ...]]


class HardMoveV1Env(gym.Env[NDArray[np.float32], Any]):
    """Hard Move of Li et al., HyAR (2021), as the authors' code defines it.

    - Actions: ``Tuple(Discrete(2^n), Tuple(2^n times Box(-1, 1, [1])))``. The n binary digits of
      the choice k switch the actuators on, the first digit being actuator 0; box k holds the
      common magnitude a of those that are on, and the other boxes are not read.
    - Directions: actuator i pushes along (cos 2πi/n, sin 2πi/n), rounded to three decimals. m_k is
      the sum of the actuators of k, divided by the largest norm of all these sums. Where
      opposite actuators are on, they cancel: for n = 4 the choices 0, 5, 10 and 15 do nothing.
    - Step: v ← 0.75 v + 0.1 · 2 a m_k, then x ← x + 0.1 v. The magnitude is not clipped; with
      magnitudes in [-1, 1] the speed stays below 0.8. The plane has no borders.
    - Observation: float32 `[4]`: velocity (x, y), target minus place (x, y). The time is not in it.
    - Reward: minus the squared distance after the step, plus 20 where the distance is at most 0.2.
    - Terminal: a distance of at most 0.2, at any speed. Registered with a time limit of 30 steps.
    - Reset: at rest; place, then target uniform in [-1, 1]². The place may be inside the target,
      where each first step that does not leave it succeeds.

    Source: https://arxiv.org/abs/2109.05490 and the authors' code, where the loop of training, not
    the environment, ends an episode.

    Args:
        num_actuators: n, from 1 to 10; published are 4, 6, 8 and 10. Default: 4.
        render_mode: ``"rgb_array"`` or None.

    >>> env = gym.make("rlkit_sac/HardMove-v1", num_actuators=4)
    >>> before, _ = env.reset(seed=0)
    >>> # 1000 in binary: the first of the four alone, which pushes along x.
    >>> magnitudes = [np.zeros(1, np.float32) for _ in range(16)]
    >>> magnitudes[8][0] = 0.5
    >>> after, *_ = env.step((8, tuple(magnitudes)))
    >>> (after - before).round(4)
    array([ 0.0707,  0.    , -0.0071,  0.    ], dtype=float32)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, num_actuators: int = 4, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        angles = 2 * np.pi * np.arange(num_actuators) / num_actuators
        # In whole thousandths, so that opposite actuators cancel exactly.
        actuators = np.round(1000 * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        choices = np.arange(2**num_actuators)[:, None]
        is_on = choices >> np.arange(num_actuators)[::-1] & 1
        sums = is_on @ actuators
        self._actuators = (actuators / 1000).tolist()
        self._directions = (sums / np.hypot(*sums.T).max()).tolist()
        magnitude = Box(-1.0, 1.0, (1,), np.float32)  # one space in every place
        self.action_space = Tuple([Discrete(len(choices)), Tuple([magnitude] * len(choices))])
        self.observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self._x = self._y = self._vx = self._vy = self._target_x = self._target_y = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draws place and target; the agent is at rest."""
        super().reset(seed=seed)
        self._x, self._y = self.np_random.uniform(-1.0, 1.0, 2).tolist()
        self._target_x, self._target_y = self.np_random.uniform(-1.0, 1.0, 2).tolist()
        self._vx = self._vy = 0.0
        return self._observe(), {}

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one step."""
        choice = int(action[0])
        dx, dy = self._directions[choice]
        force = _FORCE * float(action[1][choice][0])
        self._vx = _KEPT_VELOCITY * self._vx + _DT * force * dx
        self._vy = _KEPT_VELOCITY * self._vy + _DT * force * dy
        self._x += _DT * self._vx
        self._y += _DT * self._vy
        squared = (self._target_x - self._x) ** 2 + (self._target_y - self._y) ** 2
        arrived = squared <= _RADIUS**2
        return self._observe(), (_BONUS if arrived else 0.0) - squared, arrived, False, {}

    def render(self) -> NDArray[np.uint8]:
        """Returns an image `[256, 256, 3]` of [-1.2, 1.2]², where each target is in full."""
        place, target = (self._x, self._y), (self._target_x, self._target_y)
        return draw_field(1.0 + _RADIUS, place, target, _RADIUS, self._draw)

    def _draw(self, canvas: Canvas) -> None:
        draw_actuators(canvas, self._x, self._y, self._actuators)

    def _observe(self) -> NDArray[np.float32]:
        dx, dy = self._target_x - self._x, self._target_y - self._y
        return np.array([self._vx, self._vy, dx, dy], np.float32)
