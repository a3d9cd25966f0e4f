"""What must hold of ACER's losses whatever the networks are."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import SoftUpdate

from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import (
    NUM_ACTIONS,
    Noise,
    make_acer,
    make_segments,
    pad,
)

KINDS = ["discrete", "continuous"]
LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


def gradients(loss: ACERLoss, out: TensorDict, *names: str) -> dict[str, Tensor]:
    total = sum(out[name] for name in names)
    named = dict(loss.named_parameters())
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True, retain_graph=True)
    pairs = zip(named.items(), found, strict=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in pairs}


# ------------------------------------------------------------------ truncation and correction


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


# ------------------------------------------------------------------ padding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_policy", [False, True])
def test_what_padding_holds_changes_nothing(kind: str, on_policy: bool) -> None:
    torch.manual_seed(4)
    noise = Noise()
    loss, _ = make_acer(kind, sampler=noise, diagnostics=True, use_q_opc=True)
    clean, found = make_segments(kind, 3, 8, padded=False), []
    drawn, dirty = noise.fill(3, 8), clean.clone()
    mask = pad(dirty)
    for segments in (clean, dirty):
        segments["collector", "mask"] = mask
        noise.queue = list(drawn)
        out = loss(segments, on_policy=on_policy)
        assert all(value.isfinite() for value in out.values())
        found.append(gradients(loss, out, *LOSSES) | {n: v.detach() for n, v in out.items()})
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------ who is trained by what


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_policy_moves_by_a_share(kind: str) -> None:
    torch.manual_seed(8)
    loss, _ = make_acer(kind)
    updater = SoftUpdate(loss, eps=0.99)
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.add_(torch.randn_like(parameter))
    before = loss.target_actor_network_params.clone()
    updater.step()
    moved = loss.target_actor_network_params
    for key, live in loss.actor_network_params.items(True, True):
        wanted = before[key] + 0.01 * (live.detach() - before[key])
        torch.testing.assert_close(moved[key], wanted, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------ statistics


@pytest.mark.parametrize("kind", KINDS)
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
