"""What losses say of priors, targets and batches that cannot be."""

from __future__ import annotations

import pytest

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import UniformPrior
from tests.objectives.losses import own_loss
from tests.objectives.prior_references import BOX, INDEX

REFUSED = {
    "negative target": (
        lambda: own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=-1.0),
        "target_kld_discrete",
    ),
    "negative target per dimension": (
        lambda: own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=-1.0),
        "target_kld_per_dim",
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
