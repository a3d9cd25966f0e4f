"""Goal: dribble a ball across half a soccer field and shoot it past a keeper."""

from __future__ import annotations

import math
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
_AREA_X, _AREA_HALF_WIDTH = 14.5, 9.16
_REACH, _CATCH_DISTANCE = 1.6, 2.0
_GOAL_REWARD, _MAX_ACTIONS = 50.0, 100

_KICK_TO = 0
_KICK_TO_BOX = ((0.0, -15.0), (40.0, 15.0))
_SHOT_X = 20.4
_MAX_KICK_POWER, _DASH_POWER = 100.0, 10.0
_FACING, _SLOW_BALL = math.pi / 8, 0.1
_SAVE_POWER, _SAVE_LIMIT, _WALK_POWER = 20.0, _POST + 2.0, 8.0

# What the observation is scaled by.
_LOW_BODY, _HIGH_BODY = (0.0, -15.0, -1.0, -1.0, -math.pi), (20.0, 15.0, 1.0, 1.0, math.pi)
_LOW = np.array([*_LOW_BODY, *_LOW_BODY, 0.0, -15.0, -3.0, -3.0, -1.0, -1.0, -_POST])
_HIGH = np.array([*_HIGH_BODY, *_HIGH_BODY, 20.0, 15.0, 3.0, 3.0, 1.0, 1.0, 2 * _POST])

_GRASS, _LINE, _NET = (240, 240, 232), (190, 190, 180), (244, 165, 130)
_PLAYER, _GOALIE, _BALL = (33, 102, 172), (178, 24, 43), (30, 30, 30)

Action = tuple[int, tuple[NDArray[np.float32], ...]]


@dataclass
class _Body:
    """A disk that moves and slows down."""

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

    The `info` of a step has ``internal_steps``, how many it took, and ``success``: it scored.

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
    (True, True, ['internal_steps', 'success'])
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, repaired_kick: bool = False) -> None:
        self.render_mode = render_mode
        boxes = [Box(*np.array(_KICK_TO_BOX, np.float32), dtype=np.float32)]
        boxes += [Box(-_POST, _POST, (1,), np.float32) for _ in range(2)]
        self.action_space = Tuple([Discrete(len(boxes)), Tuple(boxes)])
        self.observation_space = Box(-np.inf, np.inf, (len(_LOW),), np.float32)
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
        angle, distance = math.atan2(-y, _LENGTH), _REACH - 1e-12
        self._player.place(0.0, y, angle)
        self._ball.place(distance * math.cos(angle), y + distance * math.sin(angle))
        # On the line from the ball to the middle of the goal, at the front of the goal area.
        goalie_y = self._ball.y * (_LENGTH - _AREA_X) / (_LENGTH - self._ball.x)
        goalie_angle = math.atan2(self._ball.y - goalie_y, self._ball.x - _AREA_X)
        self._goalie.place(_AREA_X, goalie_y, goalie_angle)
        return self._observe(), {}

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Simulates one kick or shot."""
        self._actions += 1
        truncated = self._actions >= _MAX_ACTIONS
        count, reward, terminated = 0, -_goal_distance(self._ball), False
        if not truncated:
            count, reward, terminated = self._simulate(action)
        info = {"internal_steps": count, "success": reward == _GOAL_REWARD}
        return self._observe(), reward, terminated, truncated, info

    def render(self) -> NDArray[np.uint8]:
        """Returns an image `[256, 192, 3]` of the present state, the goal on the right."""
        canvas = Canvas(192, 256, left=-0.8, bottom=-16.0, scale=8.0, color=_GRASS)
        canvas.rectangle(_LENGTH, -_POST, _NET_DEPTH, 2 * _POST, _NET)
        for x, half in ((0.0, _HALF_WIDTH), (_AREA_X, _AREA_HALF_WIDTH)):
            for border, color in ((0.1, _LINE), (-0.1, _GRASS)):
                width, height = _LENGTH - x + 2 * border, 2 * (half + border)
                canvas.rectangle(x - border, -half - border, width, height, color)
        for body, color in ((self._player, _PLAYER), (self._goalie, _GOALIE)):
            canvas.disk(body.x, body.y, body.size, color)
            dx, dy = math.cos(body.orientation), math.sin(body.orientation)
            canvas.line(body.x, body.y, body.size * dx, body.size * dy, 0.3, _GRASS)
        canvas.disk(self._ball.x, self._ball.y, self._ball.size, _BALL)
        return canvas.pixels()

    def _uniform(self) -> float:
        """Returns the next random number in [0, 1)."""
        if not self._drawn:
            self._drawn = self.np_random.random(256).tolist()
        return self._drawn.pop()

    def _simulate(self, action: Action) -> tuple[int, float, bool]:
        """Returns how many internal steps it took, the reward, and whether the episode ended."""
        player, ball = self._player, self._ball
        is_shot = int(action[0]) != _KICK_TO
        first, *others = map(float, action[1][int(action[0])])
        x, y = _SHOT_X, _clip(first, _POST)
        if not is_shot:
            (low, _), (high, limit) = _KICK_TO_BOX
            x = min(max(first, low), high)
            y = _clip(others[0], limit) if self._repaired_kick else x
        count = 0
        while True:
            count += 1
            reward, ended = self._advance(x, y)
            is_fast = math.hypot(ball.vx, ball.vy) > _SLOW_BALL
            if ended or not (is_shot or is_fast or _distance(player, ball) > _REACH):
                return count, reward, ended

    def _advance(self, x: float, y: float) -> tuple[float, bool]:
        """Takes one internal step; returns its reward, and whether the episode has ended."""
        player, goalie, ball = self._player, self._goalie, self._ball
        self._move_player(x, y)
        self._move_goalie()
        for body in (player, goalie, ball):
            body.x, body.y = body.x + body.vx, body.y + body.vy
            body.vx, body.vy = body.vx * body.decay, body.vy * body.decay
        for first, second in ((player, goalie), (player, ball), (goalie, ball)):
            _separate(first, second)
        if _LENGTH <= ball.x <= _LENGTH + _NET_DEPTH and abs(ball.y) <= _POST:
            return _GOAL_REWARD, True
        self._uniform()  # would decide whether a catch succeeds, which it always does
        is_outside = not (0.0 <= ball.x <= _LENGTH and abs(ball.y) <= _HALF_WIDTH)
        if is_outside or _distance(goalie, ball) < _CATCH_DISTANCE:
            return -_goal_distance(ball), True
        return 0.0, False

    def _move_player(self, x: float, y: float) -> None:
        """Kicks the ball towards (x, y), or walks or turns to it if it is out of reach."""
        player, ball = self._player, self._ball
        distance = _distance(player, ball)
        angle = math.atan2(ball.y - player.y, ball.x - player.x)
        turn = math.remainder(angle - player.orientation, math.tau)
        if distance <= _REACH:
            # From the player, not from the ball: the ball comes to rest beyond the target.
            ax = (1.0 - ball.decay) * (x - player.x) - ball.vx
            ay = (1.0 - ball.decay) * (y - player.y) - ball.vy
            share = 1.0 - 0.25 * abs(turn) / math.pi - 0.25 * distance / _REACH
            power = min(math.hypot(ax, ay) / (ball.power_rate * share), _MAX_KICK_POWER) * share
            self._accelerate(ball, power, math.atan2(ay, ax))
        elif abs(turn) < _FACING:
            self._accelerate(player, _DASH_POWER, player.orientation)
        else:
            player.orientation += turn / (1.0 + 5.0 * math.hypot(player.vx, player.vy))

    def _move_goalie(self) -> None:
        """Runs into the line of a ball that will reach the goal, or walks to where it will stop."""
        goalie, ball = self._goalie, self._ball
        x = ball.x + ball.vx / (1.0 - ball.decay)
        y = ball.y + ball.vy / (1.0 - ball.decay)
        slope = (y - ball.y) / (x - ball.x) if x != ball.x else 0.0
        power = _WALK_POWER
        # A flat shot, of slope 0, is not intercepted.
        if x > _LENGTH and slope and abs(ball.y + slope * (_LENGTH - ball.x)) <= _SAVE_LIMIT:
            power = _SAVE_POWER
            along = (goalie.x - ball.x + slope * (goalie.y - ball.y)) / (1.0 + slope * slope)
            x, y = ball.x + along, ball.y + slope * along
        goalie.orientation = math.atan2(y - goalie.y, x - goalie.x)
        self._accelerate(goalie, power, goalie.orientation)

    def _accelerate(self, body: _Body, power: float, angle: float) -> None:
        """Changes the velocity, with noise that grows with the angle and the speed."""
        angle *= 1.0 + body.noise * (2.0 * self._uniform() - 1.0)
        noise = body.noise * math.hypot(body.vx, body.vy)
        ax = power * body.power_rate * math.cos(angle) + noise * (2.0 * self._uniform() - 1.0)
        ay = power * body.power_rate * math.sin(angle) + noise * (2.0 * self._uniform() - 1.0)
        body.vx = _clip(body.vx + _clip(ax, body.limit), body.limit)
        body.vy = _clip(body.vy + _clip(ay, body.limit), body.limit)

    def _observe(self) -> NDArray[np.float32]:
        player, goalie, ball = self._player, self._goalie, self._ball
        dx, dy = ball.x - goalie.x, ball.y - goalie.y
        angle = math.atan2(dy, dx)
        goal_y = -_POST if dy > 0.0 else _POST
        if dx:
            goal_y = min(max(goalie.y + dy / dx * (_LENGTH - goalie.x), -_POST), 2 * _POST)
        state = (
            *(player.x, player.y, player.vx, player.vy, player.orientation),
            *(goalie.x, goalie.y, goalie.vx, goalie.vy, goalie.orientation),
            *(ball.x, ball.y, ball.vx, ball.vy, math.cos(angle), math.sin(angle), goal_y),
        )
        return (2.0 * (np.array(state) - _LOW) / (_HIGH - _LOW) - 1.0).astype(np.float32)


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _distance(first: _Body, second: _Body) -> float:
    return math.hypot(first.x - second.x, first.y - second.y)


def _goal_distance(ball: _Body) -> float:
    """Distance from the goal mouth; beyond its line only in y, with 14.02 too much below it."""
    beside = max(abs(ball.y) - _POST, 0.0)
    if ball.x < _LENGTH:
        return math.hypot(_LENGTH - ball.x, beside)
    return beside + (2 * _POST if ball.y < -_POST else 0.0)


def _separate(first: _Body, second: _Body) -> None:
    """Pushes two bodies that overlap apart and reverses both."""
    overlap = (first.size + second.size - _distance(first, second)) / 2
    if overlap > 0.0:
        angle = math.atan2(first.y - second.y, first.x - second.x)
        dx, dy = overlap * math.cos(angle), overlap * math.sin(angle)
        first.x, first.y, first.vx, first.vy = first.x + dx, first.y + dy, -first.vx, -first.vy
        second.x, second.y = second.x - dx, second.y - dy
        second.vx, second.vy = -second.vx, -second.vy
