from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Sequence, Tuple, flatten
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from rlkit_sac.data import make_collector
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.seeding import episode_seed
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import tanh_gaussian_actor


@pytest.mark.parametrize(
    "space",
    [
        Dict(position=Box(-1.0, 1.0, (2, 3), np.float64), mode=Discrete(4)),
        Tuple([Box(0.0, 1.0, (9,), np.float32), Discrete(32)]),
        Tuple([Discrete(40), Discrete(11), Discrete(2)]),
        Dict(image=Box(0, 255, (2, 2), np.uint8), inner=Tuple([Discrete(3), MultiBinary(4)])),
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


class Counter(gym.Env[Any, Any]):
    """Counts its steps from 1, which is one too far for the last of them."""

    action_space = Discrete(2)

    def __init__(self, counts: Discrete[Any], box: Box, order: Iterable[int] = (0, 1)) -> None:
        self.observation_space = Tuple([(box, Dict(steps=counts))[i] for i in order])
        self.order = tuple(order)
        self.count = int(counts.start)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.observe(), 0.0, False, False, {}

    def observe(self) -> tuple[Any, ...]:
        parts = (np.array([0.25, 0.5]), {"steps": self.count})
        return tuple(parts[i] for i in self.order)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_counter_beside_a_box_becomes_one_number(
    register: Callable[..., str], start: int, order: tuple[int, int]
) -> None:
    kwargs = {
        "counts": Discrete(41, start=start),
        "box": Box(0.0, 1.0, (2,), np.float32),
        "order": order,
    }
    env = make_env(register(entry_point=Counter, kwargs=kwargs))
    check_env_specs(env)
    env = make_env(register(entry_point=Counter, kwargs=kwargs))
    observations = env.rollout(42)["observation"]
    assert observations.shape == (42, 3)
    where = 0 if order == (1, 0) else 2
    expected = [min(step / 40, 1.0) for step in range(42)]
    assert observations[:, where].tolist() == pytest.approx(expected)
    spec = env.observation_spec["observation"].space
    assert (spec.low.tolist(), spec.high.tolist()) == ([0, 0, 0], [1, 1, 1])


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


def test_an_environment_may_reuse_its_buffer(reused_buffer: str) -> None:
    rollout = make_env(reused_buffer).rollout(4)
    assert rollout["observation"].flatten().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert rollout["next", "observation"].flatten().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_observations_without_a_fixed_size_are_refused(register: Callable[..., str]) -> None:
    env_id = register(observation_space=Sequence(Discrete(3)))
    with pytest.raises(ConfigError, match=rf"{env_id}: the observation space Sequence.*fixed size"):
        make_env(env_id)


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


def test_both_collectors_give_the_chosen_entries() -> None:
    batches = []
    for kind in ("light", "torchrl"):
        torch.manual_seed(0)
        env = make_env("Pendulum-v1", seed=3, max_episode_steps=12, observation_indices=[1, 0])
        policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[8])
        collector = make_collector(env, policy, total_frames=30, frames_per_batch=30, kind=kind)
        batches += [batch.clone() for batch in collector]
        collector.shutdown()
    light, wanted = batches
    start = gym.make("Pendulum-v1").reset(seed=episode_seed(3, 0, 0))[0]
    assert np.array_equal(light["observation"][0], start[[1, 0]])
    for key in ("observation", ("next", "observation"), "action"):
        assert torch.equal(light[key], wanted[key])


@pytest.mark.parametrize(
    "indices",
    [[], [3], [-1], [0, 1, 0], [0, 10**30], [0.0], [True, False, False], ["0"], range(4), 5, "01"],
    ids=str,
)
def test_other_entries_than_those_of_the_vector_are_refused(indices: Any) -> None:
    with pytest.raises(ConfigError) as error:
        make_env("Pendulum-v1", observation_indices=indices)
    found = np.ravel(indices).tolist()
    assert str(error.value) == (
        f"Pendulum-v1: observation_indices is {found}, but the observation has 3 entries: list at "
        "least one of 0 to 2, each once"
    )


@pytest.mark.parametrize("space", [Box(0, 255, (4, 4, 3), np.uint8), Box(-1.0, 1.0, (4, 3))])
def test_entries_of_an_array_of_more_dimensions_are_refused(space: Box) -> None:
    shape = re.escape(str(list(space.shape)))
    with pytest.raises(ConfigError, match=rf"is \[0\], but the observation has the shape {shape}"):
        ObservationConversion(space, indices=[0])
