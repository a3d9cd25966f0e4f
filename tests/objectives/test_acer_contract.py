"""ACER's loss as a part of TorchRL: keys, refusals, copies, shared trunks."""

import copy
from dataclasses import dataclass

import pytest
import torch
from tensordict import NestedKey, TensorDict
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import Noise, acer_networks, make_acer, make_segments

KINDS = ["discrete", "continuous"]
LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


def shared(kind: str) -> ACERLoss:
    return ACERLoss(**acer_networks(kind, shared=True))


def parts(loss: ACERLoss) -> dict:
    return {
        "loss_actor": loss.actor_loss,
        "loss_critic": loss.critic_loss,
        "loss_entropy": loss.entropy_loss,
    }


def total(out: TensorDict) -> torch.Tensor:
    return sum(out[name] for name in LOSSES)


# ------------------------------------------------------------------ what is data


@pytest.mark.parametrize("kind", KINDS)
def test_segments_that_carry_gradients_of_the_policy_pass_none(kind: str) -> None:
    """As those that the loss's own policy wrote outside of ``no_grad``."""
    torch.manual_seed(0)
    loss, _ = make_acer(kind)
    segments, gradients = make_segments(kind, 3, 5), []
    acting = loss.policy()(segments.select("observation"))
    segments["behavior"] = acting["behavior"].apply(lambda value: 0.9 * value + 0.05)
    if kind == "continuous":
        segments["action"] = segments["behavior", "loc"] + 0.1
    (first, *_) = acting["behavior"].values()
    segments["next", "reward"] = first.sum(-1, keepdim=True)
    for each in (segments, segments.detach()):
        torch.manual_seed(1)
        parameters = list(loss.parameters())
        gradients.append(torch.autograd.grad(total(loss(each)), parameters))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


# ------------------------------------------------------------------ the flag


@pytest.mark.parametrize("kind", KINDS)
def test_the_flag_is_an_argument_or_an_attribute(kind: str) -> None:
    torch.manual_seed(0)
    noise = Noise()
    loss, _ = make_acer(kind, sampler=noise)
    segments, found = make_segments(kind, 3, 5), []
    drawn = noise.fill(3, 5)
    bare = segments.exclude("behavior")
    for flag, argument, data in ((False, True, bare), (True, None, bare), (True, False, segments)):
        loss.on_policy, noise.queue = flag, list(drawn)
        found.append(loss(data, on_policy=argument)["loss_actor"])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


# ------------------------------------------------------------------ each loss alone

SCALARS = {
    "loss_actor": {"kl", "ratio", "truncated", "projected"},
    "loss_critic": {"value", "q_mean", "target_mean", "explained_variance"},
    "loss_entropy": {"entropy"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_each_loss_alone_is_that_of_the_whole(
    kind: str, on_policy: bool, mask: bool, weighted: bool, reduction: str
) -> None:
    """With the same draws: the same value, gradients and scalars."""
    torch.manual_seed(20)
    mode = "non_tensor" if reduction == "none" else None
    loss, _ = make_acer(kind, diagnostics=True, reduction=reduction, scalar_output_mode=mode)
    segments = make_segments(kind, 3, 5, padded=mask)
    if weighted:
        segments["priority_weight"] = torch.rand(3, 5).double()
    before = segments.lock_().clone()
    torch.manual_seed(21)
    whole = loss(segments, on_policy=on_policy)
    parameters = list(loss.parameters())
    for name, part in parts(loss).items():
        torch.manual_seed(21)
        alone, scalars = part(segments, on_policy=on_policy)
        assert alone.shape == whole[name].shape
        assert torch.equal(alone, whole[name])
        assert scalars.keys() == SCALARS[name]
        for key, value in scalars.items():
            assert not value.requires_grad
            assert torch.equal(value, whole[key])
        found, wanted = (
            torch.autograd.grad(each.sum(), parameters, retain_graph=True, allow_unused=True)
            for each in (alone, whole[name])
        )
        for own, theirs in zip(found, wanted, strict=True):
            assert (own is None) == (theirs is None)
            assert own is None or torch.equal(own, theirs)
    for key, value in before.items(True, True):
        torch.testing.assert_close(segments[key], value, rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------ shared trunks


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_trunk_is_run_once_and_trained_by_both(kind: str) -> None:
    torch.manual_seed(1)
    loss, segments = shared(kind), make_segments(kind, 3, 5)
    trunk = loss.actor_network.module[0].module
    calls: list[bool] = []
    trunk.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    out = loss(segments)
    assert calls.count(True) == 1
    assert calls.count(False) == 2  # the average policy, and the next states
    weights = [p for n, p in loss.named_parameters() if "module.0.module.0.weight" in n][:1]
    for name in LOSSES:
        (gradient,) = torch.autograd.grad(out[name], weights, retain_graph=True)
        assert gradient.any()


# ------------------------------------------------------------------ keys and batches


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", ["separate", "shared"])
def test_keys(kind: str, make: str) -> None:
    loss = shared(kind) if make == "shared" else make_acer(kind)[0]
    behavior = ["logits"] if kind == "discrete" else ["loc", "scale"]
    assert loss.in_keys == [
        "action",
        ("next", "reward"),
        ("next", "done"),
        ("next", "terminated"),
        "observation",
        ("next", "observation"),
        *(("behavior", name) for name in behavior),
    ]
    assert loss.out_keys == [*LOSSES, "kl", "entropy", "value"]
    assert set(loss(make_segments(kind, 2, 3)).keys()) == set(loss.out_keys)


class WithCosts(ACERLoss):
    @dataclass
    class _AcceptedKeys(ACERLoss._AcceptedKeys):
        cost: NestedKey = "cost"

    default_keys = _AcceptedKeys
    outcomes = (*ACERLoss.outcomes, "cost")


def test_a_subclass_reads_its_own_outcomes() -> None:
    loss = WithCosts(**acer_networks("discrete"))
    assert ("next", "cost") in loss.in_keys
    loss.set_keys(cost="price")
    assert ("next", "price") in loss.in_keys


def test_set_keys() -> None:
    torch.manual_seed(5)
    loss, _ = make_acer("discrete")
    segments = make_segments("discrete", 2, 3)
    wanted = loss(segments)["loss_actor"]
    segments.rename_key_(("behavior", "logits"), ("old", "x"))
    loss.set_keys(behavior_logits=("old", "x"))
    assert torch.equal(loss(segments)["loss_actor"], wanted)
    out = loss.policy()(segments.select("observation"))
    assert ("old", "x") in out.keys(True)


def test_reductions() -> None:
    torch.manual_seed(6)
    segments = make_segments("discrete", 3, 5)
    outs = {}
    for name, options in {
        "mean": {},
        "sum": {"reduction": "sum"},
        "not normalized": {"normalize_loss_by_steps": False},
        "none": {"reduction": "none", "scalar_output_mode": "non_tensor"},
    }.items():
        torch.manual_seed(7)
        outs[name] = make_acer("discrete", **options)[0](segments)
    count = segments["collector", "mask"].sum()
    for key in LOSSES:
        assert torch.equal(outs["sum"][key], outs["not normalized"][key])
        torch.testing.assert_close(outs["mean"][key] * count, outs["sum"][key])
        assert outs["none"][key].shape == (3, 5)
        torch.testing.assert_close(outs["none"][key].sum(), outs["sum"][key])
    assert outs["none"]["kl"] == outs["mean"]["kl"]


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_casts(kind: str) -> None:
    torch.manual_seed(8)
    loss, segments = shared(kind), make_segments(kind, 2, 3)
    torch.manual_seed(9)
    wanted = loss(segments)
    other = shared(kind)
    other.load_state_dict(loss.state_dict())
    for each in (copy.deepcopy(loss), other):
        torch.manual_seed(9)
        torch.testing.assert_close(dict(each(segments)), dict(wanted), rtol=0, atol=0)
    single = segments.apply(lambda x: x.float() if x.is_floating_point() else x)
    out = loss.float()(single)
    assert {value.dtype for value in out.values()} == {torch.float32}
    assert all(value.isfinite() for value in out.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_shares_live_parameters(kind: str) -> None:
    torch.manual_seed(10)
    loss = shared(kind)
    policy, data = loss.policy(), TensorDict(observation=torch.randn(5, 3).double(), batch_size=[5])
    before = policy(data.clone())
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.mul_(1.5)
    after = policy(data.clone())
    behavior = ("behavior", "logits" if kind == "discrete" else "loc")
    assert not torch.equal(before[behavior], after[behavior])
    with set_exploration_type(ExplorationType.RANDOM):
        assert set(policy(data).keys()) == {"observation", "action", "behavior"}
