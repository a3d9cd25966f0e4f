"""ACER's losses and gradients against the formulas, step by step, and their properties."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import (
    NUM_ACTIONS,
    Networks,
    Noise,
    make_acer,
    make_normalizers,
    make_segments,
    normalized_by_hand,
)
from tests.objectives.acer_references import AcerOptions, reference

SPACES = {
    "discrete": [None, "logits", "log_probs", "probs"],
    "continuous": [None, "loc_var", "loc_scale"],
}
CASES = [  # each pair of options once; the threshold is of replayed segments alone
    (kind, AcerOptions(space, c, on_policy, (place + turn) % 2 == 0, delta=0.01))
    for kind in SPACES
    for place, space in enumerate(SPACES[kind])
    for turn, (c, on_policy) in enumerate(
        [(None, False), (0.0, False), (1.0, False), (10.0, False), (10.0, True)]
    )
]
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def assert_equal(
    kind: str, options: AcerOptions, *batch: int, ends: bool = False, **segments
) -> None:
    noise = Noise()
    loss, nets = make_acer(kind, sampler=noise, **options.of_loss())
    data = make_segments(kind, *batch, **segments)
    if ends:
        valid = data["collector", "mask"].unsqueeze(-1)
        done, terminated = (data["next", name][valid] for name in ("done", "terminated"))
        assert terminated.any()
        assert (done & ~terminated).any()
    drawn = noise.fill(*batch)
    wanted = reference(kind, nets, data, drawn, options)
    wanted.assert_equal(loss(data), *parameters(loss, nets), **EXACT)


def parameters(loss: ACERLoss, nets: Networks) -> tuple[list[Tensor], list[Tensor]]:
    """Those of the loss in the order of the reference's."""
    actor, critic = map(loss.get_stateful_net, ("actor_network", "critic_network"))
    own = list(actor.parameters()), list(critic.parameters())
    wanted = nets.actor_parameters(), nets.critic_parameters()
    torch.testing.assert_close(own, wanted, rtol=0, atol=0)
    return own


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_losses_and_gradients_are_those_of_the_formulas(kind: str, options: AcerOptions) -> None:
    torch.manual_seed(4)
    assert_equal(kind, options, 4, 7, ends=True)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("steps", [1, 2, 13])
@pytest.mark.parametrize("cuts", [0.0, 0.2])
def test_segments_of_every_length(kind: str, steps: int, cuts: float) -> None:
    torch.manual_seed(1)
    assert_equal(kind, AcerOptions(SPACES[kind][1], use_q_opc=True), 2, steps, cuts=cuts)


@pytest.mark.parametrize("kind", SPACES)
def test_coefficients(kind: str) -> None:
    torch.manual_seed(3)
    options = AcerOptions(SPACES[kind][1], gamma=0.5, beta=0.3, policy_coef=2.0, critic_coef=3.0)
    for delta in (0.0, 0.1, 100.0):
        assert_equal(kind, replace(options, delta=delta), 3, 4)


@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("kind", SPACES)
def test_normalized_observations_and_rewards(kind: str, on_policy: bool) -> None:
    torch.manual_seed(5)
    noise, normalizers = Noise(), make_normalizers()
    options = AcerOptions(SPACES[kind][1], 1.0, on_policy, use_q_opc=True, delta=0.01)
    loss, nets = make_acer(
        kind, sampler=noise, reward_scale=0.1, **options.of_loss(), **normalizers
    )
    data = make_segments(kind, 4, 7)
    by_hand, before = normalized_by_hand(data, **normalizers), data.clone()
    by_hand["next", "reward"] *= 0.1  # after the normalization
    wanted = reference(kind, nets, by_hand, noise.fill(4, 7), options)
    wanted.assert_equal(loss(data), *parameters(loss, nets), **EXACT)
    torch.testing.assert_close(data, before, rtol=0, atol=0, equal_nan=True)
    assert normalizers["observation_normalizer"].statistics.count == 8


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0, 3.0, 10.0])
def test_the_expected_policy_gradient_has_no_bias(c: float) -> None:
    """One step from one state: the mean over all actions, each with its probability of storage."""
    torch.manual_seed(0)
    loss, _ = make_acer("discrete", use_trust_region=False, truncation_threshold=c)
    segments = make_segments("discrete", 1, 1, padded=False).expand(NUM_ACTIONS, 1).clone()
    segments["action"] = torch.arange(NUM_ACTIONS).unsqueeze(-1)
    # The reward makes every target the critic's own value of the action.
    segments["next", "terminated"][:] = segments["next", "done"][:] = True
    actor, critic = loss.policy().actor, loss.get_stateful_net("critic_network")
    values = critic(segments[:1].clone())["action_value"][0, 0].detach()
    segments["next", "reward"][:, 0, 0] = values
    stored = segments["behavior", "logits"][0, 0].softmax(-1)
    segments["priority_weight"] = stored.unsqueeze(-1)
    pi = actor.get_dist(segments[0, 0].clone()).probs
    wanted = torch.autograd.grad(-(pi * values).sum(), list(actor.parameters()))
    found = torch.autograd.grad(loss(segments)["loss_actor"], list(actor.parameters()))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", SPACES)
def test_statistics(kind: str) -> None:
    torch.manual_seed(12)
    noise = Noise()
    loss, nets = make_acer(
        kind, sampler=noise, diagnostics=True, truncation_threshold=1.0, trust_region_delta=0.01
    )
    segments = make_segments(kind, 4, 6)
    drawn = noise.fill(4, 6)
    out = loss(segments)
    valid = segments["collector", "mask"]
    held = segments[valid]
    plain = nets.actor(held["observation"])
    if kind == "discrete":
        index = held["action"].unsqueeze(-1)
        stored = held["behavior", "logits"].log_softmax(-1).gather(-1, index)
        ratio = (plain.log_softmax(-1).gather(-1, index) - stored).exp()
    else:
        normal = torch.distributions.Normal
        stored = normal(held["behavior", "loc"], held["behavior", "scale"])
        action = held["action"]
        ratio = (normal(*plain).log_prob(action) - stored.log_prob(action)).sum(-1).exp()
    torch.testing.assert_close(out["ratio"], ratio.mean().detach())
    torch.testing.assert_close(out["truncated"], (ratio > 1).double().mean())
    assert 0 < out["projected"] < 1
    assert out["explained_variance"] < 1
    loss.use_trust_region = False
    noise.queue = list(drawn)
    unprojected = loss(segments)
    assert unprojected["projected"] == 0
    torch.testing.assert_close(unprojected["loss_actor"], out["loss_actor"])
    noise.queue = list(drawn)
    on_policy = loss(segments, on_policy=True)
    assert (on_policy["ratio"], on_policy["truncated"]) == (1, 0)
