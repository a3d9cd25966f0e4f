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


def test_two_hundred_steps_are_the_limit() -> None:
    env = gym.make("rlkit_sac/Platform-v0")
    env.reset(seed=0)
    ends = []
    for _ in range(200):
        env.unwrapped._enemy_x = [200.0, 700.0]  # which keeps the figure safe
        ends.append(env.step(act(RUN, 0.0))[2:4])
    assert ends == [(False, False)] * 199 + [(False, True)]
