"""Soft actor-critic with a value network written once more, from the formulas, in float64."""

import torch
from torch import Tensor

from tests.objectives.networks import Weights
from tests.objectives.references import (
    Options,
    act,
    actor_loss,
    alpha_loss,
    distance,
    for_policy,
    returns,
    scalarize,
    value,
)


def state_value(weights: Weights, obs: Tensor, prefix: str = "v") -> Tensor:
    hidden = torch.tanh(obs @ weights[f"{prefix}.w1"].T + weights[f"{prefix}.b1"])
    return hidden @ weights[f"{prefix}.w2"].T + weights[f"{prefix}.b2"]


def value_losses(
    weights: Weights,
    parameter: Tensor,
    data: dict[str, Tensor],
    noise: Tensor,
    next_noise: Tensor,
    critics: int,
    o: Options,
) -> dict[str, Tensor]:
    """Every loss of every step, and the priority."""

    def bonus(obs: Tensor, n: Tensor) -> Tensor:
        log_prob = act(weights, obs, n, o)[1]
        return -o.alpha * (log_prob - o.log_prob_mean) if o.use_entropy_reward else 0 * log_prob

    with torch.no_grad():
        next_v = state_value(weights, data["next_obs"], "target_v")
        y = returns(next_v, bonus(data["next_obs"], next_noise), data, o)
        action = act(weights, data["obs"], noise, o)[0]
        drawn = [value(weights, i, data["obs"], action) for i in range(critics)]
        reduced = for_policy(drawn, o.policy_reduction, o.reward_weights)
        v_target = reduced + bonus(data["obs"], noise)[..., None]
    q = [value(weights, i, data["obs"], data["action"]) for i in range(critics)]
    v = state_value(weights, data["obs"])
    out = {
        "loss_qvalue": o.qvalue_coef
        * sum(distance(each - y, o.loss_function).mean(-1) for each in q),
        "loss_value": distance(v - v_target, o.loss_function).mean(-1),
        "td_error": sum(((each - y) ** 2).mean(-1) for each in q).sqrt().detach(),
    }
    here, after = (data["obs"], noise), (data["next_obs"], next_noise)
    places = {"first": [here], "next": [after], "all": [here, after]}[o.policy_loss_steps]
    out["loss_actor"] = sum(
        actor_loss(weights, obs, n, critics, o)
        + scalarize(state_value(weights, obs).detach(), o.reward_weights)
        for obs, n in places
    )
    out["loss_alpha"] = sum(
        alpha_loss(parameter, act(weights, obs, n, o)[1], o) for obs, n in places
    )
    return out
