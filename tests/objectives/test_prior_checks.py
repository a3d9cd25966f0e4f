"""What losses say of priors, targets and batches that cannot be."""

from __future__ import annotations

import math

import pytest
from torchrl.data import Composite

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import SameActionPrior, UniformPrior
from tests.objectives.discrete_networks import make_discrete_data
from tests.objectives.losses import make_batch, own_loss, single
from tests.objectives.networks import make_data
from tests.objectives.prior_references import BOX, HYBRID, INDEX, Probabilities, add_before

REFUSED = {
    "target above the maximum": (
        lambda: own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=1.2),
        "no policy over 3 actions is further than 1.09861 nats from this UniformPrior",
    ),
    "target above that of repeated actions": (
        lambda: own_loss("hybrid", prior_network=SameActionPrior(HYBRID), target_kld_discrete=3.2),
        "further than 2.99573 nats",
    ),
    "negative target": (
        lambda: own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=-1.0),
        "target_kld_discrete must be a finite number >= 0",
    ),
    "negative target per dimension": (
        lambda: own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=-1.0),
        "target_kld_per_dim must be a finite number >= 0",
    ),
    "target entropy": (
        lambda: own_loss("continuous", prior_network=UniformPrior(BOX), target_entropy=-2.0),
        "target_entropy is -2.0, but with a prior",
    ),
    "pair": (
        lambda: own_loss("continuous", prior_network=(UniformPrior(BOX), None)),
        "prior_network takes one value here",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_impossible_options_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_target_out_of_reach_is_refused_once_the_critics_tell_the_actions():
    prior = Probabilities([0.2, 0.4, 0.4])
    prior.largest_kld = lambda num_actions: -math.log(0.2)
    loss = own_loss("boltzmann", prior_network=prior, target_kld_discrete=2.0)
    with pytest.raises(ConfigError, match=r"no policy over 3 actions is further than 1\.60944"):
        loss(make_batch("boltzmann", 6))


def test_a_batch_without_the_previous_action_is_refused_by_name():
    with pytest.raises(BatchError, match="no entry 'prev_action', 'is_init'"):
        own_loss("continuous", prior_network=SameActionPrior(BOX))(make_batch("continuous", 6))


def test_misshapen_entries_of_the_step_before_are_refused():
    data = single(add_before(make_data(6)))
    data["is_init"] = data["is_init"].squeeze(-1)
    with pytest.raises(BatchError, match=r"'is_init' has the shape \[6\], wanted \[6, 1\]"):
        own_loss("continuous", prior_network=SameActionPrior(BOX))(data)


def test_a_discrete_prior_of_a_continuous_action_is_refused():
    with pytest.raises(BatchError, match="is over discrete actions, but 'action' is continuous"):
        own_loss("continuous", prior_network=Probabilities([0.5, 0.5]))(make_batch("continuous", 6))


def test_parts_are_found_by_their_names():
    data = single(add_before(make_discrete_data("hybrid", 6)))
    loss = own_loss("hybrid", prior_network=SameActionPrior(Composite(gear=INDEX, continuous=BOX)))
    data["prev_action", "gear"] = data["prev_action", "discrete"]
    with pytest.raises(BatchError, match=r"'gear'\), but the parts of the action are"):
        loss(data)
