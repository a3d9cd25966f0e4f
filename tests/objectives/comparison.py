"""A loss against its reference in float64: losses, scalars, the priority and every gradient."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.objectives import LossModule, ValueEstimators

from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.networks import (
    ACTION_DIM,
    DISCRETE_KINDS,
    NUM_ACTIONS,
    NoisyTanhGaussian,
    Weights,
    live_gradients,
    make_critic,
    make_data,
    make_loss,
    over_atoms,
    plain_data,
    plain_weights,
    waiting_times,
)
from tests.objectives.prior_references import Before, add_before, make_prior, steps_before
from tests.objectives.references import Draw, Options, act, losses

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
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol)


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


def factors_of(kind: str) -> list[str]:
    return ["discrete", "continuous"] if kind == "hybrid" else [""]


def of_factor(name: str, factor: str) -> str:
    return f"{name}_{factor}" if factor else name


def reference_options(loss: LossModule, kind: str, options: dict[str, Any], **facts) -> Options:
    names = set(Options.__dataclass_fields__) - {"target_entropy"}
    out = Options(kind, **facts, **{name: options[name] for name in names & options.keys()})
    modes = options.get("alpha_parametrization", "log")
    for place, factor in enumerate(factors_of(kind)):
        out.alpha[factor] = float(loss.alpha(factor))
        out.mode[factor] = modes if isinstance(modes, str) else modes[place]
        out.target_entropy[factor] = None
        if isinstance(getattr(loss, of_factor("log_alpha", factor)), nn.Parameter):
            target = getattr(loss, of_factor("target_entropy", factor))
            if target is None:  # the number of actions was not declared
                target = named_target(options, out.actions)
                if "prior_network" in options:
                    target = -0.5 * math.log(out.actions)
            out.target_entropy[factor] = target
    return out


def named_target(options: dict[str, Any], actions: int) -> float:
    if "scaled_log_k" in str(options.get("target_entropy")):
        return 0.98 * math.log(actions)
    p = options.get("min_prob", 0.1)
    rest = p * (math.log(actions - 1) - math.log(p)) if actions > 1 else 0.0
    return rest - (1 - p) * math.log(1 - p) if actions > 1 else 0.0


def check(
    kind: str,
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    critics: int = 2,
    actions: int = NUM_ACTIONS,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    several_steps: bool = False,
    prior: str | None = None,
    network: tuple[Callable[..., nn.Module], Callable[..., Tensor] | None] | None = None,
    atoms: int | None = None,
    encoded: bool = False,
    reference: Callable[..., dict[str, Tensor]] = losses,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    **options,
) -> None:
    """The loss with ``options`` against the reference.

    Args:
        network: what makes a critic of numbers of actions and rewards, and its formula.
        atoms: of critics over atoms.
        encoded: whether the networks share an encoder.
        reference: losses and priority of each step.
    """
    torch.manual_seed(seed)
    actions = actions if kind in DISCRETE_KINDS else 1
    bounds = {key: options[key] for key in ("low", "high") if key in options}
    case = None if prior is None else make_prior(prior, kind, actions=actions, **bounds)
    if case is not None:
        options["prior_network"] = case.module
    critic = None if network is None else network[0](actions, rewards).double()
    if atoms is not None:
        critic = over_atoms(make_critic(kind, actions, atoms))
    sizes = {"actions": actions, "rewards": rewards, "critics": critics}
    loss = make_loss(kind, **sizes, critic=critic, encoded=encoded, **options)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    both = make_batch(
        make_data(kind, *batch, actions=actions, rewards=rewards, **bounds),
        mask=mask,
        weights=weights,
        several_steps=several_steps,
        prior=case is not None,
    )
    facts = {"actions": actions, "critics": critics, "lmbda": lmbda, "atoms": atoms}
    o = reference_options(loss, kind, options, **facts)
    if case is not None:
        o.log_prior_c = lambda obs, c: case.continuous(obs, c, both.before(obs))
    if case is not None and o.discrete is not None:
        o.log_prior_d = lambda obs, c: case.discrete(obs, c, both.before(obs))
    if network is not None:
        o.network = network[1]
    if "target_subset" in options:
        loss.critic_order = torch.randperm(critics)
        o.target_members = loss.critic_order[: options["target_subset"]].tolist()
    plain = plain_weights(loss)
    by_factor = temperatures(loss, kind)
    draw, next_draw = make_draw(*batch, actions=actions), make_draw(*batch, actions=actions)
    wanted = reference(plain, by_factor, both.inputs, draw, next_draw, o)
    draws = [next_draw, draw]
    if kind == "value" and not lmbda and o.policy_loss_steps == "first":
        draws = [draw]  # nothing is drawn at s'

    def run():
        return call(loss, both.data, draws, options)

    parameters = {of_factor("log_alpha", factor): leaf for factor, leaf in by_factor.items()}
    compare(loss, both, wanted, plain, parameters, run, tolerance)


def temperatures(loss: LossModule, kind: str) -> dict[str, Tensor]:
    """The reference's parameters, by factor."""
    live = {factor: getattr(loss, of_factor("log_alpha", factor)) for factor in factors_of(kind)}
    return {factor: each.detach().clone().requires_grad_() for factor, each in live.items()}


def make_draw(*batch: int, actions: int = NUM_ACTIONS) -> Draw:
    waiting = torch.empty(*batch, actions).double().exponential_()
    return Draw(torch.randn(*batch, ACTION_DIM).double(), waiting)


def call(loss: LossModule, data: TensorDict, draws: list[Draw], options: dict[str, Any]):
    """The loss, with the noise of its draws put in: the draw at s' comes first."""
    is_boxed, sampled = not isinstance(loss, DiscreteSACLoss), options.get("discrete_entropy")
    NoisyTanhGaussian.queue = [each.noise for each in draws if is_boxed]
    queue = [each.waiting_times for each in draws if sampled == "sampled"]
    with waiting_times(queue):
        out = loss(data)
    assert not NoisyTanhGaussian.queue
    assert not queue
    return out


def check_running_mean(kind: str, **options) -> None:
    """Entropy rewards centered by the mean of both states' log-probabilities, in three calls."""
    torch.manual_seed(0)
    loss = make_loss(kind, normalize_entropy_reward=True, alpha_init=0.3, **options)
    actions = NUM_ACTIONS if kind in DISCRETE_KINDS else 1
    plain, o = plain_weights(loss), reference_options(loss, kind, options, actions=actions)
    parameters = temperatures(loss, kind)
    means = dict.fromkeys(o.alpha, 0.0)
    for count in range(1, 4):
        data = make_data(kind, 6)
        draw, next_draw = make_draw(6), make_draw(6)
        here = act(plain, data["observation"], draw, o)
        there = act(plain, data["next", "observation"], next_draw, o)
        for factor in means:
            both = torch.cat([here.log_pi[factor], there.log_pi[factor]]).mean().item()
            means[factor] += 8 / (7 + count) * (both - means[factor])
        o.log_prob_mean = dict(means)
        wanted = losses(plain, parameters, plain_data(data), draw, next_draw, o)
        out = call(loss, data, [next_draw, draw], options)
        assert_close(data["td_error"], wanted.pop("td_error"))
        for name, each in wanted.items():
            assert_close(out[name], each.mean())
