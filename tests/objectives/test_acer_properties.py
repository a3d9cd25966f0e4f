"""What must hold of ACER's losses whatever the networks are."""

from __future__ import annotations

import pytest
import torch

from tests.objectives.acer_networks import Noise, make_acer, make_segments

KINDS = ["discrete", "continuous"]
LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


# ------------------------------------------------------------------ truncation and correction


# ------------------------------------------------------------------ padding


# ------------------------------------------------------------------ who is trained by what


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
