from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlkit_sac.envs import make_env
from rlkit_sac.envs.actions import BoxActions
from rlkit_sac.errors import ConfigError


def step_with(env_id: str, action: torch.Tensor, **options: Any) -> Any:
    """What the environment itself receives for the agent's action."""
    env = make_env(env_id, **options)
    env.step(env.reset().set("action", action))
    return env.base_env._env.unwrapped.received[-1]


def test_a_box_of_any_shape_arrives_in_its_own_shape_dtype_and_bounds(
    register: Callable[..., str],
) -> None:
    low = np.array([[-1.0, 0.0, 2.0], [-4.0, -0.1, 10.0]])
    high = np.array([[1.0, 3.0, 2.5], [8.0, 0.7, 30.0]])
    env_id = register(Box(low, high, dtype=np.float64))
    action = torch.tensor([-1.0, 1.0, 0.0, 0.5, -1.0, 1.0])
    received = step_with(env_id, action)
    assert received.shape == (2, 3)
    assert received.dtype == np.float64
    # By hand: low, high and the middle; three quarters of -4 … 8 is 5.
    assert received.tolist() == [[-1.0, 3.0, 2.25], [5.0, -0.1, 30.0]]


def test_actions_outside_the_bounds_are_clipped(register: Callable[..., str]) -> None:
    env_id = register(Box(np.float32([0.0, -3.0]), np.float32([1.0, 0.1]), dtype=np.float32))
    received = step_with(env_id, torch.tensor([-1.5, 7.0]))
    assert received.dtype == np.float32
    assert received.tolist() == [0.0, np.float32(0.1)]


def test_without_rescaling_the_agent_acts_in_the_bounds_of_the_environment(
    register: Callable[..., str],
) -> None:
    env_id = register(Box(np.float32([0.0, -3.0]), np.float32([2.0, 0.1]), dtype=np.float32))
    env = make_env(env_id, rescale_actions=False)
    assert env.action_spec.space.low.tolist() == [0.0, -3.0]
    received = step_with(env_id, torch.tensor([1.25, -2.0]), rescale_actions=False)
    assert received.tolist() == [1.25, -2.0]


def test_a_scalar_box_is_one_dimension(register: Callable[..., str]) -> None:
    env_id = register(Box(0.0, 4.0, (), np.float32))
    assert make_env(env_id).action_spec.shape == (1,)
    received = step_with(env_id, torch.tensor([0.5]))
    assert received.shape == ()
    assert received == 3.0


def test_a_discrete_space_that_starts_elsewhere_receives_its_own_integers(
    register: Callable[..., str],
) -> None:
    env_id = register(Discrete(3, start=5))
    env = make_env(env_id)
    assert (env.action_spec.n, env.action_spec.shape, env.action_spec.dtype) == (
        3,
        torch.Size([]),
        torch.int64,
    )
    received = [step_with(env_id, torch.tensor(index)) for index in range(3)]
    assert received == [5, 6, 7]
    assert all(type(value) is int for value in received)


@given(
    bounds=arrays(np.float64, (7, 2), elements=st.floats(-1e6, 1e6), unique=True),
    actions=arrays(np.float32, 5, elements=st.floats(-2, 2, width=32)),
)
def test_the_rescaled_action_is_in_bounds_and_exact_at_the_ends(
    bounds: np.ndarray[Any, np.dtype[np.float64]],
    actions: np.ndarray[Any, np.dtype[np.float32]],
) -> None:
    env = gym.make("Pendulum-v1")
    space = Box(bounds.min(axis=1), bounds.max(axis=1), dtype=np.float64)
    env.unwrapped.action_space = space
    ends = np.array([-1.0, 1.0], np.float32)
    received = BoxActions(env, rescale=True).action(np.concatenate([ends, actions]))
    assert space.contains(received)
    assert received[0] == space.low[0]
    assert received[1] == space.high[1]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            Box(np.float32([-1, -np.inf]), np.float32([1, 1]), dtype=np.float32),
            ["lower bound", "dimension [1]", "-inf"],
        ),
        (
            Box(
                np.zeros((2, 2), np.float32),
                np.float32([[1, 1], [np.inf, 1]]),
                dtype=np.float32,
            ),
            ["upper bound", "dimension [1, 0]", "inf"],
        ),
        (
            Box(-np.finfo(np.float64).max, 1.0, (2,), np.float64),
            ["lower bound", "dimension [0]", "-1.79"],
        ),
        (
            Box(np.float32([0, 3]), np.float32([1, 3]), dtype=np.float32),
            ["3.0", "dimension [1]", "not below"],
        ),
        (Box(0, 5, (2,), np.int64), ["int64", "floating-point"]),
        (Box(0.0, 1.0, (0,), np.float32), ["no dimensions"]),
        (MultiDiscrete([2, 3]), ["MultiDiscrete([2 3])", "Box", "Discrete"]),
        (Tuple([Discrete(2), Box(0.0, 1.0)]), ["Tuple(Discrete(2)", "supported are"]),
        (Dict(a=Box(0.0, 1.0)), ["Dict('a'", "supported are"]),
    ],
)
def test_what_cannot_be_acted_in_is_refused_by_name(
    register: Callable[..., str], space: gym.Space[Any], words: list[str]
) -> None:
    env_id = register(space)
    with pytest.raises(ConfigError) as error:
        make_env(env_id)
    for word in [env_id, *words]:
        assert word in str(error.value)
