"""Updates of networks with encoders, through a recorded graph and without, with the same draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import observation_encoder, state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from tests.modules.test_encoders import MIXED, states
from tests.updates.test_compiled import assert_same, pair


def make(kind: str, *, shared: bool = False) -> ContinuousSACLoss:
    inputs: Any = {"layout": MIXED, "kind": kind, "features": 6}
    encoder = observation_encoder(**inputs) if shared else None
    if shared:
        inputs = {"layout": [{"key": "features", "shape": [6 + 6 + 5]}]}
    actor = tanh_gaussian_actor(inputs, [-1.0] * 2, [1.0] * 2, num_cells=[8])
    critic = state_action_critic(inputs, 2, num_cells=[8])
    return ContinuousSACLoss(actor, critic, encoder_network=encoder)


def batch(size: int = 8) -> TensorDict:
    data, after = states(size), states(size)
    done = torch.rand(size, 1) < 0.3
    after.update({"reward": torch.randn(size, 1), "done": done, "terminated": done})
    return data.update({"action": torch.rand(size, 2) * 2 - 1, "next": after})


pytestmark = pytest.mark.filterwarnings("error:.*run uncompiled")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("kind", ["small", pytest.param("impala", marks=pytest.mark.slow)])
def test_updates_are_the_same(kind: str, *, shared: bool) -> None:
    first, second = pair(lambda: make(kind, shared=shared))
    assert_same(first, second, [batch() for _ in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_compiled_updates_are_the_same(*, shared: bool) -> None:
    first, second = pair(lambda: make("small", shared=shared))
    assert_same(first, second, [batch() for _ in range(3)])
