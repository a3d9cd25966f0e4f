"""Checks of the networks of a loss."""

from __future__ import annotations

from tensordict import NestedKey
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlkit_sac.errors import ConfigError


def actor_keys(actor: TensorDictModuleBase) -> tuple[NestedKey, NestedKey]:
    """The keys under which an actor writes its action and its log-probability.

    Raises:
        ConfigError: for a module that is not a probabilistic actor, or an actor of several actions.
    """
    if not hasattr(actor, "get_dist"):
        raise ConfigError(
            f"actor_network is a {type(actor).__name__} without get_dist(): pass a TorchRL "
            "ProbabilisticActor"
        )
    if len(actor.dist_sample_keys) > 1:
        raise ConfigError(
            f"actor_network writes several actions, {actor.dist_sample_keys}: the losses take an "
            "actor of one action, HybridSACLoss that of the continuous one"
        )
    return actor.dist_sample_keys[0], actor.log_prob_keys[0]


def refuse_batch_norm(network: nn.Module, name: str) -> None:
    """Refuse a network whose layers keep running statistics of their inputs.

    Target updaters track parameters, not buffers: the statistics of a target critic would never be
    updated, and forward passes at next states would update those of the other networks.

    Args:
        network: an actor or a critic.
        name: of the network in the error.

    Raises:
        ConfigError: naming the layer.
    """
    for path, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"{name} has a {type(module).__name__} at {path!r}, whose running statistics no "
                "target network follows: use LayerNorm, or track_running_stats=False"
            )
