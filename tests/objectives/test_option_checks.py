"""Options that cannot be, the action spec, and target entropies that come from it."""

import math

import pytest
import torch
from torchrl.data import Bounded, Categorical, OneHot

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import UniformPrior, action_value_critic, categorical_actor, hybrid_critic
from rlkit_sac.objectives import DiscreteSACLoss, HybridSACLoss
from tests.objectives.losses import CONTINUOUS, box_actor, foreign_actor, make_batch, own_loss
from tests.objectives.prior_references import BOX, HYBRID, INDEX

CONTINUOUS_REFUSED = {
    "reward weights of a scalar": ({"reward_weights": [1.0]}, "the reward is a scalar"),
    "loss function": ({"loss_function": "huber"}, "loss_function: must be 'l1'"),
    "reduction": ({"reduction": "avg"}, "reduction: must be 'mean'"),
    "policy loss steps": ({"policy_loss_steps": "last"}, "policy_loss_steps: must be 'first'"),
    "parametrization": ({"alpha_parametrization": "linear"}, "alpha_parametrization"),
    "target entropy": (
        {"target_entropy": "automatic"},
        "target_entropy: must be a valid number or 'auto', 'neg_dim' or 'half_neg_dim', got "
        "'automatic'",
    ),
    "clipping": ({"dqda_clipping": -1.0}, "dqda_clipping"),
    "pair": ({"alpha_init": (1.0, 1.0)}, "alpha_init: must be a valid number"),
    "gamma": ({"gamma": 1.5}, "gamma: must be less than or equal to 1"),
    "negative target of a prior": (
        {"prior_network": UniformPrior(BOX), "target_kld_per_dim": -1.0},
        "target_kld_per_dim",
    ),
    "target entropy beside a prior": (
        {"prior_network": UniformPrior(BOX), "target_entropy": -2.0},
        "target_entropy is -2.0, but with a prior",
    ),
    "pair of priors": (
        {"prior_network": (UniformPrior(BOX), None)},
        "prior_network takes one value here",
    ),
}
BOLTZMANN_REFUSED = {
    "pair": ({"alpha_init": (1.0, 1.0)}, "alpha_init: must be a valid number"),
    "neg_dim": (
        {"target_entropy": "neg_dim"},
        "target_entropy: must be a valid number or 'auto' or 'scaled_log_k'",
    ),
    "function without a spec": ({"target_entropy": lambda spec: 1.0}, "needs the action spec"),
    "min_prob": ({"min_prob": 0.0}, "min_prob: must be greater than 0"),
    "discrete_entropy": ({"discrete_entropy": "exact"}, "discrete_entropy: must be"),
    "one-hot spec": ({"action_spec": OneHot(3)}, "OneHot, wanted Categorical, indices: GymEnv"),
    "negative target of a prior": (
        {"prior_network": UniformPrior(INDEX), "target_kld_discrete": -1.0},
        "target_kld_discrete",
    ),
    "box spec": ({"action_spec": Bounded(-1.0, 1.0, (2,))}, "wanted Categorical"),
}
HYBRID_REFUSED = {
    "three of two": (
        {"target_entropy": [1.0, 1.0, 1.0]},
        r"must be one value or a \[discrete, continuous\] pair",
    ),
    "leaf spec": ({"action_spec": Categorical(3)}, "needs a Composite"),
    "mask": ({"parameter_mask": [[0.5, 1.0]]}, "parameter_mask must be a matrix"),
}
REFUSED = [
    pytest.param(kind, *case, id=f"{kind}-{name}")
    for kind, cases in (
        ("continuous", CONTINUOUS_REFUSED),
        ("boltzmann", BOLTZMANN_REFUSED),
        ("hybrid", HYBRID_REFUSED),
    )
    for name, case in cases.items()
]


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_impossible_options_are_refused(kind, options, message):
    with pytest.raises((ConfigError, BatchError), match=message):
        own_loss(kind, **options)(make_batch(kind, 5))


@pytest.mark.parametrize("actor", [box_actor, foreign_actor])
@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3, 1), (3, 3)])
def test_a_parameter_mask_of_another_shape_is_refused_when_a_loss_is_made(actor, shape) -> None:
    networks = actor(key=CONTINUOUS) if actor is foreign_actor else actor(action_key=CONTINUOUS)
    critic = hybrid_critic(4, 2, 3, num_cells=[16])
    for options in ({"mask_entropy": False}, {"mask_entropy": False, "mask_critics": True}):
        with pytest.raises(ConfigError, match=r"the shape \[.*\], wanted \[3, 2\]"):
            HybridSACLoss(networks, critic, parameter_mask=torch.ones(shape), **options)
        HybridSACLoss(networks, critic, parameter_mask=torch.ones(3, 2), **options)


def test_a_parameter_mask_of_densities_that_a_policy_has_not_is_refused_when_a_loss_is_made():
    networks = foreign_actor(key=CONTINUOUS), hybrid_critic(4, 2, 3, num_cells=[16])
    with pytest.raises(ConfigError, match="TanhNormal: parameter_mask needs the density of each"):
        HybridSACLoss(*networks, parameter_mask=torch.ones(3, 2))


# ------------------------------------------------------------------ specs and target entropies


def test_the_number_of_actions_comes_from_the_spec_or_from_the_critics():
    auto = 0.394398
    declared = DiscreteSACLoss(action_value_critic(4, 3), action_spec=Categorical(3))
    assert declared.target_entropy == pytest.approx(auto, abs=1e-6)
    by_actor = DiscreteSACLoss(action_value_critic(4, 3), categorical_actor(4, 3))
    assert by_actor.target_entropy == declared.target_entropy
    silent = DiscreteSACLoss(action_value_critic(4, 3))
    assert silent.target_entropy is None
    silent.load_state_dict(declared.state_dict())
    data = make_batch("boltzmann", 6)
    assert silent(data.clone())["loss_alpha"] == declared(data.clone())["loss_alpha"]


def test_the_temperature_aims_at_the_divergence():
    assert own_loss("continuous", prior_network=UniformPrior(BOX)).target_entropy == -6.0
    loss = own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=0.5)
    assert loss.target_entropy == -1.0
    assert (
        own_loss("continuous", prior_network=UniformPrior(BOX), fixed_alpha=True).target_entropy
        is None
    )
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX))
    assert loss.target_entropy == pytest.approx(-0.5 * math.log(3))
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=math.log(3))
    assert loss.target_entropy == -math.log(3)
    loss = own_loss(
        "hybrid",
        prior_network=UniformPrior(HYBRID),
        target_kld_discrete=0.1,
        target_kld_per_dim=2.0,
    )
    assert (loss.target_entropy_discrete, loss.target_entropy_continuous) == (-0.1, -4.0)
