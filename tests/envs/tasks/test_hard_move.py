"""HardMove-v1 beside the authors' code, whose figures `hard_move.json` holds and describes."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlkit_sac.envs import make_env, parameter_mask
from rlkit_sac.envs.tasks.hard_move import HardMoveV1Env
from tests.envs.tasks.scripts import greedy_policy

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
