"""Updates of losses with a prior, through a recorded graph and without, with the same draws."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite
from torchrl.objectives import LossModule

from rlkit_sac.modules import (
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    categorical_actor,
    tanh_gaussian_actor,
)
from rlkit_sac.updates import compiled
from tests.updates.test_compiled import (
    BOX,
    CELLS,
    assert_same,
    batch_for,
    continuous,
    discrete,
    hybrid,
    pair,
)

LOW, HIGH = torch.tensor(BOX["action_low"]), torch.tensor(BOX["action_high"])
SPACE = Bounded(LOW, HIGH, (2,))
HYBRID = Composite(continuous=SPACE, discrete=Categorical(4))
SPECS = {continuous: SPACE, discrete: Categorical(4), hybrid: HYBRID}
POLICIES = {
    continuous: lambda: tanh_gaussian_actor(3, **BOX, **CELLS),
    discrete: lambda: categorical_actor(3, 4, **CELLS),
    hybrid: lambda: hybrid().policy(),
}
PRIORS = {
    "uniform": lambda make: UniformPrior(SPECS[make]),
    "same action": lambda make: SameActionPrior(SPECS[make]),
    "policy": lambda make: PolicyPrior(POLICIES[make]()),
}

# A hybrid policy has both factors.
EACH_LOSS = pytest.mark.parametrize(
    "make",
    [pytest.param(make, marks=[pytest.mark.slow] * (make is not hybrid)) for make in SPECS],
    ids=lambda make: make.__name__,
)


def with_before(loss: LossModule, size: int = 16) -> TensorDict:
    batch = batch_for(loss, size)
    batch["prev_action"] = batch["action"].flip(0)
    batch["is_init"] = torch.rand(size, 1) < 0.3
    return batch


@EACH_LOSS
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_updates_with_a_prior_are_the_same(make, prior, monkeypatch):
    monkeypatch.setattr(compiled, "compile_graph", lambda graph, inputs: graph)
    first, second = pair(lambda: make(prior_network=prior(make)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        batches = [with_before(first.loss_module) for _ in range(3)]
        assert_same(first, second, batches)


@pytest.mark.slow
@pytest.mark.parametrize("make", SPECS, ids=lambda make: make.__name__)
def test_compiled_updates_with_a_prior_are_the_same(make):
    first, second = pair(lambda: make(prior_network=SameActionPrior(SPECS[make])))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        batches = [with_before(first.loss_module) for _ in range(3)]
        assert_same(first, second, batches)
