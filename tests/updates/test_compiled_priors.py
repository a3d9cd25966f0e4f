"""Updates of losses with a prior, through a recorded graph and without, with the same draws."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite
from torchrl.objectives import LossModule

from rlkit_sac.modules import PolicyPrior, SameActionPrior, UniformPrior, categorical_actor
from rlkit_sac.updates import compiled
from tests.objectives.losses import box_actor, own_loss
from tests.updates.test_compiled import assert_same, batch_for, pair

SPACE, INDEX = Bounded(-1.0, 1.0, (2,)), Categorical(3)
SPECS = {
    "continuous": SPACE,
    "boltzmann": INDEX,
    "hybrid": Composite(continuous=SPACE, discrete=INDEX),
}
POLICIES = {
    "continuous": box_actor,
    "boltzmann": lambda: categorical_actor(4, 3, num_cells=[8]),
    "hybrid": lambda: own_loss("hybrid").policy(),
}
PRIORS = {
    "uniform": lambda kind: UniformPrior(SPECS[kind]),
    "same action": lambda kind: SameActionPrior(SPECS[kind]),
    "policy": lambda kind: PolicyPrior(POLICIES[kind]()),
}

# A hybrid policy has both factors.
EACH_LOSS = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "hybrid")) for kind in SPECS]
)


def with_before(loss: LossModule, size: int = 16) -> TensorDict:
    batch = batch_for(loss, size)
    batch["prev_action"] = batch["action"].flip(0)
    batch["is_init"] = torch.rand(size, 1) < 0.3
    return batch


@EACH_LOSS
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_updates_with_a_prior_are_the_same(kind, prior, monkeypatch):
    monkeypatch.setattr(compiled, "compile_graph", lambda graph, inputs: graph)
    first, second = pair(lambda: own_loss(kind, prior_network=prior(kind)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        batches = [with_before(first.loss_module) for _ in range(3)]
        assert_same(first, second, batches)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
def test_compiled_updates_with_a_prior_are_the_same(kind):
    first, second = pair(lambda: own_loss(kind, prior_network=SameActionPrior(SPECS[kind])))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        batches = [with_before(first.loss_module) for _ in range(3)]
        assert_same(first, second, batches)
