"""Goal beside numbers of the original, recorded in goal.json: `u` are its random numbers, × 10⁴."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs.tasks.goal import GoalEnv, _separate

REFERENCE = json.loads((Path(__file__).parent / "goal.json").read_text())
FUNCTIONS = REFERENCE["functions"]
KICK_TO, SHOOT = 0, 1
BODY = ("x", "y", "vx", "vy", "orientation")
CLOSE = {"rel": 1e-9, "abs": 1e-7}


class Injected(GoalEnv):
    """Its random numbers are given; without any, all are 0.5, which is no noise."""

    def __init__(self, u: list[int] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.u: Iterator[int] | None = None if u is None else iter(u)
        self.draws = 0

    def _uniform(self) -> float:
        self.draws += 1
        return 0.5 if self.u is None else next(self.u) / 10_000

    def used_all(self) -> bool:
        return self.u is None or next(self.u, None) is None


def put(env: GoalEnv, state: list[float]) -> None:
    for body, first in ((env._player, 0), (env._goalie, 5), (env._ball, 10)):
        for name, value in zip(BODY, state[first : first + 5], strict=False):
            setattr(body, name, value)


def state_of(env: GoalEnv) -> list[float]:
    bodies = (env._player, env._goalie, env._ball)
    return [getattr(body, name) for body in bodies for name in BODY][:-1]


def act(choice: int, parameter: list[float]) -> Any:
    parameters = [[0.0, 0.0], [0.0], [0.0]]
    parameters[choice] = parameter
    return choice, tuple(np.array(each) for each in parameters)


def one_body(name: str, position: list[float], velocity: list[float]) -> Any:
    body = getattr(GoalEnv(), f"_{name}")
    body.place(*position)
    body.vx, body.vy = velocity
    return body


def test_a_kick_is_weaker_the_farther_and_more_sideways_the_ball_is() -> None:
    for case in FUNCTIONS["kick_power"]:
        env = Injected()
        env._player.place(*case["player"], case["orientation"])
        env._ball.place(*case["ball"])
        env._move_player(1000.0, env._player.y)  # at full power, which is 2.7
        assert env._ball.vx / 2.7 == pytest.approx(case["kick_power"], **CLOSE)


def test_a_player_at_speed_turns_less() -> None:
    for case in FUNCTIONS["turn"]:
        env = Injected()
        player, angle = env._player, case["orientation"] + case["turn"]
        player.orientation, (player.vx, player.vy) = case["orientation"], case["velocity"]
        env._ball.place(5 * math.cos(angle), 5 * math.sin(angle))
        env._move_player(20.0, 0.0)
        assert player.orientation == pytest.approx(case["orientation_after"], **CLOSE)


def test_acceleration_is_noisy_and_limited() -> None:
    for case in FUNCTIONS["accelerate"]:
        env = Injected(case["u"])
        body = getattr(env, f"_{case['entity']}")
        body.vx, body.vy = case["velocity"]
        env._accelerate(body, case["power"], case["direction"])
        assert [body.vx, body.vy] == pytest.approx(case["velocity_after"], **CLOSE)


def test_bodies_that_overlap_are_pushed_apart() -> None:
    for case in FUNCTIONS["decollide"]:
        names = (case["first"], case["second"])
        bodies = [
            one_body(*each) for each in zip(names, case["position"], case["velocity"], strict=True)
        ]
        _separate(*bodies)
        for index, body in enumerate(bodies):
            place, velocity = case["position_after"][index], case["velocity_after"][index]
            assert [body.x, body.y] == pytest.approx(place, **CLOSE)
            assert [body.vx, body.vy] == pytest.approx(velocity, **CLOSE)


@pytest.mark.parametrize("case", REFERENCE["updates"], ids=lambda case: case["tag"])
def test_one_internal_step(case: dict[str, Any]) -> None:
    env = Injected(case["u"])
    put(env, case["state"])
    first, is_kick = case["p"][0], case["k"] == KICK_TO
    target = [np.clip(first, 0, 40)] * 2 if is_kick else [20.4, np.clip(first, -7.01, 7.01)]
    reward, ended = env._advance(*target)
    assert state_of(env) == pytest.approx(case["state_after"], **CLOSE)
    assert reward == pytest.approx(case["reward"], **CLOSE)
    assert ended == case["end"]
    assert env.used_all()


@pytest.mark.parametrize(
    ("speed", "slope", "runs"),
    [
        (0.7, 0.9, True),
        (0.7, -0.902, False),
        (0.599, 0.3, False),
        (0.601, 0.3, True),
        (0.7, 0.0, False),
    ],
)
def test_the_goalie_runs_if_the_ball_will_come_within_two_of_the_goal(
    speed: float, slope: float, runs: bool
) -> None:
    env = Injected()
    env._player.place(0.0, -14.0)
    env._goalie.place(16.0, -5.0)
    env._ball.place(10.0, 0.0)  # comes to rest at x = 10 + speed / 0.06
    env._ball.vx, env._ball.vy = speed, slope * speed
    env._advance(0.0, 0.0)
    way = math.hypot(env._goalie.x - 16.0, env._goalie.y + 5.0)
    assert way == pytest.approx(0.12 if runs else 0.048)


def test_a_ball_that_moves_along_x_by_less_than_a_rounding_has_no_slope() -> None:
    env = Injected()
    env._goalie.place(16.0, 0.0)
    env._ball.place(10.0, 0.0)
    env._ball.vx, env._ball.vy = 1e-18, 0.5
    env._advance(0.0, 0.0)
    assert env._goalie.orientation == pytest.approx(math.atan2(0.5 / 0.06, -6.0))


@pytest.mark.parametrize("key", ["steps", "steps_with_y"])
def test_one_action(key: str) -> None:
    for case in REFERENCE[key]:
        env = Injected(case.get("u"), repaired_kick=key == "steps_with_y")
        put(env, case["state"])
        env._actions = case["time"]
        _, reward, terminated, truncated, info = env.step(act(case["k"], case["p"]))
        assert state_of(env) == pytest.approx(case["state_after"], **CLOSE)
        assert reward == pytest.approx(case["reward"], **CLOSE)
        assert truncated == (case["time"] == 99)
        assert terminated == (case["end"] and not truncated)
        assert info == {"internal_steps": case["internal_steps"], "success": reward == 50.0}
        assert env.draws == case["draws"]
        assert env.used_all()


@pytest.mark.parametrize("episode", REFERENCE["episodes"], ids=lambda episode: episode["policy"])
def test_whole_episodes(episode: dict[str, Any]) -> None:
    env = Injected(episode["u"])
    env.reset()
    total = 0.0
    for step in episode["steps"]:
        _, reward, terminated, truncated, info = env.step(act(step["k"], step["p"]))
        assert state_of(env) == pytest.approx(step["state_after"], rel=1e-7, abs=1e-6)
        assert info["internal_steps"] == step["internal_steps"]
        assert terminated == step["end"]
        assert not truncated
        total += reward
    assert total == pytest.approx(episode["return"], **CLOSE)
    assert env.used_all()


def test_the_hundredth_action_moves_nothing_and_truncates() -> None:
    env = gym.make("rlkit_sac/Goal-v0")
    observation, _ = env.reset(seed=next(seed for seed in range(100) if abs(start(seed)) < 0.5))
    for count in range(1, 101):
        before = observation
        # To where the player is: the ball stays within its reach.
        observation, reward, terminated, truncated, info = env.step(act(KICK_TO, [0.0, 0.0]))
        assert not terminated
        assert truncated == (count == 100)
    ball_x, ball_y = 10 * (1 + before[10]), 15 * before[11]
    assert np.array_equal(observation, before)
    assert reward == pytest.approx(-math.hypot(20 - ball_x, max(abs(ball_y) - 7.01, 0)), rel=1e-5)
    assert info == {"internal_steps": 0, "success": False}


def start(seed: int) -> float:
    """The player's y at the reset."""
    return float(15 * GoalEnv().reset(seed=seed)[0][1])
