"""Soft actor-critic written once more, from the formulas, in plain float64 PyTorch.

Nothing of the package is used here: explicit weights, explicit noise, one formula after the other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.objectives.networks import ACTION_DIM, Weights


@dataclass
class Options:
    """The options of the loss under the names of its arguments."""

    gamma: float = 0.99
    lmbda: float = 0.0
    loss_function: str = "l2"
    qvalue_coef: float = 1.0
    reward_scale: float = 1.0
    reward_weights: list[float] | None = None
    alpha: float = 1.0
    fixed_alpha: bool = False
    alpha_parametrization: str = "log"
    target_entropy: float = 0.0
    dqda_clipping: float | None = None
    use_entropy_reward: bool = True
    log_prob_mean: float = 0.0
    policy_loss_steps: str = "first"
    policy_reduction: str = "min"
    atoms: int | None = None
    low: list[float] = field(default_factory=lambda: [-1.0] * ACTION_DIM)
    high: list[float] = field(default_factory=lambda: [1.0] * ACTION_DIM)
    log_prior: Callable[[Tensor, Tensor], Tensor] | None = None  # of a state and an action


def act(weights: Weights, obs: Tensor, noise: Tensor, options: Options) -> tuple[Tensor, Tensor]:
    """Action and log-density of the squashed Gaussian, by the change of variables.

    With a prior the log-density is relative to it.
    """
    hidden = torch.tanh(obs @ weights["actor.w1"].T + weights["actor.b1"])
    out = hidden @ weights["actor.w2"].T + weights["actor.b2"]
    mu, log_sigma = out[..., :ACTION_DIM], out[..., ACTION_DIM:].clamp(-20, 2)
    sigma = log_sigma.exp()
    u = mu + sigma * noise
    low, high = (torch.tensor(x, dtype=torch.float64) for x in (options.low, options.high))
    half = (high - low) / 2
    action = (high + low) / 2 + half * torch.tanh(u)
    density = -((u - mu) ** 2) / (2 * sigma**2) - log_sigma - 0.5 * math.log(2 * math.pi)
    slope = half * (1 - torch.tanh(u) ** 2)
    log_prob = (density - slope.log()).sum(-1)
    return action, log_prob if options.log_prior is None else log_prob - options.log_prior(
        obs, action
    )


def output(weights: Weights, critic: int, obs: Tensor, action: Tensor, prefix: str = "q") -> Tensor:
    x = torch.cat([obs, action], -1)
    name = f"{prefix}{critic}"
    hidden = torch.tanh(x @ weights[f"{name}.w1"].T + weights[f"{name}.b1"])
    return hidden @ weights[f"{name}.w2"].T + weights[f"{name}.b2"]


def value(
    weights: Weights, critic: int, obs: Tensor, action: Tensor, prefix: str = "q", atoms=None
) -> Tensor:
    found = output(weights, critic, obs, action, prefix)
    return found if atoms is None else mean_of(found)


def atoms(count: int) -> Tensor:
    return torch.tensor([-5 + 10 * j / (count - 1) for j in range(count)], dtype=torch.float64)


def mean_of(logits: Tensor) -> Tensor:
    return (torch.softmax(logits, -1) * atoms(logits.shape[-1])).sum(-1, keepdim=True)


def cross_entropy(logits: Tensor, values: Tensor, shares: Tensor) -> Tensor:
    """To a distribution over values ``[*, J]``, spread over the atoms by a triangular kernel."""
    z = atoms(logits.shape[-1])
    away = (values.clamp(-5, 5)[..., None] - z).abs() / (z[1] - z[0])
    target = (shares[..., None] * (1 - away).clamp(min=0)).sum(-2)
    return -(target * (logits - logits.logsumexp(-1, keepdim=True))).sum(-1)


def lower(distributions: list[Tensor]) -> Tensor:
    """The probabilities of the critic with the smallest mean, for each place ``[*]`` by itself."""
    chosen = distributions[0].clone()
    best = mean_of(chosen).clone()
    for each in distributions[1:]:
        less = mean_of(each) < best
        chosen, best = torch.where(less, each, chosen), torch.where(less, mean_of(each), best)
    return torch.softmax(chosen, -1)


def pessimistic(values: list[Tensor], reward_weights: list[float] | None) -> Tensor:
    """For each reward dimension the worst of the critics."""
    dims = []
    for m in range(values[0].shape[-1]):
        each = torch.stack([v[..., m] for v in values])
        negative = reward_weights is not None and reward_weights[m] < 0
        dims.append(each.max(0).values if negative else each.min(0).values)
    return torch.stack(dims, -1)


def for_policy(values: list[Tensor], kind: str, reward_weights: list[float] | None) -> Tensor:
    """What the policy goes by: the worst of the critics, or their mean."""
    return sum(values) / len(values) if kind == "mean" else pessimistic(values, reward_weights)


def scalarize(v: Tensor, reward_weights: list[float] | None) -> Tensor:
    total = torch.zeros_like(v[..., 0])
    for m in range(v.shape[-1]):
        total = total + (1.0 if reward_weights is None else reward_weights[m]) * v[..., m]
    return total


def distance(difference: Tensor, kind: str) -> Tensor:
    if kind == "l2":
        return difference**2
    if kind == "l1":
        return difference.abs()
    small = difference.abs() < 1
    return torch.where(small, 0.5 * difference**2, difference.abs() - 0.5)


def targets(weights: Weights, data: dict[str, Tensor], noise: Tensor, critics: int, o: Options):
    """Targets ``[*, M]`` without gradient and ones, or values of a return and their shares."""
    with torch.no_grad():
        action, log_prob = act(weights, data["next_obs"], noise, o)
        next_obs = data["next_obs"]
        q = [value(weights, i, next_obs, action, "target_q", o.atoms) for i in range(critics)]
        bonus = -o.alpha * (log_prob - o.log_prob_mean) if o.use_entropy_reward else 0 * log_prob
        if o.atoms is not None and o.lmbda == 0:
            logits = [output(weights, i, next_obs, action, "target_q") for i in range(critics)]
            return returns(atoms(o.atoms) + bonus[..., None], bonus, data, o), lower(logits)
        y = returns(pessimistic(q, o.reward_weights) + bonus[..., None], bonus, data, o)
        return y, torch.ones_like(y)


def returns(v: Tensor, bonus: Tensor, data: dict[str, Tensor], o: Options) -> Tensor:
    """From values ``[*, M]`` of the next states, and the entropy bonus in them, to targets."""
    reward = o.reward_scale * data["reward"]
    go_on = 1.0 - data["terminated"].double()
    if o.lmbda == 0:
        steps = data["steps"].double().unsqueeze(-1) if "steps" in data else 1
        discount = o.gamma**steps
        return reward + discount * go_on * v
    result = torch.zeros_like(v)
    rows, steps = v.shape[0], v.shape[1]
    for b in range(rows):
        for t in reversed(range(steps)):
            follows = t + 1 < steps and not bool(data["done"][b, t])
            if follows and "mask" in data:
                follows = bool(data["mask"][b, t + 1])
            bracket = v[b, t]
            if follows:
                bracket = (1 - o.lmbda) * v[b, t] + o.lmbda * (result[b, t + 1] + bonus[b, t])
            result[b, t] = reward[b, t] + o.gamma * go_on[b, t] * bracket
    return result


def actor_loss(weights: Weights, obs: Tensor, noise: Tensor, critics: int, o: Options) -> Tensor:
    """Per step; the gradient clipped by differentiating a linear stand-in for Q."""
    action, log_prob = act(weights, obs, noise, o)

    def q_of(a: Tensor) -> Tensor:
        frozen = {name: w.detach() for name, w in weights.items()}
        q = [value(frozen, i, obs, a, atoms=o.atoms) for i in range(critics)]
        reduced = for_policy(q, o.policy_reduction, o.reward_weights)
        return scalarize(reduced, o.reward_weights)

    if not o.dqda_clipping:
        return o.alpha * log_prob - q_of(action)
    point = action.detach().requires_grad_()
    slope = torch.autograd.grad(q_of(point).sum(), point)[0]
    slope = slope.clamp(-o.dqda_clipping, o.dqda_clipping)
    linear = q_of(action.detach()) + (slope * (action - action.detach())).sum(-1)
    return o.alpha * log_prob - linear


def alpha_loss(parameter: Tensor, log_prob: Tensor, o: Options) -> Tensor:
    excess = -log_prob.detach() - o.target_entropy
    if o.fixed_alpha:
        return 0 * excess
    if o.alpha_parametrization == "exp":
        return parameter.exp() * excess
    return parameter * excess  # log alpha, or alpha itself


def losses(
    weights: Weights,
    parameter: Tensor,
    data: dict[str, Tensor],
    noise: Tensor,
    next_noise: Tensor,
    critics: int,
    o: Options,
) -> dict[str, Tensor]:
    """Every loss of every step, and the priority."""
    y, shares = targets(weights, data, next_noise, critics, o)
    q = [value(weights, i, data["obs"], data["action"], atoms=o.atoms) for i in range(critics)]
    each_loss = [distance(each - y, o.loss_function).mean(-1) for each in q]
    if o.atoms is not None:
        logits = [output(weights, i, data["obs"], data["action"]) for i in range(critics)]
        each_loss = [cross_entropy(each, y, shares) for each in logits]
        y = (shares * y).sum(-1, keepdim=True)
    out = {
        "loss_qvalue": o.qvalue_coef * sum(each_loss),
        "td_error": sum(((each - y) ** 2).mean(-1) for each in q).sqrt().detach(),
    }
    here, after = (data["obs"], noise), (data["next_obs"], next_noise)
    places = {"first": [here], "next": [after], "all": [here, after]}[o.policy_loss_steps]
    out["loss_actor"] = sum(actor_loss(weights, obs, n, critics, o) for obs, n in places)
    out["loss_alpha"] = sum(
        alpha_loss(parameter, act(weights, obs, n, o)[1], o) for obs, n in places
    )
    return out
