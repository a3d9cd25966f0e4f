"""A loss against its reference in float64: losses, scalars, the priority and every gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.objectives import LossModule, ValueEstimators

from tests.objectives.networks import (
    ACTION_DIM,
    NoisyTanhGaussian,
    Weights,
    live_gradients,
    make_data,
    plain_data,
    plain_weights,
)
from tests.objectives.prior_references import Before, add_before, make_prior, steps_before
from tests.objectives.references import Options, act

TOLERANCE = 1e-10  # relative and absolute; the bar for the package is 1e-8

#: The loss that trains each network.
TRAINED_BY = {
    "actor": "loss_actor",
    "q": "loss_qvalue",
    "encoder": "loss_qvalue",
    "v": "loss_value",
}


def assert_close(found: Tensor, wanted: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def assert_same(
    found: dict[str, Tensor],
    wanted: dict[str, Tensor],
    *,
    rtol: float = TOLERANCE,
    atol: float = TOLERANCE,
) -> None:
    """The same names, and the same numbers under each."""
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(
            found[name], value, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


def losses_of(out: TensorDictBase) -> dict[str, Tensor]:
    return {name: value for name, value in out.items() if name.startswith("loss")}


def results(loss: LossModule, data: TensorDict) -> dict[str, Tensor]:
    """Losses, scalars, the priority, and each parameter's gradient of the sum of the losses."""
    data = data.clone()
    loss.zero_grad()
    out = loss(data)
    sum(losses_of(out).values()).backward()
    gradients = {
        f"grad {name}": parameter.grad.clone()
        for name, parameter in loss.named_parameters()
        if parameter.grad is not None
    }
    return {**dict(out.items()), **gradients, "td_error": data["td_error"]}


@dataclass
class Batch:
    """A batch for a loss, and for its reference.

    Attributes:
        data: what the loss is given, with NaN in its invalid steps.
        inputs: the same numbers, all of them finite, by their names in the references.
        valid: which steps count, bool ``[*]``.
        share: the weight of each step in the mean, ``[*]``.
    """

    data: TensorDict
    inputs: dict[str, Tensor]
    valid: Tensor
    share: Tensor

    def before(self, obs: Tensor) -> Before:
        """What the states of the batch, or its next states, tell of the step before."""
        here, after = steps_before(self.data)
        return here if obs is self.inputs["obs"] else after


def make_batch(
    data: TensorDict,
    *,
    mask: bool = False,
    weights: bool = False,
    several_steps: bool = False,
    prior: bool = False,
) -> Batch:
    """Add a mask, importance weights, numbers of steps, or the previous actions for a prior."""
    if prior:
        add_before(data)
    shape, inputs = data.batch_size, plain_data(data)
    valid, share = torch.ones(shape, dtype=torch.bool), torch.ones(shape).double()
    if weights:
        data["priority_weight"] = share = torch.rand(shape).double() + 0.1
    if several_steps:
        data["steps_to_next_obs"] = inputs["steps"] = torch.randint(1, 4, shape)
    if mask:
        valid = torch.rand(shape) < 0.7
        valid[..., 0] = True
        data["collector", "mask"] = inputs["mask"] = valid
        for key in ("observation", ("next", "observation"), ("next", "reward")):
            data[key] = torch.where(valid.unsqueeze(-1), data[key], torch.nan)
    return Batch(data, inputs, valid, share * valid)


def compare(
    loss: LossModule,
    batch: Batch,
    wanted: dict[str, Tensor],
    plain: Weights,
    temperatures: dict[str, Tensor],
    call: Callable[[], TensorDictBase],
    tolerance: float = TOLERANCE,
) -> None:
    """A loss against what its reference makes of every step.

    Args:
        loss: whose every loss must train its own parameters, and no others.
        batch: what both read.
        wanted: each loss ``[*]`` and the priority ``td_error`` ``[*]``.
        plain: the reference's weights.
        temperatures: the reference's, by the names of the loss's parameters.
        call: calls the loss with the noise of the reference.
        tolerance: relative and absolute.
    """
    priority = wanted.pop("td_error") * batch.valid
    wanted = {name: (each * batch.share).sum() / batch.share.sum() for name, each in wanted.items()}
    out = call()
    assert_close(batch.data["td_error"], priority, tolerance)
    assert losses_of(out).keys() == wanted.keys()
    for name, total in wanted.items():
        assert_close(out[name], total, tolerance)
        loss.zero_grad()
        for leaf in (*plain.values(), *temperatures.values()):
            leaf.grad = None
        for each in (out[name], total):
            if each.requires_grad:
                each.backward(retain_graph=True)
        for place, grad in live_gradients(loss).items():
            if TRAINED_BY.get(place.split(".")[0].rstrip("0123456789")) == name:
                assert_close(grad, plain[place].grad, tolerance)
            else:
                assert all(g is None or not g.any() for g in (grad, plain[place].grad))
        for key, leaf in temperatures.items():
            live = getattr(loss, key)
            if name == "loss_alpha" and isinstance(live, nn.Parameter):
                assert_close(live.grad, leaf.grad, tolerance)
            else:
                assert live.grad is None


def picked(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """The options that a reference takes as they are."""
    names = set(kind.__dataclass_fields__) - {"target_entropy"}
    return {name: value for name, value in options.items() if name in names}


def compare_continuous(
    make: Callable[..., LossModule],
    reference: Callable[..., dict[str, Tensor]],
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    critics: int = 2,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    several_steps: bool = False,
    prior: str | None = None,
    next_draw: bool = True,
    seed: int = 0,
    **options,
) -> None:
    """A loss over continuous actions with ``options`` against its reference.

    Args:
        make: makes the loss.
        reference: its losses and priority.
        next_draw: whether the loss draws an action at the next states.
    """
    torch.manual_seed(seed)
    bounds = {
        key: options.get(key, [level] * ACTION_DIM) for key, level in (("low", -1.0), ("high", 1.0))
    }
    case = None if prior is None else make_prior(prior, "continuous", **bounds)
    if case is not None:
        options["prior_network"] = case.module
    loss = make(rewards, critics, **options)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    tensors = {key: torch.tensor(bound) for key, bound in bounds.items()}
    both = make_batch(
        make_data(*batch, rewards=rewards, **tensors),
        mask=mask,
        weights=weights,
        several_steps=several_steps,
        prior=case is not None,
    )
    noise, next_noise = torch.randn(2, *batch, ACTION_DIM).double()

    o = Options(
        lmbda=lmbda,
        alpha=float(loss.alpha()),
        target_entropy=0.0 if options.get("fixed_alpha") else loss.target_entropy,
        **picked(Options, options),
    )
    if case is not None:
        o.log_prior = lambda obs, action: case.continuous(obs, action, both.before(obs)).sum(-1)
    plain = plain_weights(loss)
    parameter = loss.log_alpha.detach().clone().requires_grad_()
    wanted = reference(plain, parameter, both.inputs, noise, next_noise, critics, o)

    def call() -> TensorDictBase:
        NoisyTanhGaussian.queue = [next_noise, noise] if next_draw else [noise]
        out = loss(both.data)
        assert not NoisyTanhGaussian.queue
        return out

    compare(loss, both, wanted, plain, {"log_alpha": parameter}, call)


def compare_running_mean(
    make: Callable[..., LossModule], reference: Callable[..., dict[str, Tensor]]
) -> None:
    """Entropy rewards centered by the mean of both states' log-probabilities, in three calls."""
    torch.manual_seed(0)
    loss = make(normalize_entropy_reward=True, alpha_init=0.3)
    plain, mean = plain_weights(loss), 0.0
    for count in range(1, 4):
        data = make_data(6)
        noise, next_noise = torch.randn(2, 6, ACTION_DIM).double()
        o = Options(alpha=0.3, target_entropy=loss.target_entropy)
        both = [
            act(plain, data["observation"], noise, o)[1],
            act(plain, data["next", "observation"], next_noise, o)[1],
        ]
        mean += 8 / (7 + count) * (torch.cat(both).mean().item() - mean)
        o.log_prob_mean = mean
        wanted = reference(plain, loss.log_alpha, plain_data(data), noise, next_noise, 2, o)
        NoisyTanhGaussian.queue = [next_noise, noise]
        out = loss(data)
        assert_close(data["td_error"], wanted.pop("td_error"))
        for name, each in wanted.items():
            assert_close(out[name], each.mean())
