"""Goal: dribble a ball across half a soccer field and shoot it past a keeper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.tasks.canvas import Canvas

# Length unit: that of the original; time unit: one internal step.
_LENGTH, _HALF_WIDTH = 20.0, 15.0
_POST, _NET_DEPTH = 7.01, 2.44
_AREA_LENGTH, _AREA_HALF_WIDTH = 5.5, 9.16
_REACH, _CATCH_DISTANCE = 1.6, 2.0
_REACH_AT_RESET = _REACH - 1e-12
_GOAL_REWARD = 50.0
_MAX_ACTIONS = 100

_KICK_TO = 0
_KICK_TO_BOX = ((0.0, -15.0), (40.0, 15.0))
_SHOT_X = 20.4
_MAX_KICK_POWER, _DASH_POWER = 100.0, 10.0
_FACING = math.pi / 8
_SLOW_BALL = 0.1

_SAVE_POWER, _WALK_POWER = 20.0, 8.0
_SAVE_MARGIN = 2.0

_HIGH_BODY = (20.0, 15.0, 1.0, 1.0, math.pi)
_LOW_BODY = (0.0, -15.0, -1.0, -1.0, -math.pi)
_LOW = (*_LOW_BODY, *_LOW_BODY, 0.0, -15.0, -3.0, -3.0, -1.0, -1.0, -_POST)
_HIGH = (*_HIGH_BODY, *_HIGH_BODY, 20.0, 15.0, 3.0, 3.0, 1.0, 1.0, 2 * _POST)
_SCALES = tuple((low, 2.0 / (high - low)) for low, high in zip(_LOW, _HIGH, strict=True))

_UNIFORM_BLOCK = 256

_GRASS, _LINE, _NET = (240, 240, 232), (190, 190, 180), (244, 165, 130)
_PLAYER, _GOALIE, _BALL = (33, 102, 172), (178, 24, 43), (30, 30, 30)


@dataclass
class _Body:
    """A disk that moves, slows down, and gains speed with noise."""

    size: float
    noise: float
    power_rate: float
    limit: float  # of speed and acceleration, along each axis
    decay: float
    x: float = 0.0
    y: float = 0.0
    vx: float = 0.0
    vy: float = 0.0
    orientation: float = 0.0

    def accelerate(self, power: float, angle: float, uniform: Callable[[], float]) -> None:
        angle *= 1.0 + self.noise * (2.0 * uniform() - 1.0)
        noise = self.noise * math.hypot(self.vx, self.vy)
        ax = power * self.power_rate * math.cos(angle) + noise * (2.0 * uniform() - 1.0)
        ay = power * self.power_rate * math.sin(angle) + noise * (2.0 * uniform() - 1.0)
        limit = self.limit
        self.vx = _clip(self.vx + _clip(ax, limit), limit)
        self.vy = _clip(self.vy + _clip(ay, limit), limit)

    def turn_to(self, angle: float) -> None:
        """Turns towards an angle, the less the faster the body moves."""
        turn = math.remainder(angle - self.orientation, math.tau)
        self.orientation += turn / (1.0 + 5.0 * math.hypot(self.vx, self.vy))

    def move(self) -> None:
        self.x += self.vx
        self.y += self.vy
        self.vx *= self.decay
        self.vy *= self.decay

    def place(self, x: float, y: float, orientation: float = 0.0) -> None:
        """Puts the body there, at rest."""
        self.x, self.y, self.vx, self.vy, self.orientation = x, y, 0.0, 0.0, orientation


class GoalEnv(gym.Env[NDArray[np.float32], Any]):
    """Robot Soccer Goal of Masson et al., Reinforcement Learning with Parameterized Actions (2016).

    One action is simulated in internal steps: a kick until the ball has slowed down within the
    player's reach or the episode ends, a shot until the episode ends. The dynamics are those of the
    authors' simulator as published in gym-goal.

    - Actions: ``Tuple(Discrete(3), Tuple(Box, Box, Box))``, of which the box of the choice is read:
      0 kicks the ball towards the point (x, x), x in [0, 40]; the second number of its box, in
      [-15, 15], is ignored. 1 and 2 both shoot at (20.4, y), y in [-7.01, 7.01]. The player walks
      to a ball out of its reach. Movements are noisy.
    - Observation: float32 `[17]`: position, velocity and orientation of the player, the same of the
      goalie, position and velocity of the ball, the unit vector from goalie to ball, and the y
      where the line through both meets x = 20, in [-7.01, 14.02]. Each is scaled linearly, so that
      its nominal range becomes [-1, 1]; positions, and orientations, which count turns, can be
      outside of it.
    - Reward: 50 for a goal; otherwise, at the end of the episode, minus the distance of the ball
      from the goal mouth, with 14.02 too much where the ball leaves below the mouth (x ≥ 20,
      y < -7.01).
    - Terminal: goal, ball within 2 of the goalie, ball outside of the field. The 100th action moves
      nothing and truncates.

    The `info` of a step has ``internal_steps``, how many it took, and ``goal``, whether it scored.

    Sources: https://arxiv.org/abs/1509.01644, https://github.com/cycraig/gym-goal; the last three
    numbers of the observation are those of the agents in https://github.com/cycraig/MP-DQN. Unlike
    there, the observation leaves out the number of internal steps, and the time limit truncates.

    Args:
        render_mode: ``"rgb_array"`` or None.
        repaired_kick: let action 0 kick towards (x, y). Results are then not comparable with
            published ones.

    >>> env = gym.make("rlkit_sac/Goal-v0")
    >>> observation, _ = env.reset(seed=0)
    >>> parameters = tuple(np.array(p, np.float32) for p in ([4.0, 0.0], [0.0], [0.0]))
    >>> observation, reward, terminated, truncated, _ = env.step((0, parameters))
    >>> reward, terminated, truncated
    (0.0, False, False)
    >>> observation, reward, terminated, truncated, info = env.step((1, parameters))
    >>> reward == 50.0 or reward < 0.0, terminated, sorted(info)
    (True, True, ['goal', 'internal_steps'])
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, repaired_kick: bool = False) -> None:
        self.render_mode = render_mode
        boxes = [Box(*np.array(_KICK_TO_BOX, np.float32), dtype=np.float32)]
        boxes += [Box(-_POST, _POST, (1,), np.float32) for _ in range(2)]
        self.action_space = Tuple([Discrete(len(boxes)), Tuple(boxes)])
        self.observation_space = Box(-np.inf, np.inf, (len(_SCALES),), np.float32)
        self._repaired_kick = repaired_kick
        self._player = _Body(0.9, noise=0.1, power_rate=0.006, limit=1.0, decay=0.4)
        self._goalie = _Body(0.9, noise=0.1, power_rate=0.006, limit=1.0, decay=0.4)
        self._ball = _Body(0.4, noise=0.05, power_rate=0.027, limit=2.7, decay=0.94)
        self._drawn: list[float] = []
        self._actions = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draws the place of the player on the line x = 0; the ball is in front of it."""
        super().reset(seed=seed)
        self._drawn, self._actions = [], 0
        y = _HALF_WIDTH * (2.0 * self._uniform() - 1.0)
        angle = math.atan2(-y, _LENGTH)
        self._player.place(0.0, y, angle)
        self._ball.place(_REACH_AT_RESET * math.cos(angle), y + _REACH_AT_RESET * math.sin(angle))
        self._place_goalie()
        return self._observe(), {}

    def step(
        self, action: tuple[int, tuple[NDArray[np.float32], ...]]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Simulates one kick or shot."""
        self._actions += 1
        count, reward, terminated = 0, 0.0, False
        truncated = self._actions >= _MAX_ACTIONS
        if truncated:
            reward = -_goal_distance(self._ball)
        else:
            count, reward, terminated = self._simulate(*self._target(action))
        info = {"internal_steps": count, "goal": reward == _GOAL_REWARD}
        return self._observe(), reward, terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """Returns an image `[256, 192, 3]` of the present state, the goal on the right."""
        if self.render_mode is None:
            return None
        canvas = Canvas(192, 256, left=-0.8, bottom=-16.0, scale=8.0, color=_GRASS)
        canvas.rectangle(_LENGTH, -_POST, _NET_DEPTH, 2 * _POST, _NET)
        for half_width, length in ((_HALF_WIDTH, _LENGTH), (_AREA_HALF_WIDTH, _AREA_LENGTH)):
            left = _LENGTH - length
            for x in (left, _LENGTH):
                canvas.line(x, -half_width, 0.0, 2 * half_width, 0.2, _LINE)
            for y in (-half_width, half_width):
                canvas.line(left, y, length, 0.0, 0.2, _LINE)
        for body, color in ((self._player, _PLAYER), (self._goalie, _GOALIE)):
            canvas.disk(body.x, body.y, body.size, color)
            cosine, sine = math.cos(body.orientation), math.sin(body.orientation)
            canvas.line(body.x, body.y, body.size * cosine, body.size * sine, 0.3, _GRASS)
        canvas.disk(self._ball.x, self._ball.y, self._ball.size, _BALL)
        return canvas.pixels()

    def _uniform(self) -> float:
        """Returns the next random number in [0, 1)."""
        if not self._drawn:
            self._drawn = self.np_random.random(_UNIFORM_BLOCK).tolist()
        return self._drawn.pop()

    def _place_goalie(self) -> None:
        """Puts the goalie between ball and goal, as far forward as its area goes."""
        ball = self._ball
        slope = -ball.y / (_LENGTH - ball.x)
        x = min(max(ball.x, _LENGTH - _AREA_LENGTH), _LENGTH)
        y = _clip(ball.y + slope * (x - ball.x), _AREA_HALF_WIDTH)
        self._goalie.place(x, y, math.atan2(ball.y - y, ball.x - x))

    def _target(
        self, action: tuple[int, tuple[NDArray[np.float32], ...]]
    ) -> tuple[float, float, bool]:
        """Returns where to kick the ball, x and y, and whether it is a shot."""
        choice = int(action[0])
        first, *others = map(float, action[1][choice])
        if choice != _KICK_TO:
            return _SHOT_X, _clip(first, _POST), True
        (low, _), (high, limit) = _KICK_TO_BOX
        x = min(max(first, low), high)
        return x, _clip(others[0], limit) if self._repaired_kick else x, False

    def _simulate(self, x: float, y: float, is_shot: bool) -> tuple[int, float, bool]:
        """Returns how many internal steps it took, the reward, and whether the episode ended."""
        player, ball = self._player, self._ball
        count = 0
        while True:
            count += 1
            reward, ended = self._advance(x, y)
            if ended:
                return count, reward, True
            if is_shot or math.hypot(ball.vx, ball.vy) > _SLOW_BALL:
                continue
            if _distance(player, ball) <= _REACH:
                return count, reward, False

    def _advance(self, x: float, y: float) -> tuple[float, bool]:
        """Takes one internal step; returns its reward, and whether the episode has ended."""
        player, goalie, ball = self._player, self._goalie, self._ball
        self._move_player(x, y)
        self._move_goalie()
        for body in (player, goalie, ball):
            body.move()
        _separate(player, goalie)
        _separate(player, ball)
        _separate(goalie, ball)
        if _is_in_net(ball):
            return _GOAL_REWARD, True
        self._uniform()  # would decide whether a catch succeeds, which it always does
        if _distance(goalie, ball) < _CATCH_DISTANCE or not _is_in_field(ball):
            return -_goal_distance(ball), True
        return 0.0, False

    def _move_player(self, x: float, y: float) -> None:
        """Kicks the ball towards (x, y), or walks or turns to it if it is out of reach."""
        player, ball = self._player, self._ball
        angle = math.atan2(ball.y - player.y, ball.x - player.x)
        if _distance(player, ball) <= _REACH:
            # From the player, not from the ball: it comes to rest beyond the target.
            ax = (1.0 - ball.decay) * (x - player.x) - ball.vx
            ay = (1.0 - ball.decay) * (y - player.y) - ball.vy
            factor = _kick_factor(player, ball)
            power = min(math.hypot(ax, ay) / (ball.power_rate * factor), _MAX_KICK_POWER) * factor
            ball.accelerate(power, math.atan2(ay, ax), self._uniform)
        elif abs(math.remainder(player.orientation - angle, math.tau)) < _FACING:
            player.accelerate(_DASH_POWER, player.orientation, self._uniform)
        else:
            player.turn_to(angle)

    def _move_goalie(self) -> None:
        """Runs into the line of a ball that will reach the goal, or walks to where it will stop."""
        goalie, ball = self._goalie, self._ball
        x = ball.x + ball.vx / (1.0 - ball.decay)
        y = ball.y + ball.vy / (1.0 - ball.decay)
        dx = x - ball.x
        slope = (y - ball.y) / dx if dx else 0.0
        goal_y = ball.y + slope * (_LENGTH - ball.x)
        power = _WALK_POWER
        # A flat shot, of slope 0, is not intercepted.
        if x > _LENGTH and abs(goal_y) <= _POST + _SAVE_MARGIN and slope:
            power = _SAVE_POWER
            along = (goalie.x - ball.x + slope * (goalie.y - ball.y)) / (1.0 + slope * slope)
            x, y = ball.x + along, ball.y + slope * along
        goalie.orientation = math.atan2(y - goalie.y, x - goalie.x)
        goalie.accelerate(power, goalie.orientation, self._uniform)

    def _observe(self) -> NDArray[np.float32]:
        player, goalie, ball = self._player, self._goalie, self._ball
        state = (
            *(player.x, player.y, player.vx, player.vy, player.orientation),
            *(goalie.x, goalie.y, goalie.vx, goalie.vy, goalie.orientation),
            *(ball.x, ball.y, ball.vx, ball.vy),
            *_features(goalie, ball),
        )
        return np.array(
            [(s - low) * scale - 1.0 for s, (low, scale) in zip(state, _SCALES, strict=True)],
            np.float32,
        )


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _distance(first: _Body, second: _Body) -> float:
    return math.hypot(first.x - second.x, first.y - second.y)


def _is_in_net(ball: _Body) -> bool:
    return _LENGTH <= ball.x <= _LENGTH + _NET_DEPTH and abs(ball.y) <= _POST


def _is_in_field(ball: _Body) -> bool:
    return 0.0 <= ball.x <= _LENGTH and abs(ball.y) <= _HALF_WIDTH


def _goal_distance(ball: _Body) -> float:
    """Distance from the goal mouth; beyond its line only in y, and too long below the mouth."""
    if ball.x < _LENGTH:
        return math.hypot(_LENGTH - ball.x, max(abs(ball.y) - _POST, 0.0))
    if abs(ball.y) <= _POST:
        return 0.0
    return ball.y - _POST if ball.y > 0.0 else _POST - ball.y


def _kick_factor(player: _Body, ball: _Body) -> float:
    """Share of the power of a kick, the less the farther and the more sideways the ball is."""
    angle = math.atan2(ball.y - player.y, ball.x - player.x)
    turn = abs(math.remainder(angle - player.orientation, math.tau))
    return 1.0 - 0.25 * turn / math.pi - 0.25 * _distance(player, ball) / _REACH


def _separate(first: _Body, second: _Body) -> None:
    """Pushes two bodies that overlap apart and reverses both."""
    overlap = (first.size + second.size - _distance(first, second)) / 2
    if overlap <= 0.0:
        return
    angle = math.atan2(first.y - second.y, first.x - second.x)
    dx, dy = overlap * math.cos(angle), overlap * math.sin(angle)
    first.x, first.y, first.vx, first.vy = first.x + dx, first.y + dy, -first.vx, -first.vy
    second.x, second.y, second.vx, second.vy = second.x - dx, second.y - dy, -second.vx, -second.vy


def _features(goalie: _Body, ball: _Body) -> tuple[float, float, float]:
    """Unit vector from goalie to ball, and the y where the line through both meets the goal's."""
    dx, dy = ball.x - goalie.x, ball.y - goalie.y
    angle = math.atan2(dy, dx)
    if dx:
        y = min(max(goalie.y + dy / dx * (_LENGTH - goalie.x), -_POST), 2 * _POST)
    else:
        y = -_POST if dy > 0.0 else _POST
    return math.cos(angle), math.sin(angle), y
