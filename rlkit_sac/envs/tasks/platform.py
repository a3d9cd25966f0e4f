"""Platform: run and jump to the other end, past two enemies and over two gaps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas

# Length unit: that of the original; time unit: seconds of the simulation.
_STARTS = (0.0, 475.0, 985.0)
_WIDTHS = (250.0, 275.0, 50.0)
_GAPS = (225.0, 235.0, 0.0)
_TOP = 40.0
_LENGTH = 1035.0
_WIDTH, _HEIGHT = 20.0, 30.0  # of the figure and the enemies
_STANDING = tuple((s - _WIDTH, s + w) for s, w in zip(_STARTS, _WIDTHS, strict=True))
_DT = 0.05
_RUN_STEPS = 20
_GRAVITY = 9.8
_DECAY = 0.99
_MAX_VX, _MAX_VY, _MAX_VX_ON_GROUND = 100.0, 200.0, 70.0
_MAX_AX, _MAX_AY = 600.0, 4000.0
_ENEMY_SPEED = 30.0
_NOISE = 0.025

_RUN, _HOP, _LEAP = range(3)
_MAX_PARAMETERS = (30.0, 720.0, 430.0)
_JUMP_VY = {_HOP: 35.0, _LEAP: 25.0}

_SHIFT = (_WIDTH, 0.0, 0.0, _ENEMY_SPEED, 0.0, 0.0, 0.0, 0.0, 0.0)
_SCALE = (_LENGTH + _WIDTH, 100.0, _LENGTH, 2 * _ENEMY_SPEED, 275.0, 275.0, 235.0, _LENGTH, 1.0)

_SKY, _STONE, _FIGURE, _ENEMY = (222, 235, 247), (92, 84, 77), (33, 102, 172), (178, 24, 43)


class PlatformEnv(gym.Env[NDArray[np.float32], Any]):
    """Platform of Masson et al., Reinforcement Learning with Parameterized Actions (2016).

    One action is a whole movement, simulated in sub-steps of 0.05 s: it ends when the figure stands
    on a platform again, or with the episode. The dynamics are those of the authors' simulator as
    published in gym-platform.

    - Actions: ``Tuple(Discrete(3), Tuple(Box, Box, Box))`` with one parameter each, of which that
      of the choice is read: 0 run for 1 s (speed gained per sub-step, in [0, 30]), 1 hop (distance,
      in [0, 720]), 2 leap (distance, lower, in [0, 430]). Movements are noisy.
    - Observation: float32 `[9]` in [0, 1]: position and speed of the figure, position and speed of
      the enemy ahead, then widths of this and the next platform, the gap between them, position of
      this platform, difference in height (always 0).
    - Reward: distance covered divided by the length of 1035, also of a movement that ends in an
      enemy or a gap. The best return is 1.
    - Terminal: touching an enemy, falling off, reaching the end. Registered with a time limit of
      200 actions.

    Sources: https://arxiv.org/abs/1509.01644, https://github.com/cycraig/gym-platform. Unlike
    there, the observation leaves out the number of sub-steps, and episodes have a time limit.

    Args:
        render_mode: ``"rgb_array"`` or None.

    >>> env = gym.make("rlkit_sac/Platform-v0")
    >>> observation, _ = env.reset(seed=0)
    >>> action = (2, tuple(np.array([x], np.float32) for x in (0.0, 0.0, 300.0)))
    >>> observation, reward, terminated, truncated, _ = env.step(action)
    >>> 0.0 < reward < 1.0, truncated
    (True, False)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        parameters = [Box(0.0, high, (1,), np.float32) for high in _MAX_PARAMETERS]
        self.action_space = Tuple([Discrete(len(parameters)), Tuple(parameters)])
        self.observation_space = Box(0.0, 1.0, (len(_SCALE),), np.float32)
        self._set_start()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Puts the figure at the start and the enemies at the right of their platforms."""
        super().reset(seed=seed)
        self._set_start()
        return self._observe(), {}

    def step(
        self, action: tuple[int, tuple[NDArray[np.float32], ...]]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Simulates one movement."""
        choice = int(action[0])
        parameter = min(max(float(action[1][choice][0]), 0.0), _MAX_PARAMETERS[choice])
        start = self._x
        terminated = self._simulate(choice, parameter)
        return self._observe(), (self._x - start) / _LENGTH, terminated, False, {}

    def render(self) -> NDArray[np.uint8]:
        """Returns an image `[128, 640, 3]` of the present state."""
        scale = 640 / (_LENGTH + 2 * _WIDTH)
        canvas = Canvas(640, 128, left=-_WIDTH, bottom=0.0, scale=scale, color=_SKY)
        for start, width in zip(_STARTS, _WIDTHS, strict=True):
            canvas.rectangle(start, 0.0, width, _TOP, _STONE)
        for x in self._enemy_x:
            canvas.rectangle(x, _TOP, _WIDTH, _HEIGHT, _ENEMY)
        canvas.rectangle(self._x, self._y, _WIDTH, _HEIGHT, _FIGURE)
        return canvas.pixels()

    def _set_start(self) -> None:
        self._x, self._y, self._vx, self._vy = 0.0, _TOP, 0.0, 0.0
        self._enemy_x = [_STARTS[i] + _WIDTHS[i] - _WIDTH for i in range(2)]
        self._enemy_dx = [-_ENEMY_SPEED, -_ENEMY_SPEED]

    def _observe(self) -> NDArray[np.float32]:
        here = 0 if self._x < _STARTS[1] else 1 if self._x < _STARTS[2] else 2
        next_width = _WIDTHS[here + 1] if here < 2 else 0.0
        enemy = self._enemy()
        state = (
            *(self._x, self._vx, self._enemy_x[enemy], self._enemy_dx[enemy]),
            *(_WIDTHS[here], next_width, _GAPS[here], _STARTS[here], 0.0),
        )
        return np.array(
            [(s + shift) / scale for s, shift, scale in zip(state, _SHIFT, _SCALE, strict=True)],
            np.float32,
        )

    def _simulate(self, choice: int, parameter: float) -> bool:
        """Moves until the action is over; returns whether the episode is."""
        count, is_over = 0, False
        while not is_over:
            if not self._is_standing():
                self._accelerate(0.0, -_GRAVITY)
            elif choice == _RUN:
                self._accelerate(parameter / _DT, 0.0)
            else:
                self._jump(_JUMP_VY[choice], parameter)
            if self._advance():
                return True
            count += 1
            is_over = count == _RUN_STEPS if choice == _RUN else self._is_standing()
        return False

    def _jump(self, vy: float, distance: float) -> None:
        vx = distance / (2.0 * vy / _GRAVITY + 1.0) - self._vx
        vx = min(max(vx, -_MAX_AX), _MAX_VY - vy)
        normal = self.np_random.standard_normal
        self._accelerate((vx - abs(normal())) / _DT, (vy - abs(normal())) / _DT)

    def _accelerate(self, ax: float, ay: float) -> None:
        vx = self._vx + min(max(ax, -_MAX_AX), _MAX_AX) * _DT
        vx -= abs(_NOISE * self.np_random.standard_normal())
        vy = self._vy + min(max(ay, -_MAX_AY), _MAX_AY) * _DT
        self._vx = min(max(vx, 0.0), _MAX_VX)
        self._vy = min(max(vy, -_MAX_VY), _MAX_VY)

    def _advance(self) -> bool:
        """Moves everything by one sub-step; returns whether the episode has ended."""
        if self._is_standing():
            self._vx = min(self._vx, _MAX_VX_ON_GROUND)
        enemy = self._enemy()
        self._x = min(self._x + self._vx * _DT, _LENGTH)
        self._y += self._vy * _DT
        self._vx *= _DECAY
        self._move_enemy(enemy)
        if self._y < _TOP:
            self._push_out()
        return self._y < _TOP or self._x >= _LENGTH or self._touches_enemy()

    def _move_enemy(self, enemy: int) -> None:
        left, right = _STARTS[enemy], _STARTS[enemy] + _WIDTHS[enemy] - _WIDTH
        x, dx = self._enemy_x[enemy], self._enemy_dx[enemy]
        if not left < x < right:
            dx = -dx
        dx += _NOISE * self.np_random.standard_normal()
        dx = min(max(dx, -_ENEMY_SPEED), _ENEMY_SPEED)
        self._enemy_dx[enemy] = dx
        self._enemy_x[enemy] = min(max(x + dx * _DT, left), right)

    def _push_out(self) -> None:
        """Moves a figure that has sunk into a platform to its nearest border, and stops its run."""
        for start, width in zip(_STARTS, _WIDTHS, strict=True):
            if not start - _WIDTH < self._x < start + width:
                continue
            border = self._x
            if self._x < start:
                border = start - _WIDTH
            elif self._x > start + width - _WIDTH:
                border = start + width
            if border != self._x and abs(self._x - border) < _TOP - self._y:
                self._x = border
            else:
                self._y, self._vy = _TOP, 0.0
            self._vx = 0.0

    def _is_standing(self) -> bool:
        if self._y != _TOP:
            return False
        return any(left <= self._x <= right for left, right in _STANDING)

    def _touches_enemy(self) -> bool:
        if self._y >= _TOP + _HEIGHT:
            return False
        return any(abs(self._x - x) < _WIDTH for x in self._enemy_x)

    def _enemy(self) -> int:
        return 1 if self._x > _STARTS[1] else 0
