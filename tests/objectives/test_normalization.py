"""A loss that normalizes a raw batch against one without, on a batch normalized by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives import LossModule

from rlkit_sac.modules import (
    ObservationNormalizer,
    RewardNormalizer,
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    state_action_critic,
    state_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.comparison import assert_same, results

CELLS = {"num_cells": [8, 8]}
BOX = {"action_low": [-1.0, -2.0], "action_high": [1.0, 2.0]}


def continuous(**options) -> ContinuousSACLoss:
    return ContinuousSACLoss(
        tanh_gaussian_actor(3, **BOX, **CELLS), state_action_critic(3, 2, **CELLS), **options
    )


def hybrid(**options) -> HybridSACLoss:
    actor = tanh_gaussian_actor(3, **BOX, **CELLS, action_key=("action", "continuous"))
    return HybridSACLoss(actor, hybrid_critic(3, 2, 4, **CELLS), **options)


def valued(**options) -> ContinuousSACLoss:
    actor, critic = tanh_gaussian_actor(3, **BOX, **CELLS), state_action_critic(3, 2, **CELLS)
    return ContinuousSACLoss(actor, critic, state_critic(3, **CELLS), **options)


LOSSES: dict[str, Callable[..., LossModule]] = {
    "continuous": continuous,
    "through vmap": lambda **options: continuous(deactivate_vmap=True, **options),
    "discrete": lambda **options: DiscreteSACLoss(action_value_critic(3, 4, **CELLS), **options),
    "with an actor": lambda **options: DiscreteSACLoss(
        action_value_critic(3, 4, **CELLS), categorical_actor(3, 4, **CELLS), **options
    ),
    "hybrid": hybrid,
    "value network": valued,
}


def frames(loss: LossModule, number: int) -> TensorDict:
    vector, index = torch.rand(number, 2).double(), torch.randint(4, (number,))
    action = {HybridSACLoss: None, DiscreteSACLoss: index}.get(type(loss), vector)
    if action is None:
        action = TensorDict(continuous=vector, discrete=index, batch_size=[number])
    return TensorDict(
        observation=5 * torch.randn(number, 3).double() + 2,
        action=action,
        next=TensorDict(
            observation=5 * torch.randn(number, 3).double() + 2,
            reward=7 * torch.randn(number, 1).double(),
            done=(done := torch.rand(number, 1) < 0.2),
            terminated=done,
            batch_size=[number],
        ),
        batch_size=[number],
    )


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)
def test_losses_are_those_of_a_batch_normalized_by_hand(make) -> None:
    torch.manual_seed(0)
    own = make(
        observation_normalizer=ObservationNormalizer(3, clip=1.0),
        reward_normalizer=RewardNormalizer(0.9, clip=1.5),
        reward_scale=2.0,
    ).double()
    torch.manual_seed(0)
    plain = make(reward_scale=2.0).double()
    missing, extra = plain.load_state_dict(own.state_dict(), strict=False)
    assert not missing
    assert all("normalizer" in name for name in extra)
    seen = frames(own, 60)
    own.observe(seen)
    mean, variance = seen["observation"].mean(0), seen["observation"].var(0, correction=0)
    total, returns = 0.0, []
    for reward, done in zip(seen["next", "reward"], seen["next", "done"], strict=True):
        total = 0.9 * total + reward.item()
        returns.append(total)
        total = 0.0 if done else total
    deviation = (torch.tensor(returns, dtype=torch.float64).var(correction=0) + 1e-8).sqrt()

    batch = frames(own, 12)
    by_hand = batch.clone()
    for key in ("observation", ("next", "observation")):
        by_hand[key] = ((batch[key] - mean) / (variance + 1e-8).sqrt()).clamp(-1, 1)
    by_hand["next", "reward"] = (batch["next", "reward"] / deviation).clamp(-1.5, 1.5)
    before = batch.clone()
    outs = []
    for loss, data in ((own, batch), (plain, by_hand)):
        torch.manual_seed(1)
        loss(data)
        torch.manual_seed(1)
        outs.append(results(loss, data))
    assert_same(outs[0], outs[1], rtol=1e-9, atol=1e-11)
    assert torch.equal(batch["observation"], before["observation"])
    assert torch.equal(batch["next", "reward"], before["next", "reward"])
    count = own.observation_normalizer.statistics.count
    assert count == 60  # the loss itself moves nothing

    actions = []
    for policy, data in ((own.policy(), batch), (plain.policy(), by_hand)):
        actions.append(policy(data.select("observation")).select("action", "loc", strict=False))
    for key, value in actions[0].items(True, True):
        torch.testing.assert_close(value, actions[1][key])
