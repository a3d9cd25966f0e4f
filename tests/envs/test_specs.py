from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from rlkit_sac.envs import hybrid_action_bounds, make_env, parameter_mask

Register = Callable[..., str]
BOX = Box(np.float32([-3.0, 0.125]), np.float32([0.5, 0.25]))


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_hybrid_space_has_a_count_and_bounds(register: Register, num_envs: int) -> None:
    env_id = register(Dict(mode=Discrete(4), left=BOX, right=BOX))
    env = make_env(env_id, num_envs=num_envs)
    assert hybrid_action_bounds(env) == (4, [-1.0] * 4, [1.0] * 4)
    env = make_env(env_id, num_envs=num_envs, rescale_actions=False)
    assert hybrid_action_bounds(env) == (4, [-3.0, 0.125] * 2, [0.5, 0.25] * 2)


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
        (Dict(kind=Discrete(2), own=Tuple([LINE, PLANE])), ["100", "011"]),
        (Tuple([MultiDiscrete([2, 3]), Tuple([PLANE, LINE])]), ["110"] * 3 + ["001"] * 3),
        (Tuple([Tuple([LINE, LINE]), Discrete(3), Discrete(2)]), ["10", "01"] * 3),
        (Tuple([MultiBinary(2), LINE, LINE]), None),
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
