"""A square field with a round target: Moving, Sliding and Hard Move."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas

_FIELD = 1.0
_RADIUS = 0.1
_PENALTY = 0.001

_PIXELS = 256
_GRASS, _TARGET, _AGENT = (240, 240, 232), (244, 165, 130), (33, 102, 172)

# Moving and Sliding
_MAX_STEPS = 200
_DT = 0.005
_MAX_ACCELERATION = 0.5
_MAX_TURN = math.pi / 2
_BRAKE = 0.1
_MAX_SPEED = _MAX_ACCELERATION * (_MAX_STEPS + 1)
_FARTHEST = 1.0 + _DT * _MAX_SPEED

_ACCELERATE, _TURN, _STOP = range(3)

# Hard Move
_HARD_MOVE_STEPS = 25
_REACH = 0.1

Action = tuple[int, NDArray[np.float32]]
Vector = tuple[float, float]


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
        uniform, inner = self.np_random.uniform, _FIELD - _RADIUS
        self._target_x, self._target_y = uniform(-inner, inner), uniform(-inner, inner)
        self._x, self._y = uniform(-_FIELD, _FIELD), uniform(-_FIELD, _FIELD)
        self._steps = 0
        self._prepare()
        return self._observe(), {}

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one step."""
        before = self._distance()
        self._steps += 1
        self._act(int(action[0]), [float(value) for value in action[1]])
        reward = before - self._distance() - _PENALTY
        arrived = self._is_inside() and self._can_finish()
        left = not arrived and max(abs(self._x), abs(self._y)) > _FIELD
        if arrived:
            reward += 1.0
        elif left:
            reward = -1.0
        return self._observe(), reward, arrived or left, False, {}

    def render(self) -> NDArray[np.uint8]:
        """Returns an image `[256, 256, 3]` of the present state."""
        place, target = (self._x, self._y), (self._target_x, self._target_y)
        return draw_field(_FIELD, place, target, _RADIUS, self._draw)

    def _prepare(self) -> None:
        """Begins an episode, after the positions were drawn."""

    @abstractmethod
    def _act(self, choice: int, parameters: list[float]) -> None:
        """Moves the agent."""

    def _can_finish(self) -> bool:
        """Return whether being in the target ends the episode."""
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
        return self._distance() < _RADIUS

    def _target_features(self) -> tuple[float, ...]:
        """Place of the target, distance, and whether the agent is in it."""
        return self._target_x, self._target_y, self._distance(), float(self._is_inside())


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


class HardMoveEnv(FieldEnv):
    """A task in the manner of Hard Move: the number of discrete actions is exponential.

    - Actions: ``Tuple(Discrete(2^n), Box(-1, 1, [n]))``. The n binary digits of the discrete
      action switch the actuators on, the first digit being actuator 0. The agent moves by
      0.1 Σ_i on_i a_i (cos 2πi/n, sin 2πi/n).
    - Observation: float32 `[7]`: x, y, x and y of the target, distance, whether inside, steps / 25
      (at most 1).
    - Reward: distance gained - 0.001, plus 1 for reaching the target; -1 instead for leaving the
      field.
    - Terminal: reaching the target, leaving the field. Registered with a time limit of 25 steps.
    - Reset: place and target anywhere, all of the target in the field.

    This is another task than the published one, which is ``HardMove-v1``: the rewards and the reach
    of 0.1 are those of this package, after https://arxiv.org/abs/2109.05490.

    Args:
        num_actuators: n, from 1 to 16. Default: 4.
        render_mode: ``"rgb_array"`` or None.

    >>> env = gym.make("rlkit_sac/HardMove-v0", num_actuators=4)
    >>> before, _ = env.reset(seed=0)
    >>> # 1000 in binary: the first of the four alone, which pushes along x.
    >>> after, *_ = env.step((8, np.array([-0.5, 1.0, 1.0, 1.0], np.float32)))
    >>> (after - before)[:2].round(3)
    array([-0.05,  0.  ], dtype=float32)
    """

    def __init__(self, num_actuators: int = 4, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        angles = [2 * math.pi * i / num_actuators for i in range(num_actuators)]
        self._unit_vectors = [(math.cos(a), math.sin(a)) for a in angles]
        self._directions = [(_REACH * dx, _REACH * dy) for dx, dy in self._unit_vectors]
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
        time = min(self._steps / _HARD_MOVE_STEPS, 1.0)
        return np.array([self._x, self._y, *self._target_features(), time], np.float32)

    def _draw(self, canvas: Canvas) -> None:
        draw_actuators(canvas, self._x, self._y, self._unit_vectors)


def draw_field(
    half_width: float, place: Vector, target: Vector, radius: float, draw: Callable[[Canvas], None]
) -> NDArray[np.uint8]:
    """Returns an image `[256, 256, 3]` of a square around (0, 0).

    Args:
        half_width: half the width of the square.
        place: position of the agent.
        target: center of the target.
        radius: radius of the target.
        draw: a function that draws on the canvas, above the target and below the agent.
    """
    scale, edge = _PIXELS / (2 * half_width), -half_width
    canvas = Canvas(_PIXELS, _PIXELS, left=edge, bottom=edge, scale=scale, color=_GRASS)
    canvas.disk(*target, radius, _TARGET)
    draw(canvas)
    canvas.disk(*place, 0.04, _AGENT)
    return canvas.pixels()


def draw_actuators(canvas: Canvas, x: float, y: float, directions: Iterable[Vector]) -> None:
    """Draws a line of length 0.1 from the agent at (x, y) along each direction of norm 1."""
    for dx, dy in directions:
        canvas.line(x, y, 0.1 * dx, 0.1 * dy, 0.015, (120, 120, 120))
