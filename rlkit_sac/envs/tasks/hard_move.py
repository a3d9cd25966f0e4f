"""Hard Move: choose which of n actuators push towards the target, and how strongly."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas
from rlkit_sac.envs.tasks.field import FieldEnv
from rlkit_sac.errors import ConfigError

_MAX_STEPS = 25
_REACH = 0.1
_MAX_ACTUATORS = 16


class HardMoveEnv(FieldEnv):
    """Hard Move of Li et al., HyAR (2021): the number of discrete actions is exponential.

    - Actions: ``Tuple(Discrete(2^n), Box(-1, 1, [n]))``. The n binary digits of the discrete
      action switch the actuators on, the first digit being actuator 0. The agent moves by
      0.1 Σ_i on_i a_i (cos 2πi/n, sin 2πi/n).
    - Observation: float32 `[7]`: x, y, x and y of the target, distance, whether inside, steps / 25
      (at most 1).
    - Reward: distance gained - 0.001, plus 1 for reaching the target; -1 instead for leaving the
      field.
    - Terminal: reaching the target, leaving the field. Registered with a time limit of 25 steps.
    - Reset: place and target anywhere, all of the target in the field.

    Source: https://arxiv.org/abs/2109.05490. The reach of 0.1 and the rewards, those
    of Moving, are this package's: results are not comparable with the paper's.

    Args:
        num_actuators: n, from 1 to 16. Default: 4.
        render_mode: ``"rgb_array"`` or None.

    Raises:
        ConfigError: the number of actuators is outside of its range.

    >>> import gymnasium as gym
    >>> env = gym.make("rlkit_sac/HardMove-v0", num_actuators=4)
    >>> before, _ = env.reset(seed=0)
    >>> # 1000 in binary: the first of the four alone, which pushes along x.
    >>> after, *_ = env.step((8, np.array([-0.5, 1.0, 1.0, 1.0], np.float32)))
    >>> (after - before)[:2].round(3)
    array([-0.05,  0.  ], dtype=float32)
    """

    def __init__(self, num_actuators: int = 4, render_mode: str | None = None) -> None:
        if not 1 <= num_actuators <= _MAX_ACTUATORS:
            raise ConfigError(
                f"num_actuators is {num_actuators}; it must be between 1 and {_MAX_ACTUATORS}"
            )
        super().__init__(render_mode)
        angles = [2 * math.pi * i / num_actuators for i in range(num_actuators)]
        self._directions = [(_REACH * math.cos(a), _REACH * math.sin(a)) for a in angles]
        self.action_space = Tuple(
            [Discrete(2**num_actuators), Box(-1.0, 1.0, (num_actuators,), np.float32)]
        )
        farthest = 1.0 + _REACH * num_actuators
        far = 2 * math.hypot(farthest, farthest)
        most = np.array([farthest, farthest, 1, 1, far, 1, 1], np.float32)
        least = np.array([-farthest, -farthest, -1, -1, 0, 0, 0], np.float32)
        self.observation_space = Box(least, most)

    def _act(self, choice: int, parameters: list[float]) -> None:
        last = len(parameters) - 1
        for i, (parameter, (dx, dy)) in enumerate(zip(parameters, self._directions, strict=True)):
            if choice >> (last - i) & 1:
                amount = min(max(parameter, -1.0), 1.0)
                self._x += amount * dx
                self._y += amount * dy

    def _observe(self) -> NDArray[np.float32]:
        time = min(self._steps / _MAX_STEPS, 1.0)
        return np.array([self._x, self._y, *self._target_features(), time], np.float32)

    def _draw(self, canvas: Canvas) -> None:
        for dx, dy in self._directions:
            canvas.line(self._x, self._y, dx, dy, 0.015, (120, 120, 120))
