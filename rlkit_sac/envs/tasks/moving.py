"""Moving and Sliding: drive to the target and stop in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas
from rlkit_sac.envs.tasks.field import Action, FieldEnv

_MAX_STEPS = 200
_DT = 0.005
_MAX_ACCELERATION = 0.5
_MAX_TURN = math.pi / 2
_BRAKE = 0.1
_MAX_SPEED = _MAX_ACCELERATION * (_MAX_STEPS + 1)
_FARTHEST = 1.0 + _DT * _MAX_SPEED

_ACCELERATE, _TURN, _STOP = range(3)


class MovingEnv(FieldEnv):
    """Moving of gym-hybrid: a vehicle that moves where it points.

    - Actions: ``Tuple(Discrete(3), Box([0, -1], [1, 1]))``: 0 accelerate by 0.5 times the first
      parameter, 1 turn by π/2 times the second, 2 brake by 0.1. In each case the vehicle then moves
      for 0.005 time units.
    - Observation: float32 `[10]`: x, y, speed, cosine and sine of the heading, x and y of the
      target, distance, whether inside, steps / 200.
    - Reward: distance gained - 0.001, plus 1 for standing still in the target; -1 instead for
      leaving the field, and for the step after the 200th.
    - Terminal: standing still in the target, leaving the field. The step after the 200th truncates.
    - Reset: place and heading anywhere, standing still; target anywhere, all of it in the field.

    Source: https://github.com/thomashirtz/gym-hybrid. Unlike there, the time limit
    truncates, and the observation space contains every observation.

    Args:
        render_mode: ``"rgb_array"`` or None.

    >>> import gymnasium as gym
    >>> env = gym.make("rlkit_sac/Moving-v0")
    >>> observation, _ = env.reset(seed=0)
    >>> observation, *_ = env.step((0, np.array([1.0, 0.0], np.float32)))
    >>> observation[2].item()
    0.5
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._speed = self._heading = self._course = 0.0
        low, high = np.array([0, -1], np.float32), np.array([1, 1], np.float32)
        self.action_space = Tuple([Discrete(3), Box(low, high)])
        far = 2 * math.hypot(_FARTHEST, _FARTHEST)
        most = [_FARTHEST, _FARTHEST, _MAX_SPEED, 1, 1, 1, 1, far, 1, 1 + 1 / _MAX_STEPS]
        least = [-_FARTHEST, -_FARTHEST, 0, -1, -1, -1, -1, 0, 0, 0]
        self.observation_space = Box(np.array(least, np.float32), np.array(most, np.float32))

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one step."""
        observation, reward, terminated, _, info = super().step(action)
        truncated = not terminated and self._steps > _MAX_STEPS
        return observation, -1.0 if truncated else reward, terminated, truncated, info

    def _prepare(self) -> None:
        self._speed = 0.0
        self._heading = self._course = self.np_random.uniform(0.0, 2 * math.pi)

    def _act(self, choice: int, parameters: list[float]) -> None:
        if choice == _ACCELERATE:
            self._accelerate(_MAX_ACCELERATION * min(max(parameters[0], 0.0), 1.0))
        elif choice == _TURN:
            self._turn(_MAX_TURN * min(max(parameters[1], -1.0), 1.0))
        else:
            self._speed = max(0.0, self._speed - _BRAKE)
        self._x += _DT * self._speed * math.cos(self._course)
        self._y += _DT * self._speed * math.sin(self._course)

    def _accelerate(self, amount: float) -> None:
        self._speed += amount

    def _turn(self, angle: float) -> None:
        self._heading = self._course = (self._heading + angle) % (2 * math.pi)

    def _can_finish(self) -> bool:
        return self._speed == 0.0

    def _observe(self) -> NDArray[np.float32]:
        heading = (math.cos(self._heading), math.sin(self._heading))
        agent = (self._x, self._y, self._speed, *heading)
        return np.array(
            [*agent, *self._target_features(), self._steps / _MAX_STEPS], dtype=np.float32
        )

    def _draw(self, canvas: Canvas) -> None:
        dx, dy = 0.1 * math.cos(self._heading), 0.1 * math.sin(self._heading)
        canvas.line(self._x, self._y, dx, dy, 0.02, (0, 0, 0))


class SlidingEnv(MovingEnv):
    """Sliding of gym-hybrid: as Moving, but the vehicle keeps its momentum.

    Accelerating adds a velocity along the heading to the present velocity; turning changes the
    heading alone; braking takes 0.1 off the speed, whatever its direction. The observation holds
    the heading, not the direction of the movement.

    Source: https://github.com/thomashirtz/gym-hybrid, which adds the two
    velocities by another formula.

    Args:
        render_mode: ``"rgb_array"`` or None.

    >>> import gymnasium as gym
    >>> env = gym.make("rlkit_sac/Sliding-v0")
    >>> _ = env.reset(seed=0)
    >>> for choice in (0, 1, 0):  # a quarter turn between two accelerations
    ...     observation, *_ = env.step((choice, np.array([1.0, 1.0], np.float32)))
    >>> round(observation[2].item() ** 2, 6)
    0.5
    """

    def _accelerate(self, amount: float) -> None:
        vx = self._speed * math.cos(self._course) + amount * math.cos(self._heading)
        vy = self._speed * math.sin(self._course) + amount * math.sin(self._heading)
        self._speed, self._course = math.hypot(vx, vy), math.atan2(vy, vx)

    def _turn(self, angle: float) -> None:
        self._heading = (self._heading + angle) % (2 * math.pi)
