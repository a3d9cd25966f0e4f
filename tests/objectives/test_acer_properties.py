"""What must hold of ACER's losses whatever the networks are."""

from __future__ import annotations

import copy

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import SoftUpdate

from rlkit_sac.functional import retrace_return
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


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=1e-9, atol=1e-11)


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
    for own, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_threshold_is_plain_importance_sampling(kind: str) -> None:
    torch.manual_seed(1)
    noise = Noise()
    loss, _ = make_acer(kind, sampler=noise, truncation_threshold=1e12)
    segments, found = make_segments(kind, 3, 5), []
    drawn = noise.fill(3, 5)
    for loss.truncation_threshold in (1e12, None):
        noise.queue = list(drawn)
        found.append(gradients(loss, loss(segments), *LOSSES))
    assert_close(*found)


# ------------------------------------------------------------------ on-policy


def test_discrete_targets_on_policy_are_those_without_traces() -> None:
    torch.manual_seed(2)
    loss, _ = make_acer("discrete", on_policy=True)
    segments, found = make_segments("discrete", 3, 20), []
    for loss.use_q_opc in (False, True):
        found.append(gradients(loss, loss(segments), *LOSSES))
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1.0, 10.0, None])
def test_equal_policies_off_policy_are_on_policy(kind: str, c: float | None) -> None:
    torch.manual_seed(3)
    noise = Noise()
    loss, _ = make_acer(kind, sampler=noise, spread=0.0, truncation_threshold=c)
    segments = loss.policy()(make_segments(kind, 3, 8, padded=False)).detach()
    drawn, found = noise.fill(3, 8), []
    for on_policy in (False, True):
        noise.queue = list(drawn)
        out = loss(segments, on_policy=on_policy)
        assert out["kl"].abs() < 1e-12
        found.append(gradients(loss, out, *LOSSES))
    assert_close(*found)


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
    assert_close(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_padded_steps_have_no_gradient(kind: str) -> None:
    torch.manual_seed(5)
    loss, _ = make_acer(kind, reduction="none", scalar_output_mode="exclude")
    segments = make_segments(kind, 3, 8)
    out = loss(segments)
    for name in LOSSES:
        assert not out[name][~segments["collector", "mask"]].any()
    padded = sum(out[name][~segments["collector", "mask"]].sum() for name in LOSSES)
    for gradient in torch.autograd.grad(padded, list(loss.parameters()), allow_unused=True):
        assert gradient is None or not gradient.any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_sum_of_its_segments(kind: str) -> None:
    torch.manual_seed(6)
    noise = Noise()
    loss, _ = make_acer(kind, sampler=noise, normalize_loss_by_steps=False)
    segments = make_segments(kind, 3, 8)
    drawn = noise.fill(3, 8)
    together = gradients(loss, loss(segments), *LOSSES)
    apart = {name: torch.zeros_like(value) for name, value in together.items()}
    for row, length in enumerate(segments["collector", "mask"].sum(-1).tolist()):
        noise.queue = [each[:, row : row + 1, :length] for each in drawn]
        alone = loss(segments[row : row + 1, :length].exclude("collector"))
        for name, value in gradients(loss, alone, *LOSSES).items():
            apart[name] += value
    assert_close(together, apart)


# ------------------------------------------------------------------ who is trained by what


@pytest.mark.parametrize("kind", KINDS)
def test_each_loss_trains_its_own_network(kind: str) -> None:
    torch.manual_seed(7)
    loss, _ = make_acer(kind)
    out = loss(make_segments(kind, 3, 8))
    for name, group in (
        ("loss_actor", "actor_network_params"),
        ("loss_entropy", "actor_network_params"),
        ("loss_critic", "critic_network_params"),
    ):
        reached = {n.split(".")[0] for n, g in gradients(loss, out, name).items() if g.any()}
        assert reached == {group}


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


# ------------------------------------------------------------------ the trust region


@pytest.mark.parametrize(
    ("kind", "space", "reward"),
    [
        ("discrete", "logits", 10.0),
        ("discrete", "log_probs", -10.0),  # what raises a log-probability alone is never bounded
        ("discrete", "probs", -10.0),
        ("continuous", "loc_var", 10.0),
        ("continuous", "loc_scale", 10.0),
    ],
)
def test_the_trust_region_keeps_the_divergence_small(kind: str, space: str, reward: float) -> None:
    """A hundred steps after rewards that always want the policy elsewhere."""
    reached = []
    for use in (False, True):
        torch.manual_seed(9)
        loss, _ = make_acer(
            kind, spread=0.0, use_trust_region=use, trust_region_space=space, beta=0.0
        )
        loss.trust_region_delta = 0.01
        policy = loss.policy()
        optimizer = torch.optim.SGD(loss.actor_network_params.parameters(), lr=0.05)
        start = make_segments(kind, 16, 1, cuts=1.0, padded=False)
        for _ in range(100):
            segments = policy(start.clone()).detach()
            if kind == "discrete":
                segments["action"] = torch.zeros_like(segments["action"])
            else:
                segments["action"] = segments["behavior", "loc"] + segments["behavior", "scale"]
            segments["next", "reward"][:] = reward
            segments["next", "terminated"][:] = True
            out = loss(segments)
            optimizer.zero_grad()
            out["loss_actor"].backward()
            optimizer.step()
        reached.append(loss(segments)["kl"].item())
    without, within = reached
    assert within < 0.5 * without


# ------------------------------------------------------------------ extremes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("space", [None, "logits", "log_probs", "probs"])
@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("threshold", [10.0, None])
def test_extreme_logits(
    dtype: torch.dtype, space: str | None, on_policy: bool, threshold: float | None
) -> None:
    torch.manual_seed(10)
    options = {"use_trust_region": space is not None, "trust_region_space": space}
    loss, _ = make_acer("discrete", truncation_threshold=threshold, **options)
    loss = loss.to(dtype)
    loss.on_policy = on_policy
    rows = torch.tensor([[1e10, -1e10, 0, 0], [0, -torch.inf, 0, -torch.inf], [-1e10] * 4])
    rows = torch.cat([rows, torch.tensor([[-200.0, 0, 0, 0]])])
    rows = torch.cat([rows, rows.flip(-1), torch.zeros(1, 4)])
    segments = make_segments("discrete", len(rows) ** 2, NUM_ACTIONS, padded=False)
    segments = segments.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)
    segments["action"] = torch.arange(NUM_ACTIONS).expand(segments.shape).clone()
    pairs = torch.cartesian_prod(torch.arange(len(rows)), torch.arange(len(rows)))
    segments["behavior", "logits"] = rows[pairs[:, 0]].unsqueeze(1).expand(-1, 4, -1).to(dtype)
    now = rows[pairs[:, 1]].unsqueeze(1).expand(-1, 4, -1).to(dtype)
    module = loss.actor_network.module[0].module
    original = module.forward
    # The mask and the scale of a network whose logits run away.
    module.forward = lambda x: (
        torch.where(now.isfinite(), original(x), -torch.inf) + now.clamp_min(-1e10)
    )
    out = loss(segments)
    assert all(value.isfinite() for value in out.values())
    found = gradients(loss, out, *LOSSES)
    assert all(value.isfinite().all() for value in found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("space", [None, "loc_var", "loc_scale"])
@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("threshold", [10.0, None])
def test_narrow_policies(
    dtype: torch.dtype, space: str | None, on_policy: bool, threshold: float | None
) -> None:
    torch.manual_seed(11)
    options = {"use_trust_region": space is not None, "trust_region_space": space}
    loss, _ = make_acer("continuous", truncation_threshold=threshold, **options)
    loss = loss.to(dtype)
    loss.on_policy = on_policy
    narrow = torch.tensor(1e-6, dtype=dtype).log()
    for params, log_scale in ((loss.actor_network_params, narrow), (None, narrow), (None, 0.0)):
        params = loss.target_actor_network_params if params is None else params
        with torch.no_grad():
            params["module", "0", "module", "0", "2", "bias"][2:] = log_scale
            params["module", "0", "module", "0", "2", "weight"][2:] *= 1e-3
        for scale in (1e-6, 1.0):
            segments = make_segments("continuous", 3, 5, padded=False)
            segments = segments.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)
            segments["behavior", "scale"][:] = scale
            with torch.no_grad():  # the likeliest action, whose density is largest
                likeliest = loss.policy()(segments[:1].select("observation"))["behavior", "loc"]
            segments["action"][:1] = likeliest
            out = loss(segments)
            assert all(value.isfinite() for value in out.values())
            found = gradients(loss, out, *LOSSES)
            assert all(value.isfinite().all() for value in found.values())


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


def test_targets_are_those_of_retrace() -> None:
    """The mean of the targets, from what the networks say."""
    torch.manual_seed(13)
    loss, nets = make_acer("discrete", diagnostics=True)
    segments = make_segments("discrete", 2, 5, padded=False)
    out = loss(segments)
    log_pi = nets.actor(segments["observation"]).log_softmax(-1)
    q = nets.critic(segments["observation"])
    following = segments["next", "observation"]
    next_value = (nets.actor(following).softmax(-1) * nets.critic(following)).sum(-1)
    index = segments["action"].unsqueeze(-1)
    stored = segments["behavior", "logits"].log_softmax(-1)
    target = retrace_return(
        segments["next", "reward"].squeeze(-1),
        (log_pi.exp() * q).sum(-1),
        q.gather(-1, index).squeeze(-1),
        (log_pi - stored).gather(-1, index).squeeze(-1).exp().clamp_max(1),
        next_value * ~segments["next", "terminated"].squeeze(-1),
        segments["next", "done"].squeeze(-1),
        gamma=0.99,
    )
    torch.testing.assert_close(out["target_mean"], target.mean().detach())


def test_a_terminated_step_ends_its_episode() -> None:
    """Also where the batch does not call it done."""
    torch.manual_seed(14)
    loss, _ = make_acer("discrete")
    segments = make_segments("discrete", 2, 6, padded=False)
    other = copy.deepcopy(segments)
    other["next", "done"] &= ~other["next", "terminated"]
    assert (other["next", "done"] != segments["next", "done"]).any()
    assert_close(gradients(loss, loss(segments), *LOSSES), gradients(loss, loss(other), *LOSSES))
