"""The acting policy of every kind of loss, on observations of three numbers."""

from collections.abc import Callable
from typing import Any

import torch
from tensordict.nn import TensorDictModuleBase

from rlkit_sac.modules import (
    ObservationNormalizer,
    StochasticDuelingNetwork,
    action_value_critic,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    hybrid_critic,
    state_action_critic,
    state_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ACERLoss, ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss

BOX: Any = {"action_low": [-1.0], "action_high": [1.0]}
CELLS: Any = {"num_cells": [8, 8]}


def continuous(dim: int, **options: Any) -> ContinuousSACLoss:
    actor = tanh_gaussian_actor(dim, **BOX, **CELLS)
    return ContinuousSACLoss(actor, state_action_critic(dim, 1), **options)


def discrete(dim: int, *, num_actions: int = 2, **options: Any) -> DiscreteSACLoss:
    return DiscreteSACLoss(action_value_critic(dim, num_actions, **CELLS), **options)


def hybrid(dim: int, *, low: Any = (-1.0,), num_actions: int = 2, **options: Any) -> HybridSACLoss:
    key, high = ("action", "continuous"), [-bound for bound in low]
    actor = tanh_gaussian_actor(dim, low, high, **CELLS, action_key=key)
    critic = hybrid_critic(dim, len(low), num_actions, **CELLS)
    return HybridSACLoss(actor, critic, alpha_init=(0.3, 0.4), **options)


def with_actor(dim: int) -> DiscreteSACLoss:
    return discrete(dim, actor_network=categorical_actor(dim, 2, **CELLS))


def with_wide_critics(dim: int) -> HybridSACLoss:
    """Networks of different shapes, layer normalization, dropout, and the mean of three."""
    actor = tanh_gaussian_actor(dim, **BOX, num_cells=[5], action_key=("action", "continuous"))
    critic = hybrid_critic(dim, 1, 2, num_cells=[9], layer_norm=True, dropout=0.5)
    options: Any = {"num_qvalue_nets": 3, "policy_reduction": "mean", "max_alpha": (0.2, None)}
    return HybridSACLoss(actor, critic, alpha_parametrization="direct", **options)


def masked(dim: int, **critic: Any) -> HybridSACLoss:
    """Critics that read the parameters of their own action alone, in their last layer."""
    memory = critic.get("memory")
    actor = tanh_gaussian_actor(
        dim, **BOX, **CELLS, action_key=("action", "continuous"), memory=memory
    )
    critics = hybrid_critic(dim, 1, 2, **CELLS, action_layer="last", **critic)
    return HybridSACLoss(actor, critics, parameter_mask=[[True], [False]], mask_critics=True)


def gaussian_behavior(dim: int, **options: Any) -> ACERLoss:
    critic = StochasticDuelingNetwork(state_critic(dim), state_action_critic(dim, 1))
    return ACERLoss(gaussian_actor(dim, 1, **CELLS), critic, **options)


KINDS: dict[str, Callable[[int], Any]] = {
    "tanh-Gaussian": continuous,
    "categorical": with_actor,
    "boltzmann": discrete,
    "one critic": lambda dim: discrete(dim, num_qvalue_nets=1),
    "hybrid": hybrid,
    "wide critics": with_wide_critics,
    "masked critics": masked,
    "categorical behavior": lambda dim: ACERLoss(
        categorical_actor(dim, 2, **CELLS), action_value_critic(dim, 2)
    ),
    "gaussian behavior": gaussian_behavior,
    "shared trunk": lambda dim: ACERLoss(actor_critic=categorical_actor_critic(dim, 2, **CELLS)),
    "normalized": lambda dim: continuous(dim, observation_normalizer=ObservationNormalizer(dim)),
    "normalized behavior": lambda dim: gaussian_behavior(
        dim, observation_normalizer=ObservationNormalizer(dim)
    ),
    "normalized hybrid": lambda dim: hybrid(
        dim, observation_normalizer=ObservationNormalizer(dim, clip=2.0)
    ),
}


def _memory(kind: str, **sizes: int) -> Any:
    return {"kind": kind, "size": 6, **sizes}


def _recurrent(dim: int) -> ContinuousSACLoss:
    memory = _memory("gru", action_dim=1)
    actor = tanh_gaussian_actor(dim, **BOX, **CELLS, memory=memory)
    normalizer = ObservationNormalizer(dim)
    critic = state_action_critic(dim, 1, memory=memory)
    return ContinuousSACLoss(actor, critic, observation_normalizer=normalizer)


def _recurrent_actor(dim: int) -> DiscreteSACLoss:
    memory = _memory("lstm", layers=2, num_actions=2)
    actor = categorical_actor(dim, 2, **CELLS, memory=memory)
    return DiscreteSACLoss(action_value_critic(dim, 2, memory=memory), actor)


def _recurrent_hybrid(dim: int) -> HybridSACLoss:
    memory, key = _memory("lstm", action_dim=1, num_actions=2), ("action", "continuous")
    actor = tanh_gaussian_actor(dim, **BOX, **CELLS, action_key=key, memory=memory)
    return HybridSACLoss(actor, hybrid_critic(dim, 1, 2, **CELLS, memory=memory))


#: Losses whose policies have a memory.
RECURRENT: dict[str, Callable[[int], Any]] = {
    "normalized GRU": _recurrent,
    "two layers of LSTM": _recurrent_actor,
    "boltzmann GRU": lambda dim: DiscreteSACLoss(
        action_value_critic(dim, 2, **CELLS, memory=_memory("gru", num_actions=2))
    ),
    "hybrid LSTM": _recurrent_hybrid,
    "masked critics, GRU": lambda dim: masked(
        dim, memory=_memory("gru", action_dim=1, num_actions=2)
    ),
}


def make_policy(kind: str, observation_dim: int = 3) -> TensorDictModuleBase:
    """The policy of a loss of this kind."""
    return (KINDS | RECURRENT)[kind](observation_dim).policy()


def random_state(policy: TensorDictModuleBase) -> None:
    """Draw all weights, and let normalizers have seen something."""
    for each in policy.modules():
        if isinstance(each, ObservationNormalizer):
            each.update(3 * torch.randn(50, each.observation_dim) + 1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
