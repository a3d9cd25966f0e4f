"""HardMove-v1 beside the authors' code, whose figures `hard_move.json` holds and describes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlkit_sac.envs import load_episodes, make_env, parameter_mask, save_episodes
from rlkit_sac.envs.tasks.hard_move import HardMoveV1Env
from rlkit_sac.errors import ConfigError
from tests.envs.tasks.scripts import greedy_policy, play

REFERENCE = json.loads(Path(__file__).with_name("hard_move.json").read_text())
SIZES = [4, 6, 8, 10]


def place(env: HardMoveV1Env, place: Any, target: Any, velocity: Any = (0.0, 0.0)) -> Any:
    """The observation there."""
    env._x, env._y = place
    env._target_x, env._target_y = target
    env._vx, env._vy = velocity
    return env._observe()


def act(n: int, choice: int, magnitude: float) -> Any:
    magnitudes = [np.full(1, 7.0) for _ in range(2**n)]  # the others are not read
    magnitudes[choice] = np.array([magnitude])
    return choice, tuple(magnitudes)


@pytest.mark.parametrize("n", SIZES)
def test_the_directions_are_those_of_the_reference(n: int) -> None:
    env, expected = HardMoveV1Env(n), REFERENCE["directions"][str(n)]
    directions = np.array(env._directions)
    assert env._actuators == expected["actuators"]
    for entry in expected["entries"]:
        assert np.allclose(directions[entry["k"]], entry["direction"], rtol=0, atol=1e-9)
    assert (directions == 0).all(axis=1).sum() == expected["zero_directions"]
    assert len(np.unique(directions, axis=0)) == expected["distinct_directions"]
    assert np.hypot(*directions.T).max() == pytest.approx(1.0, abs=1e-12)


def test_steps_are_those_of_the_reference() -> None:
    for step in REFERENCE["steps"]:
        env = HardMoveV1Env(step["n"])
        place(env, step["position"], step["target"], step["velocity"])
        action = act(step["n"], step["k"], step["a"])
        observation, reward, terminated, truncated, _ = env.step(action)
        assert np.allclose(observation, step["observation_after"], rtol=0, atol=1e-7)
        assert np.allclose([env._x, env._y], step["position_after"], rtol=0, atol=1e-9)
        assert reward == pytest.approx(step["reward"], abs=1e-8)
        assert (terminated, truncated) == (step["success"], False)


def test_episodes_are_those_of_the_reference() -> None:
    for episode in REFERENCE["episodes"]:
        env = HardMoveV1Env(episode["n"])
        observation = place(env, episode["position"], episode["target"])
        for number, (k, a, *after, reward_after) in enumerate(episode["steps"], 1):
            if episode["policy"] == "greedy":
                choice, magnitudes = greedy_policy(observation, episode["n"])
                assert (choice, magnitudes[k].item()) == (k, pytest.approx(a, abs=1e-5))
            observation, reward, terminated, *_ = env.step(act(episode["n"], k, a))
            assert np.allclose(observation, after, rtol=0, atol=1e-7)
            assert reward == pytest.approx(reward_after, abs=1e-8)
            assert terminated == (episode["success"] and number == len(episode["steps"]))


@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=() if n == 6 else pytest.mark.slow) for n in SIZES]
)
def test_the_script_has_the_statistics_of_the_reference(n: int) -> None:
    expected = REFERENCE["statistics"][str(n)]["greedy"]
    env = HardMoveV1Env(n)
    returns, lengths, successes = [], [], []
    for seed in range(expected["episodes"]):
        start = np.random.RandomState(seed).uniform(-1.0, 1.0, 4).tolist()  # as the reference
        observation, total = place(env, start[:2], start[2:]), 0.0
        length, terminated = 0, False
        while length < 30 and not terminated:
            observation, reward, terminated, *_ = env.step(greedy_policy(observation, n))
            total += reward
            length += 1
        returns.append(total)
        lengths.append(length)
        successes.append(terminated)
    assert np.mean(successes) == pytest.approx(expected["success"], abs=1e-9)
    assert np.mean(lengths) == pytest.approx(expected["mean_length"], abs=1e-9)
    assert np.mean(returns) == pytest.approx(expected["mean_return"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
def test_uniform_actions_and_resets_have_the_statistics_of_the_reference(n: int) -> None:
    expected = REFERENCE["statistics"][str(n)]["uniform"]
    env, rng = gym.make("rlkit_sac/HardMove-v1", num_actuators=n), np.random.default_rng(0)
    env.reset(seed=0)

    def uniform(_: Any) -> Any:
        return int(rng.integers(2**n)), (rng.uniform(-1, 1, 1),) * 2**n

    returns, lengths, successes = play(env, uniform, 5000)
    share = 1 / math.sqrt(5000) + 1 / math.sqrt(expected["episodes"])
    for values, name in ((returns, "return"), (lengths, "length")):
        width = 3 * share * expected[f"std_{name}"]
        assert values.mean() == pytest.approx(expected[f"mean_{name}"], abs=width)
    assert successes.mean() == pytest.approx(expected["success"], abs=0.01)


def test_place_and_target_are_drawn_from_the_whole_square_at_rest() -> None:
    env = HardMoveV1Env()
    starts = []
    for seed in range(2000):
        observation, _ = env.reset(seed=seed)
        starts.append([env._x, env._y, env._target_x, env._target_y])
        expected = [0.0, 0.0, env._target_x - env._x, env._target_y - env._y]
        assert np.array_equal(observation, np.float32(expected))
    assert np.abs(starts).max() <= 1.0
    assert np.abs(starts).max(axis=0).min() > 0.99
    # A uniform variable on ±1 has mean 0 and standard deviation 1 / √3; the four are independent.
    assert np.allclose(np.mean(starts, axis=0), 0.0, atol=0.05)
    assert np.allclose(np.cov(np.transpose(starts)), np.eye(4) / 3, atol=0.03)
    # The start is inside the target where it falls there: about π 0.2² / 4 of the square.
    inside = np.hypot(*(np.array(starts)[:, :2] - np.array(starts)[:, 2:]).T) < 0.2
    assert 0.015 < inside.mean() < 0.045


def test_a_start_inside_the_target_succeeds_with_the_first_step() -> None:
    env = HardMoveV1Env()
    place(env, (0.5, 0.5), (0.5, 0.6))
    _, reward, terminated, truncated, _ = env.step(act(4, 0, 1.0))  # nothing moves
    assert (reward, terminated, truncated) == (pytest.approx(20 - 0.01), True, False)


def test_the_thirtieth_step_truncates_and_success_in_it_terminates() -> None:
    env = gym.make("rlkit_sac/HardMove-v1")
    env.reset()
    place(env.unwrapped, (0.0, 0.0), (0.9, 0.0))
    ends = [env.step(act(4, 5, 1.0))[1:4] for _ in range(30)]  # opposite actuators: nothing moves
    assert ends[:29] == [(pytest.approx(-0.81), False, False)] * 29
    assert ends[29] == (pytest.approx(-0.81), False, True)
    env.reset()
    place(env.unwrapped, (0.0, 0.0), (0.9, 0.0))
    for _ in range(29):
        env.step(act(4, 5, 1.0))
    place(env.unwrapped, (0.0, 0.0), (0.9, 0.0), velocity=(10.0, 0.0))  # moves by 0.75
    assert env.step(act(4, 5, 1.0))[1:4] == (pytest.approx(20 - 0.15**2), True, True)


@pytest.mark.parametrize("n", [0, 11])
def test_the_number_of_actuators_has_a_range(n: int) -> None:
    with pytest.raises(ConfigError, match=f"num_actuators is {n}; it must be between 1 and 10"):
        HardMoveV1Env(n)


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_each_parameter_belongs_to_one_choice(n: int) -> None:
    env = make_env("HardMove-v1", kwargs={"num_actuators": n}, seed=0)
    mask = parameter_mask(env)
    assert mask is not None
    assert torch.equal(mask, torch.eye(2**n, dtype=torch.bool))
    # The agent's action arrives: actuator 0 alone, at full magnitude.
    state = env.reset()
    before = state["observation"].clone()
    action = env.full_action_spec.zero()
    choice = 2 ** (n - 1)
    action["action", "discrete"].fill_(choice)
    action["action", "continuous"][choice] = 1.0
    after = env.step(state.update(action))["next", "observation"]
    direction = env.base_env._env.unwrapped._directions[choice]
    assert direction[0] > 0.3
    expected = 0.2 * torch.tensor([*direction, -0.1 * direction[0], -0.1 * direction[1]])
    assert torch.allclose(after - before, expected.float(), atol=1e-6)


def test_a_saved_episode_of_a_thousand_choices_goes_on_with_its_velocity() -> None:
    env, again = (make_env("HardMove-v1", kwargs={"num_actuators": 10}, seed=3) for _ in range(2))
    state = env.reset()
    torch.manual_seed(0)
    actions = [env.full_action_spec.rand() for _ in range(10)]
    for action in actions[:5]:
        _, state = env.step_and_maybe_reset(state.update(action))
    assert load_episodes(again, save_episodes(env)) == [True]
    copy = again.reset()
    assert torch.equal(copy["observation"], state["observation"])
    for action in actions[5:]:
        first, state = env.step_and_maybe_reset(state.update(action))
        second, copy = again.step_and_maybe_reset(copy.update(action))
        for key in ("observation", "reward", "done"):
            assert torch.equal(first["next", key], second["next", key])


def test_the_picture_shows_target_and_agent_where_they_are() -> None:
    env = HardMoveV1Env(render_mode="rgb_array")
    env.reset(seed=0)
    place(env, (-0.6, 0.6), (0.6, -0.6))  # a quarter of the square [-1.2, 1.2]² from its edges
    picture: Any = env.render()
    assert picture.shape == (256, 256, 3)
    agent, target = picture[64, 64], picture[192, 192]  # rows count from the top
    assert agent[2] > agent[0]
    assert target[0] > target[2]
    inside, outside = picture[192, 192 + 20], picture[192, 192 + 23]  # 0.19 and 0.22 of the center
    assert np.array_equal(inside, target)
    assert not np.array_equal(outside, target)
