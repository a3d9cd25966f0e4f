"""Critics with a mask: K passes, each of which reads the parameters of its own action alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite
from torchrl.objectives import ValueEstimators

from rlkit_sac.modules import MaskedCritic, SameActionPrior
from tests.objectives.comparison import assert_same, check, results
from tests.objectives.losses import make_batch, own_loss
from tests.objectives.masked_networks import CONTINUOUS, DISCRETE, MASK, NETWORKS, masked_values
from tests.objectives.networks import (
    ACTION_DIM,
    OBSERVATION_DIM,
    NoisyTanhGaussian,
    make_data,
    make_loss,
)

MASKED = {"parameter_mask": MASK, "mask_critics": True, "alpha_init": 0.3}

EACH_NETWORK = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def exact(**options) -> None:
    check("hybrid", tolerance=1e-12, **MASKED | options)


# ------------------------------------------------------------------ K separate passes


@EACH_NETWORK
def test_masked_critics_are_one_pass_for_each_action(network):
    exact(network=network, critics=1)
    exact(network=network, critics=2, rewards=3, reward_weights=[0.5, -2.0, 0.3])
    exact(network=network, critics=5, batch=(2, 3))


@EACH_NETWORK
def test_the_module_writes_separate_passes_too(network):
    torch.manual_seed(0)
    for batch, rewards in (((), 2), ((5,), 1), ((2, 3), 2)):
        critic = network[0](3, rewards).double()
        masked, data = MaskedCritic(critic, MASK), states(*batch)
        found, wanted = masked(data.clone()), masked_values(critic, data, MASK)
        torch.testing.assert_close(found["action_value"], wanted, rtol=1e-12, atol=1e-12)
        assert found.batch_size == batch
        assert torch.equal(found[CONTINUOUS], data[CONTINUOUS])
        assert masked.in_keys == critic.in_keys
        assert set(masked.out_keys) == set(found.keys()) - {"observation", "action"}


def states(*batch: int) -> TensorDict:
    action = TensorDict(continuous=torch.rand(*batch, ACTION_DIM).double() - 0.5, batch_size=batch)
    observation = torch.randn(*batch, OBSERVATION_DIM).double()
    return TensorDict(observation=observation, action=action, batch_size=batch)


# ------------------------------------------------------------------ derivatives


@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    unused=arrays(np.float64, (3, 4, ACTION_DIM), elements=st.floats()),
    mask_entropy=st.booleans(),
    lmbda=st.sampled_from([0.0, 0.8]),
)
def test_nothing_depends_on_unused_parameters_of_stored_actions(name, unused, mask_entropy, lmbda):
    torch.manual_seed(0)
    critic = NETWORKS[name][0](3, 1).double()
    loss = make_loss("hybrid", critic=critic, **MASKED, mask_entropy=mask_entropy)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    data = make_data("hybrid", 3, 4)
    other = data.clone()
    used = torch.tensor(MASK).bool()[data[DISCRETE]]
    other[CONTINUOUS] = torch.where(used, data[CONTINUOUS], torch.from_numpy(unused))
    noise, outs = torch.randn(2, 3, 4, ACTION_DIM).double(), []
    for batch in (data, other):
        NoisyTanhGaussian.queue = list(noise)
        outs.append(results(loss, batch))
    assert_same(*outs, rtol=0, atol=0)


# ------------------------------------------------------------------ a parameter that no action uses


def test_nan_in_unused_parameters_does_not_reach_what_reads_the_previous_action():
    torch.manual_seed(0)
    spec = Composite(continuous=Bounded(-1.0, 1.0, (2,)), discrete=Categorical(3))
    loss = own_loss("hybrid", **MASKED, prior_network=SameActionPrior(spec))
    data = make_batch("hybrid", 16)
    data["is_init"] = torch.zeros(16, 1, dtype=torch.bool)
    data["prev_action"] = data["action"].flip(0)
    changed = data.clone()
    for batch, filling in ((data, 0.0), (changed, torch.nan)):
        for key in ("action", "prev_action"):
            unused = ~torch.tensor(MASK).bool()[batch[key, "discrete"]]
            batch[key, "continuous"][unused] = filling
    assert changed["action", "continuous"].isnan().any()
    found = []
    for batch in (data, changed):
        torch.manual_seed(1)
        found.append(loss(batch))
    for key, value in found[0].items():
        assert value.isfinite().all()
        assert torch.equal(found[1][key], value), key
