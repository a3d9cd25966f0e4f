"""Actors and critics on one trunk."""

from collections.abc import Sequence

from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.modules import MLP, ActorValueOperator

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.activations import activation_class
from rlkit_sac.modules.actors import (
    GaussianHead,
    LogStdMode,
    categorical_policy,
    gaussian_policy,
)
from rlkit_sac.modules.dueling import Sampler, StochasticDuelingNetwork, draw_samples
from rlkit_sac.modules.perceptron import perceptron


def categorical_actor_critic(
    observation_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
) -> ActorValueOperator:
    """One trunk with a categorical policy and the value of each action as its linear heads.

    Reads ``observation`` ``[*, observation_dim]``; writes ``hidden``, ``logits`` and
    ``action_value`` ``[*, num_actions]``, and ``action``, an index int64 ``[*]``.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        num_cells: widths of the trunk's layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.

    Raises:
        ConfigError: for an unknown activation, or a trunk without layers.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> both = categorical_actor_critic(3, 2)
    >>> both(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    trunk = _trunk(observation_dim, num_cells, activation)
    width = num_cells[-1]
    policy = categorical_policy(nn.Linear(width, num_actions), num_actions, "hidden")
    critic = TensorDictModule(nn.Linear(width, num_actions), ["hidden"], ["action_value"])
    return ActorValueOperator(trunk, policy, critic)


def gaussian_actor_critic(
    observation_dim: int,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    log_std_mode: LogStdMode = "clipped_exp",
    log_std_min: float = -20.0,
    log_std_max: float = 2.0,
    num_samples: int = 5,
    sampler: Sampler = draw_samples,
) -> ActorValueOperator:
    """One trunk with a Gaussian policy and a stochastic dueling network as its heads.

    Policy and V are linear in the trunk's output; A has one hidden layer, as wide as it.

    Reads ``observation`` ``[*, observation_dim]``; writes ``hidden``, ``loc``, ``scale`` and
    ``action`` ``[*, action_dim]``, ``state_value`` and ``state_action_value`` ``[*, 1]``.

    Args:
        observation_dim: length of the observation.
        action_dim: length D of the action.
        num_cells: widths of the trunk's layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        log_std_mode: see :class:`~rlkit_sac.modules.GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        num_samples: see :class:`~rlkit_sac.modules.StochasticDuelingNetwork`.
        sampler: see :class:`~rlkit_sac.modules.StochasticDuelingNetwork`.

    Raises:
        ConfigError: for an unknown option, or a trunk without layers.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> both = gaussian_actor_critic(3, 1)
    >>> both(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["state_value"].shape
    torch.Size([5, 1])
    """
    trunk = _trunk(observation_dim, num_cells, activation)
    width = num_cells[-1]
    head = GaussianHead(log_std_mode, log_std_min, log_std_max)
    policy = gaussian_policy(
        nn.Sequential(nn.Linear(width, 2 * action_dim), head), action_dim, "hidden"
    )
    advantage = perceptron(width + action_dim, 1, [width], activation)
    critic = StochasticDuelingNetwork(
        TensorDictModule(nn.Linear(width, 1), ["hidden"], ["state_value"]),
        TensorDictModule(advantage, ["hidden", "action"], ["advantage"]),
        num_samples,
        sampler=sampler,
    )
    return ActorValueOperator(trunk, policy, critic)


def _trunk(observation_dim: int, num_cells: Sequence[int], activation: str) -> TensorDictModule:
    if not num_cells:
        raise ConfigError("num_cells is empty: a trunk needs at least one layer")
    network = MLP(
        in_features=observation_dim,
        out_features=num_cells[-1],
        num_cells=list(num_cells[:-1]),
        activation_class=activation_class(activation),
        activate_last_layer=True,
    )
    return TensorDictModule(network, ["observation"], ["hidden"])
