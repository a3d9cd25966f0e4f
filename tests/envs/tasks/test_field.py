import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs.tasks.field import FieldEnv, HardMoveEnv, MovingEnv, SlidingEnv

ACCELERATE, TURN, BRAKE = range(3)


def place(env: FieldEnv, x: float, y: float, target: tuple[float, float]) -> Any:
    env.reset(seed=0)
    env._x, env._y = x, y
    env._target_x, env._target_y = target
    if isinstance(env, MovingEnv):
        env._heading = env._course = 0.0
    return env


def act(choice: int, *parameters: float) -> Any:
    return choice, np.array(parameters)


@pytest.mark.parametrize("kind", [MovingEnv, SlidingEnv])
def test_driving_by_hand(kind: type[MovingEnv]) -> None:
    env = place(kind(), 0.0, 0.0, (0.6, 0.8))
    # Twice 0.5 and once 0.25 (the other parameter is not read) on the x axis.
    env.step(act(ACCELERATE, 1.0, -1.0))
    env.step(act(ACCELERATE, 7.0, 1.0))
    observation, reward, *_ = env.step(act(ACCELERATE, 0.5, 1.0))
    x = 0.005 * (0.5 + 1.0 + 1.25)
    distance, before = math.hypot(0.6 - x, 0.8), math.hypot(0.6 - 0.0075, 0.8)
    expected = [x, 0, 1.25, 1, 0, 0.6, 0.8, distance, 0, 3 / 200]
    assert np.allclose(observation, expected, atol=1e-6)
    assert reward == pytest.approx(before - distance - 0.001)
    observation, *_ = env.step(act(BRAKE, 1.0, 1.0))
    assert observation[2] == pytest.approx(1.15)
    assert env.step(act(ACCELERATE, -1.0, 0.0))[0][2] == pytest.approx(1.15)


@pytest.mark.parametrize("kind", [MovingEnv, SlidingEnv])
def test_standing_still_in_the_target_ends_and_pays_one_more(kind: type[MovingEnv]) -> None:
    env = place(kind(), 0.0, 0.0, (0.09, 0.0))
    _, reward, terminated, truncated, _ = env.step(act(ACCELERATE, 1.0, 0.0))
    assert not terminated  # it moves
    assert reward == pytest.approx(0.0025 - 0.001)
    for _ in range(5):
        observation, reward, terminated, truncated, _ = env.step(act(BRAKE, 0.0, 0.0))
    if not terminated:  # 0.5 less five times 0.1 may leave a rounding error
        observation, reward, terminated, truncated, _ = env.step(act(BRAKE, 0.0, 0.0))
    assert (terminated, truncated) == (True, False)
    assert reward == pytest.approx(1.0 - 0.001, abs=1e-3)
    assert observation[2] == 0
    assert observation[8] == 1


@pytest.mark.parametrize("kind", [MovingEnv, SlidingEnv])
def test_leaving_the_field_costs_exactly_one(kind: type[MovingEnv]) -> None:
    env = place(kind(), 0.999, 0.0, (0.0, 0.0))
    observation, reward, terminated, truncated, _ = env.step(act(ACCELERATE, 1.0, 0.0))
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize("name", ["Moving", "Sliding"])
def test_the_step_after_the_two_hundredth_truncates_and_costs_one(name: str) -> None:
    env = gym.make(f"rlkit_sac/{name}-v0")
    env.reset()
    place(env.unwrapped, 0.0, 0.0, (0.5, 0.5))
    ends = [env.step(act(TURN, 0.0, 1.0))[1:4] for _ in range(201)]
    assert ends[:200] == [(pytest.approx(-0.001), False, False)] * 200
    assert ends[200] == (-1.0, False, True)


def test_the_parameters_of_actuators_are_clipped() -> None:
    env = place(HardMoveEnv(), 0.0, 0.0, (0.9, 0.9))
    observation, reward, *_ = env.step(act(0b1100, 3.0, -3.0, 0.0, 0.0))
    assert observation.tolist() == pytest.approx(
        [0.1, -0.1, 0.9, 0.9, math.hypot(0.8, 1.0), 0, 1 / 25]
    )
    assert reward == pytest.approx(math.hypot(0.9, 0.9) - math.hypot(0.8, 1.0) - 0.001)
