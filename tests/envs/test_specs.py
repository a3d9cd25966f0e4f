from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple

from rlkit_sac.envs import (
    continuous_action_bounds,
    discrete_action_count,
    has_discrete_actions,
    hybrid_action_bounds,
    make_env,
    observation_dim,
    parameter_mask,
)
from rlkit_sac.errors import ConfigError

Register = Callable[..., str]
BOX = Box(np.float32([-3.0, 0.125]), np.float32([0.5, 0.25]))
HYBRID = Tuple([Discrete(3), BOX])


@pytest.mark.parametrize("num_envs", [1, 3])
def test_bounds_are_in_the_units_of_the_action_entry(register: Register, num_envs: int) -> None:
    env_id = register(BOX)
    for rescale, wanted in ((True, ([-1, -1], [1, 1])), (False, ([-3.0, 0.125], [0.5, 0.25]))):
        env = make_env(env_id, num_envs=num_envs, rescale_actions=rescale)
        assert continuous_action_bounds(env) == wanted


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_observation_is_that_of_one_environment(register: Register, num_envs: int) -> None:
    env = make_env(register(BOX, Box(-1.0, 1.0, (7,))), num_envs=num_envs)
    assert observation_dim(env) == 7


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_discrete_actions_are_counted(register: Register, num_envs: int) -> None:
    assert discrete_action_count(make_env(register(Discrete(5, start=2)), num_envs=num_envs)) == 5


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_hybrid_space_has_a_count_and_bounds(register: Register, num_envs: int) -> None:
    env_id = register(Dict(mode=Discrete(4), left=BOX, right=BOX))
    env = make_env(env_id, num_envs=num_envs)
    assert hybrid_action_bounds(env) == (4, [-1.0] * 4, [1.0] * 4)
    env = make_env(env_id, num_envs=num_envs, rescale_actions=False)
    assert hybrid_action_bounds(env) == (4, [-3.0, 0.125] * 2, [0.5, 0.25] * 2)


@pytest.mark.parametrize(
    ("space", "reads"),
    [
        (BOX, continuous_action_bounds),
        (Discrete(3), discrete_action_count),
        (HYBRID, hybrid_action_bounds),
    ],
)
def test_other_actions_are_refused(
    register: Register, space: Space[Any], reads: Callable[[Any], Any]
) -> None:
    env = make_env(register(space))
    asks = {
        continuous_action_bounds: "acts in continuous spaces, but the actions are",
        discrete_action_count: "acts in discrete spaces, but the actions are",
        hybrid_action_bounds: "with a discrete and a continuous part, but the actions are",
    }
    reads(env)
    for ask, text in asks.items():
        if ask is not reads:
            with pytest.raises(ConfigError, match=text):
                ask(env)


def test_the_refusal_says_what_the_actions_are(register: Register) -> None:
    with pytest.raises(ConfigError) as refused:
        continuous_action_bounds(make_env(register(Discrete(3))))
    assert str(refused.value) == (
        "this algorithm acts in continuous spaces, but the actions are Discrete(3): the "
        "recipes discrete_sac and acer train this task"
    )
    with pytest.raises(ConfigError, match=r"are Discrete\(3\) and a Box of shape \(2,\) at once:"):
        discrete_action_count(make_env(register(HYBRID)))
    with pytest.raises(ConfigError, match=r"actions are a Box of shape \(2,\): the recipes sac, "):
        discrete_action_count(make_env(register(BOX), num_envs=2))


LINE, PLANE = Box(0.0, 1.0, (1,)), Box(0.0, 1.0, (2,))
NOTHING = Box(0.0, 1.0, (0,))


@pytest.mark.parametrize(
    ("space", "rows"),
    [
        (Tuple([Discrete(2), Tuple([LINE, PLANE])]), ["100", "011"]),
        (Tuple([Discrete(2), LINE, PLANE]), ["100", "011"]),
        (Tuple([Discrete(3), Tuple([PLANE, NOTHING, LINE])]), ["110", "000", "001"]),
        (Tuple([Discrete(2), PLANE]), None),
        (Tuple([Discrete(3), LINE, PLANE]), None),
        (Tuple([Discrete(1), Tuple([PLANE])]), None),
        (Tuple([PLANE, Discrete(2), LINE]), None),
        (Dict(choice=Discrete(2), left=LINE, right=LINE), None),
        (Tuple([Discrete(2), Dict(left=LINE, right=LINE)]), None),
        (PLANE, None),
        (Discrete(2), None),
    ],
)
def test_the_mask_tells_which_dimensions_a_choice_uses(
    register: Register, space: Space[Any], rows: list[str] | None
) -> None:
    env_id = register(space)
    for options in ({}, {"num_envs": 2}):
        mask = parameter_mask(make_env(env_id, **options))
        if rows is None:
            assert mask is None
        else:
            assert mask.dtype == torch.bool
            assert ["".join(str(int(used)) for used in row) for row in mask] == rows


def test_other_observations_are_refused(register: Register) -> None:
    env = make_env(register(BOX, Box(0, 255, (8, 8, 3), np.uint8)))
    with pytest.raises(ConfigError, match=r"read vectors, but .* shape \[8, 8, 3\]: flatten it"):
        observation_dim(env)


def test_plain_action_spaces_are_told_apart_and_others_refused(register: Register) -> None:
    for options in ({}, {"num_envs": 2}):
        assert has_discrete_actions(make_env(register(Discrete(3)), **options))
        assert not has_discrete_actions(make_env(register(BOX), **options))
    with pytest.raises(
        ConfigError, match=r"in discrete or in continuous .* at once: the recipe hybrid_sac"
    ):
        has_discrete_actions(make_env(register(HYBRID)))
