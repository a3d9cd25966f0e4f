"""Priors for the losses, each beside its formula in plain float64 PyTorch."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.distributions import Normal
from torchrl.data import Bounded, Categorical, Composite

from rlkit_sac.modules import PolicyPrior, SameActionPrior, UniformPrior
from tests.objectives.networks import (
    ACTION_DIM,
    DISCRETE_KINDS,
    LAYERS,
    NUM_ACTIONS,
    Weights,
    make_actor,
    make_loss,
    plain_weights,
)
from tests.objectives.references import Options, all_values, mlp, pessimistic, scalarize

PROB, NOISE = 0.7, 0.15
NAMES = ["uniform", "same action", "policy"]

# Specs of one action in single precision, and of each kind of loss.
BOX, INDEX = Bounded(-1.0, 1.0, (ACTION_DIM,)), Categorical(NUM_ACTIONS)
HYBRID = Composite(continuous=BOX, discrete=INDEX)
SPECS = {"continuous": BOX, "boltzmann": INDEX, "hybrid": HYBRID}


@dataclass
class Before:
    """What a state tells of the step before."""

    continuous: Tensor | None
    discrete: Tensor | None
    is_init: Tensor


@dataclass
class PriorCase:
    """A prior, and its log-densities: of each dimension, and of each discrete action."""

    module: nn.Module
    continuous: Callable[[Tensor, Tensor, Before], Tensor]
    discrete: Callable[[Tensor, Tensor | None, Before], list[Tensor]]


def spec_of(kind: str, actions: int, low=-1.0, high=1.0):
    bounds = (torch.as_tensor(x).double().expand(ACTION_DIM).clone() for x in (low, high))
    box = Bounded(*bounds, (ACTION_DIM,), dtype=torch.float64)
    index = Categorical(actions)
    if kind not in DISCRETE_KINDS:
        return box
    return Composite(continuous=box, discrete=index) if kind == "hybrid" else index


def make_prior(name: str, kind: str, *, actions=NUM_ACTIONS, low=-1.0, high=1.0) -> PriorCase:
    low, high = (torch.as_tensor(x).double().expand(ACTION_DIM) for x in (low, high))
    spec = spec_of(kind, actions, low, high)
    if name == "uniform":
        return PriorCase(
            UniformPrior(spec),
            lambda obs, c, before: -(high - low).log() + 0 * c,
            lambda obs, c, before: (
                [torch.tensor(-math.log(actions), dtype=torch.float64)] * actions
            ),
        )
    if name == "same action":
        return PriorCase(
            SameActionPrior(spec, PROB, NOISE),
            lambda obs, c, before: same_action(c, before, low, high),
            lambda obs, c, before: same_index(actions, before),
        )
    return policy_prior(kind, actions, low, high)


def truncated(x: Tensor, mean: Tensor, sigma: Tensor, low: Tensor, high: Tensor) -> Tensor:
    normal = Normal(mean, sigma)
    return normal.log_prob(x).exp() / (normal.cdf(high) - normal.cdf(low))


def same_action(c: Tensor, before: Before, low: Tensor, high: Tensor) -> Tensor:
    wide = truncated(c, (low + high) / 2, high - low, low, high)
    narrow = truncated(c, before.continuous, NOISE * (high - low), low, high)
    p = PROB * (~before.is_init).double()
    return ((1 - p) * wide + p * narrow).log()


def same_index(actions: int, before: Before) -> list[Tensor]:
    out = []
    for k in range(actions):
        same = (before.discrete == k).double()
        other = (1 - PROB) / (actions - 1) if actions > 1 else 0.0
        p = PROB * same + other * (1 - same) if actions > 1 else same
        first = before.is_init.squeeze(-1).double()
        out.append((first / actions + (1 - first) * p).log())
    return out


def policy_prior(kind: str, actions: int, low: Tensor, high: Tensor) -> PriorCase:
    """A policy of the other sort, where there is a choice, with weights of its own."""
    if kind not in DISCRETE_KINDS:
        actor = make_actor(low=low.tolist(), high=high.tolist())
        plain = {
            f"actor.{short}": actor.state_dict()[f"module.0.module.0.{'.'.join(path)}"]
            for short, path in LAYERS.items()
        }
        return PriorCase(
            PolicyPrior(actor),
            lambda obs, c, before: squashed(plain, obs, c, low, high),
            lambda obs, c, before: [],
        )
    other = {"boltzmann": "categorical", "categorical": "boltzmann", "hybrid": "hybrid"}[kind]
    source = make_loss(other, actions=actions, alpha_init=0.6)
    weights = {name: w.detach() for name, w in plain_weights(source).items()}
    return PriorCase(
        PolicyPrior(source.policy()),
        lambda obs, c, before: squashed(weights, obs, c, low, high),
        lambda obs, c, before: discrete_policy(other, weights, obs, c, actions),
    )


def squashed(plain: Weights, obs: Tensor, c: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Log-density of each dimension of a given action, by inverting tanh."""
    mu, log_sigma = mlp(plain, "actor", obs).chunk(2, -1)
    unit = (2 * c - high - low) / (high - low)
    u = 0.5 * ((1 + unit) / (1 - unit)).log()
    slope = (high - low) / 2 * (1 - unit**2)
    return Normal(mu, log_sigma.exp()).log_prob(u) - slope.log()


def discrete_policy(kind: str, weights: Weights, obs: Tensor, c: Tensor | None, actions: int):
    if kind == "categorical":
        logits = mlp(weights, "actor", obs)
    else:
        o = Options(kind, actions, 2)
        logits = scalarize(pessimistic(all_values(weights, obs, c, o), None), None) / 0.6
    return list((logits - logits.logsumexp(-1, keepdim=True)).unbind(-1))


def add_before(data: TensorDict) -> TensorDict:
    """The batch with the actions of the steps before, and with episodes that begin."""
    action, shape = data["action"], data.batch_size
    order = torch.randperm(shape.numel())
    data["prev_action"] = (
        action.reshape(-1)[order].reshape(shape)
        if isinstance(action, TensorDict)
        else action.flatten(0, len(shape) - 1)[order].reshape(action.shape)
    )
    data["is_init"] = torch.rand(*shape, 1) < 0.3
    return data


def steps_before(data: TensorDict) -> tuple[Before, Before]:
    """What s and s' of a batch tell of the step before."""
    return (
        _before(data["prev_action"], data["is_init"]),
        _before(data["action"], torch.zeros_like(data["is_init"])),
    )


def _before(action, is_init: Tensor) -> Before:
    if isinstance(action, TensorDict):
        return Before(action["continuous"], action["discrete"], is_init)
    continuous = action if action.is_floating_point() else None
    return Before(continuous, None if continuous is not None else action, is_init)


class Probabilities(nn.Module):
    """A prior over discrete actions that is the same in every state."""

    in_keys = ()

    def __init__(self, probs) -> None:
        super().__init__()
        self.probs = torch.tensor(probs, dtype=torch.float64)

    def get_dist(self, tensordict):
        probs = self.probs.expand(*tensordict.batch_size, -1)
        return torch.distributions.Categorical(logits=probs.log())
