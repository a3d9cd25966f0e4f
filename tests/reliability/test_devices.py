"""Nothing computes with tensors that were left on the CPU while the others are on a device."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch.optim import Adam
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.data import (
    PrioritizedSampler,
    SliceSampler,
    StepSampler,
    TrajectorySampler,
    make_replay_buffer,
    random_shift,
)
from rlkit_sac.modules import (
    ObservationNormalizer,
    RewardNormalizer,
    SameActionPrior,
    UniformPrior,
    categorical_actor,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.updates import LossStep, TargetStep, Update
from tests.objectives.losses import KINDS, make_batch, own_loss
from tests.reliability.device_tensors import DEVICE, Device

BLOCKS = {"capacity": 64, "num_envs": 2, "frames_per_batch": 8}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Autocasting does not know the device.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    # It would make a tensor of the device without asking the mode.
    monkeypatch.setattr(torch, "tensor", partial(_tensor, torch.tensor))
    with Device():
        yield


def _tensor(make, data, *, device=None, **options) -> torch.Tensor:
    return make(data, device="cpu", **options).to(device or torch.get_default_device())


def batch_of(kind: str, **more: torch.Tensor) -> TensorDict:
    return make_batch(kind, 8).update(more).to(DEVICE)


def act(policy, states: TensorDict) -> None:
    for mode in (ExplorationType.RANDOM, ExplorationType.DETERMINISTIC):
        with set_exploration_type(mode), torch.no_grad():
            acted = policy(states.select(*policy.in_keys))
        assert {value.device for value in acted.values(True, True)} == {DEVICE}


def learn_and_act(loss: LossModule, batch: TensorDict) -> None:
    names = tuple(key for key in loss.out_keys if key.startswith("loss_"))
    update = Update(
        loss,
        {"all": Adam(loss.parameters(), foreach=False)},
        [LossStep(names, ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss, tau=0.1),
        max_grad_norm=1.0,
    )
    assert {value.device for value in update(batch).values()} == {DEVICE}
    act(loss.policy(), batch)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_and_policies(kind: str) -> None:
    with DEVICE:
        loss = own_loss(kind, diagnostics=True)
    learn_and_act(loss, batch_of(kind))


@pytest.mark.parametrize(
    "options",
    [
        {"critic": {"atoms": 11}},
        {"num_qvalue_nets": 3, "target_subset": 2},
        {
            "observation_normalizer": ObservationNormalizer(4),
            "reward_normalizer": RewardNormalizer(0.9),
        },
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_the_loss(options: dict) -> None:
    with DEVICE:
        loss = own_loss("continuous", **options)
    learn_and_act(loss.to(DEVICE), batch_of("continuous"))


def test_weights_that_are_assigned() -> None:
    with DEVICE:
        loss = own_loss("continuous", reward_dim=2)
    loss.reward_weights = [1.0, 0.5]
    batch = batch_of("continuous")
    batch["next", "reward"] = batch["next", "reward"].expand(8, 2)
    learn_and_act(loss, batch)


def test_bounds_of_the_cpu() -> None:
    actor = tanh_gaussian_actor(4, [-2.0, -1.0], [1.0, 3.0], num_cells=[8])
    with DEVICE:
        critic = state_action_critic(4, 2, num_cells=[8])
        actor = actor.to(DEVICE)
    learn_and_act(ContinuousSACLoss(actor, critic), batch_of("continuous"))


def test_a_memory_of_discrete_actions() -> None:
    with DEVICE:
        actor = categorical_actor(4, 3, num_cells=[8], memory={"kind": "gru", "num_actions": 3})
    before = {"prev_action": torch.zeros(8).long(), "is_init": torch.zeros(8, 1).bool()}
    state = torch.zeros(8, 1, 64)
    act(actor, batch_of("categorical", **before, actor_state=state))


@pytest.mark.parametrize("prior", [UniformPrior, SameActionPrior])
def test_priors_of_a_spec_on_the_device(prior) -> None:
    box = Bounded(-torch.ones(2), torch.ones(2), (2,))
    spec = Composite(continuous=box.to(DEVICE), discrete=Categorical(3, device=DEVICE))
    batch = batch_of("hybrid", is_init=torch.zeros(8, 1).bool())
    batch["prev_action"] = batch["action"]
    assert prior(spec).get_dist(batch).log_prob(batch["action"]).device == DEVICE


@pytest.mark.parametrize(
    "make_sampler",
    [
        lambda: None,
        lambda: PrioritizedSampler(64, device=DEVICE),
        lambda: SliceSampler(3, **BLOCKS),
        lambda: StepSampler(frame_stack=3, **BLOCKS),
        lambda: TrajectorySampler(3, **BLOCKS),
    ],
    ids=["uniform", "priorities", "slices", "stacks", "segments"],
)
def test_replay(make_sampler: Callable[[], Any]) -> None:
    sampler = make_sampler()
    images = torch.zeros(8, 3, 4, 4, dtype=torch.uint8)
    batch = batch_of("continuous", is_init=torch.zeros(8, 1).bool())
    if isinstance(sampler, StepSampler):
        batch["pixels"] = batch["next", "pixels"] = images.to(DEVICE)
    replay = make_replay_buffer(batch[0], capacity=64, batch_size=4, device=DEVICE, sampler=sampler)
    for _ in range(3):
        replay.extend(batch)
    sample = replay.sample()
    assert {value.device for value in sample.values(True, True)} == {DEVICE}
    replay.update_tensordict_priority(sample.set("td_error", sample["next", "reward"].abs() + 1))


def test_shifts() -> None:
    images = torch.zeros(4, 2, 12, 12, dtype=torch.uint8).to(DEVICE)
    batch = TensorDict(pixels=images, next=TensorDict(pixels=images))
    layout = [{"key": "pixels", "shape": [2, 12, 12], "scale": 255, "channels": "first"}]
    assert random_shift(batch, layout, 2)["next", "pixels"].device == DEVICE
