"""Priors in acting, and the previous action on its way from the environment."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.modules import SameActionPrior
from tests.objectives.losses import make_batch, own_loss
from tests.objectives.prior_references import SPECS, Probabilities


@pytest.mark.parametrize("kind", ["boltzmann", "hybrid"])
@pytest.mark.parametrize("explore", [ExplorationType.RANDOM, ExplorationType.DETERMINISTIC])
def test_the_acting_policy_carries_the_prior(kind, explore):
    """Sampled, the frequencies are those of Q / alpha + log prior; greedy, its mode."""
    torch.manual_seed(0)
    loss = own_loss(kind, prior_network=SameActionPrior(SPECS[kind], 0.8), alpha_init=0.4)
    policy = loss.policy()
    count = 20_000
    states = TensorDict(
        observation=torch.randn(1, 4).expand(count, -1),
        is_init=torch.zeros(count, 1, dtype=torch.bool),
        batch_size=[count],
    )
    before = torch.full((count,), 2)
    if kind == "hybrid":
        with torch.no_grad():
            for name in ("weight", "bias"):  # nearly one continuous action for the same state
                getattr(loss.get_stateful_net("actor_network")[0].module[0][-1], name).zero_()
        zeros = torch.zeros(count, 2)
        states["prev_action"] = TensorDict(continuous=zeros, discrete=before, batch_size=[count])
    else:
        states["prev_action"] = before
    assert {"is_init"} < set(policy.in_keys)
    with torch.no_grad(), set_exploration_type(explore):
        out = policy(states.clone())
    key = "action" if kind == "boltzmann" else ("action", "discrete")
    boltzmann = policy if kind == "boltzmann" else policy.module[1]
    with torch.no_grad():
        log_prior = torch.tensor([0.1, 0.1, 0.8]).log()
        probs = (boltzmann.action_value(out) / 0.4 + log_prior).softmax(-1)
    if explore is ExplorationType.RANDOM:
        frequencies = torch.bincount(out[key], minlength=3) / count
        assert torch.allclose(frequencies, probs.mean(0), atol=0.02)
    else:
        assert torch.equal(out[key], probs.argmax(-1))


def test_an_action_the_prior_rules_out_is_never_chosen():
    loss = own_loss(
        "boltzmann", prior_network=Probabilities([0.0, 0.5, 0.5]), alpha_init=1e-4, fixed_alpha=True
    )
    data = make_batch("boltzmann", 200)
    policy = loss.policy()
    values = policy.action_value(data)
    assert (values.argmax(-1) == 0).any()  # by a gap that the temperature makes enormous
    for explore in (ExplorationType.RANDOM, ExplorationType.DETERMINISTIC):
        with set_exploration_type(explore):
            assert (policy(data)["action"] != 0).all()
    assert loss(data)["kl"].isfinite()
