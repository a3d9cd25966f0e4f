from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit_sac.envs.tasks.platform import PlatformEnv
from tests.envs.tasks.platform_reference import PlatformReference
from tests.envs.tasks.scripts import platform_policy

RUN, HOP, LEAP = range(3)


class Silent:
    """In place of the random generator: no noise."""

    def standard_normal(self) -> float:
        return 0.0


def act(choice: int, parameter: float) -> Any:
    return choice, tuple(np.array([parameter]) for _ in range(3))


def quiet() -> PlatformEnv:
    env = PlatformEnv()
    env.reset(seed=0)
    env.np_random = Silent()  # type: ignore[assignment]
    return env


def raw(observation: Any) -> Any:
    """The nine numbers before scaling."""
    shift = np.array([20, 0, 0, 30, 0, 0, 0, 0, 0])
    return observation * np.array([1055, 100, 1035, 60, 275, 275, 235, 1035, 1]) - shift


def test_a_run_without_noise_by_hand() -> None:
    env = quiet()
    observation, reward, terminated, truncated, _ = env.step(act(RUN, 1.0))
    # v <- v + 1, x <- x + v / 20, v <- 0.99 v, twenty times.
    x = v = 0.0
    for _ in range(20):
        v += 1.0
        x += 0.05 * v
        v *= 0.99
    # The enemy turns at its right end, is held there, turns again, and walks for 19 sub-steps.
    assert raw(observation)[:4] == pytest.approx([x, v, 201.5, -30.0], abs=1e-4)
    assert reward == pytest.approx(x / 1035)
    assert not terminated
    assert not truncated


@pytest.mark.parametrize(("choice", "speed", "up"), [(HOP, 20.0, 35.0), (LEAP, 10.0, 25.0)])
def test_a_jump_without_noise_by_hand(choice: int, speed: float, up: float) -> None:
    env = quiet()
    time = 2 * up / 9.8 + 1
    observation, *_ = env.step(act(choice, speed * time))
    # At the take-off `speed` and `up`; in the air the one decays and the other falls.
    x, y, vx, vy = 0.05 * speed, 40.0 + 0.05 * up, 0.99 * speed, up
    while y > 40.0:
        vy -= 0.05 * 9.8
        x, y, vx = x + 0.05 * vx, y + 0.05 * vy, 0.99 * vx
    assert raw(observation)[:2] == pytest.approx([x, 0.0], abs=1e-4)
    assert env._y == 40.0


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    actions=st.lists(st.tuples(st.integers(0, 2), st.floats(-10, 800, width=32)), max_size=12),
    follow=st.integers(0, 9),
)
def test_it_equals_the_slow_reference(
    seed: int, actions: list[tuple[int, float]], follow: int
) -> None:
    env = PlatformEnv()
    observation, _ = env.reset(seed=seed)
    reference = PlatformReference(np.random.default_rng(seed))
    reference.rng.bit_generator.state = env.np_random.bit_generator.state
    for index, (choice, parameter) in enumerate(actions):
        if index < follow:  # the script leads to the later platforms
            choice, parameters = platform_policy(observation)
            parameter = float(parameters[choice][0])
        observation, reward, terminated, _, _ = env.step(act(choice, parameter))
        expected, ended = reference.step(choice, parameter)
        assert reward == pytest.approx(expected, abs=1e-9)
        assert terminated == ended
        assert np.allclose(observation, reference.observe(), atol=1e-6)
        if ended:
            break


def test_it_falls_from_an_edge() -> None:
    env = quiet()
    env._x = 249.0
    _, reward, terminated, _, _ = env.step(act(RUN, 30.0))
    # 1.5 in the first sub-step ends beyond 250; gravity does the rest in the second.
    assert terminated
    assert env._y == pytest.approx(40 - 0.05 * 0.05 * 9.8)
    assert reward == pytest.approx(0.05 * (30 + 29.7) / 1035)


@pytest.mark.parametrize(
    ("distance", "touches"), [(20.0, False), (19.99, True), (-19.99, True), (-20.0, False)]
)
def test_an_enemy_is_touched_where_the_rectangles_overlap(distance: float, touches: bool) -> None:
    env = quiet()
    env._x, env._enemy_x[0] = 100.0, 100.0 + distance
    assert env._touches_enemy() == touches
    env._y = 70.0  # above its head
    assert not env._touches_enemy()
    env._y = 69.99
    assert env._touches_enemy() == touches


def test_the_end_is_reached_at_1035() -> None:
    env = quiet()
    env._x = 1000.0
    observation, reward, terminated, _, _ = env.step(act(HOP, 720.0))
    assert terminated
    assert raw(observation)[0] == pytest.approx(1035)
    assert reward == pytest.approx(35 / 1035)


def test_only_the_parameter_of_the_choice_is_read_and_clipped() -> None:
    first, second = PlatformEnv(), PlatformEnv()
    first.reset(seed=4)
    second.reset(seed=4)
    one = first.step((LEAP, (np.array([7.0]), np.array([100.0]), np.array([430.0]))))
    two = second.step((LEAP, (np.array([0.0]), np.array([900.0]), np.array([999.0]))))
    assert np.array_equal(one[0], two[0])
    assert one[1] == two[1]


def test_two_hundred_steps_are_the_limit() -> None:
    env = gym.make("rlkit_sac/Platform-v0")
    env.reset(seed=0)
    ends = []
    for _ in range(200):
        env.unwrapped._enemy_x = [200.0, 700.0]  # which keeps the figure safe
        ends.append(env.step(act(RUN, 0.0))[2:4])
    assert ends == [(False, False)] * 199 + [(False, True)]
