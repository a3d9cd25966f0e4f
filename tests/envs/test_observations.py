from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple, flatten
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.seeding import episode_seed


@pytest.mark.parametrize(
    "space",
    [
        Dict(position=Box(-1.0, 1.0, (2, 3), np.float64), mode=Discrete(4)),
        Tuple([Box(0.0, 1.0, (9,), np.float32), Discrete(32)]),
        Tuple([Discrete(40), Discrete(11), Discrete(2)]),
        Dict(numbers=Box(0, 255, (4,), np.uint8), inner=Tuple([Discrete(3), MultiBinary(4)])),
        Discrete(7, start=-3),
        Discrete(200),
    ],
)
def test_structured_observations_are_flattened_by_the_rule_of_gymnasium(
    register: Callable[..., str], space: gym.Space[Any]
) -> None:
    observation = make_env(register(observation_space=space)).reset()["observation"]
    # The environment samples a copy of `space`: seeded alike, this one draws the same.
    space.seed(episode_seed(0, 0, 0))
    expected = flatten(space, space.sample())
    assert observation.dtype == torch.float32
    assert np.array_equal(observation, np.float32(expected))


@pytest.mark.parametrize(
    ("space", "dtype", "shape"),
    [
        (Box(-1.0, 1.0, (3,), np.float64), torch.float32, (3,)),
        (Box(-1.0, 1.0, (), np.float64), torch.float32, (1,)),
        (Box(-np.inf, np.inf, (2,), np.float16), torch.float32, (2,)),
        (Box(-np.finfo(np.float64).max, np.inf, (2,), np.float64), torch.float32, (2,)),
        (Box(0, 9, (2,), np.int64), torch.float32, (2,)),
        (Box(0, 255, (128,), np.uint8), torch.float32, (128,)),
        (Box(0, 255, (12, 12, 3), np.uint8), torch.uint8, (12, 12, 3)),
        (Box(0, 255, (4, 12, 12), np.uint8), torch.uint8, (4, 12, 12)),
        (Box(0, 1, (12, 12, 4), np.bool_), torch.bool, (12, 12, 4)),
    ],
)
def test_boxes_become_float32_and_images_stay_as_they_are(
    register: Callable[..., str],
    space: Box,
    dtype: torch.dtype,
    shape: tuple[int, ...],
) -> None:
    env = make_env(register(observation_space=space))
    with np.errstate(over="ignore"):  # samples of an unbounded float64 space
        check_env_specs(env)
        observation = env.rollout(2)["next", "observation"]
    assert observation.dtype == dtype
    assert observation.shape == (2, *shape)


@pytest.mark.parametrize("value", [4, 207, 5.5, np.nan])
def test_a_counter_is_a_number_of_its_space_or_one_more(value: float) -> None:
    observe = ObservationConversion(Dict(left=Discrete(200, start=5), at=Box(0.0, 1.0, ())))
    assert observe({"left": 205, "at": 0.0})["observation"].max() == 1
    with pytest.raises(ValueError, match="wanted one of Discrete"):
        observe({"left": value, "at": 0.0})


# ------------------------------------------------------------------ chosen entries

NESTED = Dict(speed=Box(-1.0, 1.0, (2, 2)), at=Box(0.0, 5.0, ()), mode=Discrete(3))


def rollout(env_id: str, **options: Any) -> TensorDict:
    """Thirty frames with the same actions for any observations."""
    with closing_env(make_env(env_id, seed=3, max_episode_steps=12, **options)) as env:
        torch.manual_seed(0)
        return env.rollout(30, break_when_any_done=False)


@pytest.mark.parametrize(
    ("env_id", "indices"),
    [
        ("Pendulum-v1", [0, 1]),
        ("CartPole-v1", [2, 0]),
        ("Platform-v0", [8, 0, 2]),
        (NESTED, np.array([7, 0, 4])),
    ],
    ids=str,
)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_chosen_entries_are_those_of_the_whole_vector_in_their_order(
    register: Callable[..., str], env_id: Any, indices: Any, num_envs: int
) -> None:
    env_id = env_id if isinstance(env_id, str) else register(observation_space=env_id)
    options = {"num_envs": num_envs}
    whole, chosen = (
        rollout(env_id, **options),
        rollout(env_id, **options, observation_indices=indices),
    )
    for key in ("observation", ("next", "observation")):
        assert torch.equal(chosen.pop(key), whole.pop(key)[..., list(indices)])
    assert (chosen == whole).all()
    env = make_env(env_id, **options, observation_indices=indices)
    check_env_specs(env)
    spec, full = env.observation_spec["observation"], make_env(env_id).observation_spec
    for name in ("low", "high"):
        found, bounds = getattr(spec.space, name), getattr(full["observation"].space, name)
        assert torch.equal(found, bounds[list(indices)].expand(found.shape))
