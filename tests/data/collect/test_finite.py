from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.data import Categorical
from torchrl.envs import (
    CatTensors,
    RenameTransform,
    Transform,
)
from torchrl.modules import Actor, ProbabilisticActor

from rlkit_sac.data import check_finite, make_collector
from rlkit_sac.data.collect.collector import CollectorKind
from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import BehaviorPolicy, categorical_actor, tanh_gaussian_actor


@pytest.mark.parametrize("key", ["observation", ("next", "reward")])
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_the_first_bad_frame_of_a_batch_of_environments_is_named(key, number):
    frames = TensorDict(
        {
            "observation": torch.zeros(3, 5, 2),
            "next": {"reward": torch.zeros(3, 5, 1), "done": torch.ones(3, 5, 1, dtype=torch.bool)},
        },
        batch_size=[3, 5],
    )
    check_finite(frames)
    frames[key][1, 4, -1] = number
    frames[key][2, 3, -1] = number
    with pytest.raises(RunError) as error:
        check_finite(frames)
    assert str(error.value).startswith(
        f"{key!r} is {number} at frame 4 of the batch in environment 2."
    )


def test_finite_numbers_may_be_large():
    frames = TensorDict(observation=torch.full((4, 2), 3e38), batch_size=[4])
    frames["observation"][0] *= -1
    check_finite(frames)


def test_infinities_of_both_signs_are_seen():
    frames = TensorDict(reward=torch.tensor([[torch.inf], [-torch.inf]]), batch_size=[2])
    with pytest.raises(RunError, match="'reward' is inf at frame 1"):
        check_finite(frames)


def test_the_earliest_frame_is_named_whatever_the_order_of_the_entries():
    reward = torch.tensor([[0.0], [torch.inf], [0.0]])
    frames = TensorDict(
        {"episode_reward": torch.tensor([[0.0], [0.0], [torch.inf]]), "next": {"reward": reward}},
        batch_size=[3],
    )
    with pytest.raises(RunError, match=r"\('next', 'reward'\) is inf at frame 2"):
        check_finite(frames)


# ------------------------------------------------------------------ by a collector alone


class Spoiled(gym.Env):
    """Returns NaN or infinity in its eighth step."""

    observation_space = Box(-1, 1, (2,))

    def __init__(self, spoil: str = "", discrete: bool = False) -> None:
        self.action_space = Discrete(2) if discrete else Box(-1, 1, (1,))
        self.spoil, self.steps = spoil, 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        bad = self.spoil if self.steps == 8 else ""
        observation = np.full(2, np.inf if bad == "observation" else 0.5, np.float32)
        return observation, np.nan if bad == "reward" else 1.0, False, False, {}


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    gym.register("Spoiled-v0", entry_point=Spoiled, max_episode_steps=5)
    yield
    del gym.registry["Spoiled-v0"]


BOTH = pytest.mark.parametrize("kind", ["light", "torchrl"])


@BOTH
@pytest.mark.parametrize(("num_envs", "frames"), [(1, "5 to 8"), (3, "13 to 24")])
@pytest.mark.parametrize(("spoil", "number"), [("reward", "nan"), ("observation", "inf")])
def test_a_collector_stops_before_a_spoiled_batch(
    kind: CollectorKind, num_envs: int, frames: str, spoil: str, number: str
) -> None:
    env = make_env("Spoiled-v0", num_envs=num_envs, kwargs={"spoil": spoil})
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    size = 4 * num_envs
    collector = make_collector(
        env, policy, total_frames=10 * size, frames_per_batch=size, kind=kind
    )
    batches = iter(collector)
    assert bool(next(batches)["next", "reward"].isfinite().all())
    with pytest.raises(RunError) as error:
        next(batches)
    start = f"at the frames {frames} of the run: ('next', {spoil!r}) is {number} at frame 3 of its "
    assert str(error.value).startswith(start)


@BOTH
def test_a_collector_stops_where_the_policy_is_no_longer_finite(kind: CollectorKind) -> None:
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    collector = make_collector(
        make_env("Spoiled-v0"), policy, total_frames=9, frames_per_batch=3, kind=kind
    )
    batches = iter(collector)
    next(batches)
    with torch.no_grad():
        next(policy.parameters()).fill_(torch.nan)
    with pytest.raises(
        RunError, match=r"the frames 4 to 6 of .* 'action' is nan at frame 4 of its"
    ):
        next(batches)


@BOTH
def test_so_it_does_where_only_the_stored_distribution_tells(kind: CollectorKind) -> None:
    policy = BehaviorPolicy(categorical_actor(2, 2, num_cells=[4]))
    env = make_env("Spoiled-v0", kwargs={"discrete": True})
    collector = make_collector(env, policy, total_frames=9, frames_per_batch=3, kind=kind)
    with torch.no_grad():
        next(policy.parameters()).fill_(torch.nan)
    with pytest.raises(RunError, match=r"\('behavior', 'logits'\) is nan at frame 1 of"):
        next(iter(collector))


@pytest.mark.parametrize(
    ("transform", "key", "spoil", "number"),
    [
        (RenameTransform(["observation"], ["obs"], create_copy=False), "obs", "observation", "inf"),
        (CatTensors(["observation"], "vector", del_keys=True), "vector", "observation", "inf"),
        (RenameTransform(["observation"], ["obs"], create_copy=False), "obs", "reward", "nan"),
    ],
)
def test_entries_that_transforms_make_are_checked(
    transform: Transform, key: str, spoil: str, number: str
) -> None:
    env = make_env("Spoiled-v0", kwargs={"spoil": spoil}).append_transform(transform)
    policy = Actor(torch.nn.Linear(2, 1), in_keys=[key])
    batches = iter(make_collector(env, policy, total_frames=40, frames_per_batch=6))
    assert key in next(batches)
    named = re.escape(str(("next", spoil if spoil == "reward" else key)))
    with pytest.raises(RunError, match=f" {named} is {number} at frame 3 of its episode"):
        next(batches)


class Goal(Transform):
    """Sets a goal at each reset, in an entry that no spec has."""

    value = 0.0

    def _reset(self, tensordict: TensorDictBase, reset: TensorDictBase) -> TensorDictBase:
        return reset.set("goal", torch.full((2,), self.value))


def test_all_that_the_policy_reads_is_checked() -> None:
    env = make_env("Spoiled-v0").append_transform(goal := Goal())
    assert "goal" not in env.observation_keys
    policy = Actor(torch.nn.Linear(2, 1), in_keys=["goal"])
    batches = iter(make_collector(env, policy, total_frames=40, frames_per_batch=4))
    next(batches)
    goal.value = torch.inf
    with pytest.raises(RunError, match=r" 'goal' is inf at frame 1 of its episode"):
        next(batches)


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("logits", torch.tensor([0.0, -torch.inf]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(*observation.shape[:-1], 2)


@BOTH
def test_other_entries_of_a_policy_may_be_infinite(kind: CollectorKind) -> None:
    policy = ProbabilisticActor(
        TensorDictModule(Masked(), ["observation"], ["logits"]),
        in_keys=["logits"],
        out_keys=["action"],
        spec=Categorical(2),
        distribution_class=torch.distributions.Categorical,
    )
    env = make_env("Spoiled-v0", kwargs={"discrete": True})
    collector = make_collector(env, policy, total_frames=9, frames_per_batch=3, kind=kind)
    assert [bool(batch["logits"].isinf().any()) for batch in collector] == [True] * 3
