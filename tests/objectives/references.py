"""Soft actor-critic from the formulas, in plain float64 PyTorch.

Nothing of the package is used here: explicit weights, explicit noise, and every expectation over
discrete actions is a Python sum. A continuous action is a hybrid one whose discrete part has one
value, and so neither an entropy nor a temperature.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.objectives.networks import ACTION_DIM, Weights


@dataclass
class Options:
    """Options of a loss; those of a temperature by the name of its factor."""

    kind: str  # "continuous", "value" (with a value network), "boltzmann", "categorical", "hybrid"
    actions: int = 1
    critics: int = 2
    gamma: float = 0.99
    lmbda: float = 0.0
    loss_function: str = "l2"
    qvalue_coef: float = 1.0
    reward_scale: float = 1.0
    reward_weights: list[float] | None = None
    dqda_clipping: float | None = None
    use_entropy_reward: bool = True
    policy_loss_steps: str = "first"
    policy_reduction: str = "min"
    atoms: int | None = None
    discrete_entropy: str = "expected"
    parameter_mask: list[list[int]] | None = None
    mask_entropy: bool = True
    mask_critics: bool = False
    target_members: list[int] | None = None
    low: list[float] = field(default_factory=lambda: [-1.0] * ACTION_DIM)
    high: list[float] = field(default_factory=lambda: [1.0] * ACTION_DIM)
    # Of a critic's weights and inputs, in place of the small network below: its flat outputs.
    network: Callable[[Weights, Tensor, Tensor], Tensor] | None = None
    alpha: dict[str, float] = field(default_factory=dict)
    mode: dict[str, str] = field(default_factory=dict)
    target_entropy: dict[str, float | None] = field(default_factory=dict)
    log_prob_mean: dict[str, float] = field(default_factory=dict)
    # Of a state and a continuous action: of each dimension, and of each discrete action.
    log_prior_c: Callable[[Tensor, Tensor], Tensor] | None = None
    log_prior_d: Callable[[Tensor, Tensor | None], list[Tensor]] | None = None

    @property
    def discrete(self) -> str | None:
        """The factor of the discrete action."""
        return {"hybrid": "discrete", "boltzmann": "", "categorical": ""}.get(self.kind)

    @property
    def continuous(self) -> str | None:
        """The factor of the continuous action."""
        return {"hybrid": "continuous", "continuous": "", "value": ""}.get(self.kind)


@dataclass
class Draw:
    """Noise of one draw: of the continuous action, and of the discrete one.

    A discrete action is the first to happen of K events with the rates of its probabilities.
    """

    noise: Tensor
    waiting_times: Tensor


def mlp(weights: Weights, name: str, x: Tensor) -> Tensor:
    hidden = torch.tanh(x @ weights[f"{name}.w1"].T + weights[f"{name}.b1"])
    return hidden @ weights[f"{name}.w2"].T + weights[f"{name}.b2"]


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


def action_values(weights: Weights, critic: int, obs, c, o: Options, prefix="q") -> Tensor:
    """``[*, K, M]`` of one critic; with a mask each value is of a pass of its own."""
    if not o.mask_critics:
        return one_pass(weights, critic, obs, c, o, prefix)
    passes = [
        one_pass(weights, critic, obs, c * torch.tensor(row).double(), o, prefix)[..., k, :]
        for k, row in enumerate(o.parameter_mask)
    ]
    return torch.stack(passes, -2)


def one_pass(weights: Weights, critic: int, obs, c, o: Options, prefix: str) -> Tensor:
    name = f"{prefix}{critic}"
    if o.network is not None:
        own = {key[len(name) + 1 :]: w for key, w in weights.items() if key.startswith(f"{name}.")}
        return o.network(own, obs, c).reshape(*obs.shape[:-1], o.actions, -1)
    out = mlp(weights, name, obs if c is None else torch.cat([obs, c], -1))
    return out.reshape(*obs.shape[:-1], o.actions, -1)


def all_values(weights: Weights, obs, c, o: Options, prefix="q") -> list[Tensor]:
    found = all_outputs(weights, obs, c, o, prefix)
    return found if o.atoms is None else [mean_of(each) for each in found]


def all_outputs(weights: Weights, obs, c, o: Options, prefix="q") -> list[Tensor]:
    members = range(o.critics)
    if prefix == "target_q" and o.target_members is not None:
        members = o.target_members
    return [action_values(weights, i, obs, c, o, prefix) for i in members]


def frozen(weights: Weights) -> Weights:
    return {name: w.detach() for name, w in weights.items()}


@dataclass
class Policy:
    """The policy at some states: its continuous sample and its discrete probabilities.

    With a prior ``log_pi`` is relative to it.
    """

    c: Tensor | None
    log_pi: dict[str, Tensor]
    probs: list[Tensor]
    log_probs: list[Tensor]
    share: Tensor | float


def act(weights: Weights, obs: Tensor, draw: Draw, o: Options) -> Policy:
    c, each_log_pi_c = None, None
    if o.continuous is not None:
        c, each_log_pi_c = log_density_of_each(weights, obs, draw.noise, o)
        if o.log_prior_c is not None:
            each_log_pi_c = each_log_pi_c - o.log_prior_c(obs, c)
    log_priors = [torch.zeros(()).double()] * o.actions
    if o.log_prior_d is not None:
        log_priors = [each.detach() for each in o.log_prior_d(obs, c)]
    if o.kind == "categorical":
        logits = mlp(weights, "actor", obs).unbind(-1)
    elif o.discrete is None:
        logits = log_priors
    else:
        with torch.no_grad():
            q = for_policy(all_values(weights, obs, c, o), o.policy_reduction, o.reward_weights)
            total = scalarize(q, o.reward_weights)
            logits = [total[..., k] / o.alpha[o.discrete] + log_priors[k] for k in range(o.actions)]
    log_normalizer = torch.stack(logits).logsumexp(0)
    log_probs = [each - log_normalizer for each in logits]
    probs = [each.exp() for each in log_probs]

    ratios = [log_p - prior for log_p, prior in zip(log_probs, log_priors, strict=True)]
    if o.discrete_entropy == "sampled":
        index = (torch.stack(log_probs, -1) - draw.waiting_times.log()).argmax(-1, keepdim=True)
        chosen = torch.stack(ratios, -1).gather(-1, index).squeeze(-1)
    else:
        chosen = sum(p * ratio for p, ratio in zip(probs, ratios, strict=True))
    log_pi, share = {} if o.discrete is None else {o.discrete: chosen}, 1.0
    if o.continuous is not None:
        use = [torch.ones(()).double()] * ACTION_DIM
        if o.parameter_mask is not None and o.mask_entropy:
            use = [
                sum(probs[k].detach() * o.parameter_mask[k][j] for k in range(o.actions))
                for j in range(ACTION_DIM)
            ]
            share = sum(use) / ACTION_DIM
        log_pi[o.continuous] = sum(u * each_log_pi_c[..., j] for j, u in enumerate(use))
    return Policy(c, log_pi, probs, log_probs, share)


def log_density_of_each(
    weights: Weights, obs: Tensor, noise: Tensor, o: Options
) -> tuple[Tensor, Tensor]:
    """The action, and its log-density one dimension after the other, by change of variables."""
    out = mlp(weights, "actor", obs)
    mu, log_sigma = out[..., :ACTION_DIM], out[..., ACTION_DIM:].clamp(-20, 2)
    u = mu + log_sigma.exp() * noise
    density = -0.5 * ((u - mu) / log_sigma.exp()) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
    log_cosh = torch.logaddexp(u, -u) - math.log(2)  # 1 - tanh^2 = 1 / cosh^2
    low, high = (torch.tensor(x, dtype=torch.float64) for x in (o.low, o.high))
    half = (high - low) / 2
    return (high + low) / 2 + half * torch.tanh(u), density + 2 * log_cosh - half.log()


def entropy_bonus(policy: Policy, o: Options) -> Tensor:
    bonus = torch.zeros_like(next(iter(policy.log_pi.values())))
    if o.use_entropy_reward:
        for factor, log_pi in policy.log_pi.items():
            bonus = bonus - o.alpha[factor] * (log_pi - o.log_prob_mean.get(factor, 0.0))
    return bonus


def targets(weights: Weights, data: dict, draw: Draw, o: Options) -> tuple[Tensor, Tensor]:
    """Targets ``[*, M]`` without gradient and ones, or values of a return and their shares."""
    with torch.no_grad():
        policy = act(weights, data["next_obs"], draw, o)
        bonus = entropy_bonus(policy, o)
        if o.kind == "value":
            v = mlp(weights, "target_v", data["next_obs"])
            return returns(v, bonus, data, o), torch.ones_like(v)
        q = pessimistic(
            all_values(weights, data["next_obs"], policy.c, o, "target_q"), o.reward_weights
        )
        expected = sum(p.unsqueeze(-1) * q[..., k, :] for k, p in enumerate(policy.probs))
        v, shares = expected + bonus[..., None], torch.ones_like(expected)
        if o.atoms is not None and o.lmbda == 0:
            chosen = lower(all_outputs(weights, data["next_obs"], policy.c, o, "target_q"))
            shares = sum(p.unsqueeze(-1) * chosen[..., k, :] for k, p in enumerate(policy.probs))
            v = atoms(o.atoms) + bonus[..., None]
        return returns(v, bonus, data, o), shares


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


def actor_loss(weights: Weights, obs: Tensor, draw: Draw, o: Options) -> Tensor:
    policy = act(weights, obs, draw, o)
    still = frozen(weights)

    def weighed(c: Tensor | None) -> Tensor:
        q = for_policy(all_values(still, obs, c, o), o.policy_reduction, o.reward_weights)
        return scalarize(q, o.reward_weights)

    if o.kind == "categorical":
        q = weighed(None)
        priors = [0.0] * o.actions if o.log_prior_d is None else o.log_prior_d(obs, None)
        return sum(
            p * (o.alpha[""] * (log_p - priors[k]) - q[..., k])
            for k, (p, log_p) in enumerate(zip(policy.probs, policy.log_probs, strict=True))
        )

    def expected(c: Tensor) -> Tensor:
        q = weighed(c)
        return sum(p.detach() * q[..., k] for k, p in enumerate(policy.probs))

    entropy_part = o.alpha[o.continuous] * policy.log_pi[o.continuous]
    if o.log_prior_d is not None:
        alpha, priors = o.alpha["discrete"], o.log_prior_d(obs, policy.c)
        if not o.dqda_clipping:  # the gradient is that of the soft maximum over d
            q = weighed(policy.c)
            terms = [q[..., k] / alpha + prior for k, prior in enumerate(priors)]
            soft = alpha * torch.stack(torch.broadcast_tensors(*terms)).logsumexp(0)
            return entropy_part - soft + (soft - expected(policy.c)).detach()
        share = sum(alpha * policy.probs[k].detach() * prior for k, prior in enumerate(priors))
        entropy_part = entropy_part - (share - share.detach())
    if not o.dqda_clipping:
        return entropy_part - expected(policy.c)
    point = policy.c.detach().requires_grad_()
    slope = torch.autograd.grad(expected(point).sum(), point)[0]
    slope = slope.clamp(-o.dqda_clipping, o.dqda_clipping)
    linear = expected(policy.c.detach()) + (slope * (policy.c - policy.c.detach())).sum(-1)
    return entropy_part - linear


def value_target(weights: Weights, obs: Tensor, draw: Draw, o: Options) -> Tensor:
    """Of the value network, ``[*, M]`` without gradient."""
    with torch.no_grad():
        policy = act(weights, obs, draw, o)
        q = for_policy(all_values(weights, obs, policy.c, o), o.policy_reduction, o.reward_weights)
        return q[..., 0, :] + entropy_bonus(policy, o)[..., None]


def alpha_loss(parameters: dict[str, Tensor], policy: Policy, o: Options) -> Tensor:
    total = torch.zeros_like(next(iter(policy.log_pi.values()))).detach()
    for factor, log_pi in policy.log_pi.items():
        if o.target_entropy[factor] is None:
            continue
        share = policy.share if factor == o.continuous else 1.0
        excess = -log_pi.detach() - o.target_entropy[factor] * share
        parameter = parameters[factor]
        total = total + (parameter.exp() if o.mode[factor] == "exp" else parameter) * excess
    return total


def losses(
    weights: Weights,
    parameters: dict[str, Tensor],
    data: dict,
    draw: Draw,
    next_draw: Draw,
    o: Options,
) -> dict[str, Tensor]:
    """Every loss of every step, and the priority."""
    y, shares = targets(weights, data, next_draw, o)
    index = data["index"][..., None, None]
    found = all_outputs(weights, data["obs"], data.get("continuous"), o)
    q = [each.take_along_dim(index, -2).squeeze(-2) for each in found]
    each_loss = [distance(each - y, o.loss_function).mean(-1) for each in q]
    if o.atoms is not None:
        each_loss = [cross_entropy(each, y, shares) for each in q]
        q, y = [mean_of(each) for each in q], (shares * y).sum(-1, keepdim=True)
    out = {
        "loss_qvalue": o.qvalue_coef * sum(each_loss),
        "td_error": sum(((each - y) ** 2).mean(-1) for each in q).sqrt().detach(),
    }
    here, after = (data["obs"], draw), (data["next_obs"], next_draw)
    places = {"first": [here], "next": [after], "all": [here, after]}[o.policy_loss_steps]
    if o.kind != "boltzmann":
        out["loss_actor"] = sum(actor_loss(weights, obs, n, o) for obs, n in places)
    if o.kind == "value":
        for obs, _ in places:
            v = mlp(weights, "v", obs).detach()
            out["loss_actor"] = out["loss_actor"] + scalarize(v, o.reward_weights)
        error = mlp(weights, "v", data["obs"]) - value_target(weights, data["obs"], draw, o)
        out["loss_value"] = distance(error, o.loss_function).mean(-1)
    out["loss_alpha"] = sum(alpha_loss(parameters, act(weights, obs, n, o), o) for obs, n in places)
    return out
