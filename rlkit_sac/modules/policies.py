"""Builders of acting policies without losses and targets, such as a checkpoint is loaded into."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictParams, TensorDictSequential

from rlkit_sac.functional.sac import CriticReduction
from rlkit_sac.modules.actors import (
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    policy_operator,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.behavior import BehaviorPolicy
from rlkit_sac.modules.boltzmann import BoltzmannPolicy
from rlkit_sac.modules.critics import action_value_critic, hybrid_critic
from rlkit_sac.modules.recurrent import MemoryOptions
from rlkit_sac.modules.temperature import AlphaParametrization, Temperature


def boltzmann_policy(
    observation_dim: int,
    num_actions: int,
    *,
    critic_layer_norm: bool = False,
    critic_dropout: float = 0.0,
    num_qvalue_nets: int = 2,
    policy_reduction: CriticReduction = "min",
    alpha_parametrization: AlphaParametrization = "log",
    min_alpha: float | None = None,
    max_alpha: float | None = None,
    **options: Any,
) -> BoltzmannPolicy:
    """The policy of a discrete loss without actor, built from JSON values.

    It takes the state dict of ``policy()`` of a loss whose critics are
    :func:`~rlkit_sac.modules.action_value_critic` of the same sizes.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        critic_layer_norm: ``layer_norm`` of the critics.
        critic_dropout: ``dropout`` of the critics, which does not act here.
        num_qvalue_nets: number of critics.
        policy_reduction: as in the loss.
        alpha_parametrization: as in the loss.
        min_alpha: as in the loss.
        max_alpha: as in the loss.
        **options: of :func:`~rlkit_sac.modules.action_value_critic`: ``num_cells``,
            ``activation``, ``reward_dim``, ``memory``.

    Raises:
        ConfigError: for an unknown option.

    >>> boltzmann_policy(3, 2).in_keys
    ['observation']
    """
    critic = action_value_critic(
        observation_dim,
        num_actions,
        layer_norm=critic_layer_norm,
        dropout=critic_dropout,
        **options,
    )
    alpha = asdict(Temperature(alpha_parametrization, min_alpha, max_alpha))
    return boltzmann_of_critic(critic, num_qvalue_nets, **alpha, reduction=policy_reduction)


def hybrid_policy(
    observation_dim: int,
    action_low: Sequence[float],
    action_high: Sequence[float],
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    reward_dim: int = 1,
    critic_layer_norm: bool = False,
    critic_dropout: float = 0.0,
    num_qvalue_nets: int = 2,
    policy_reduction: CriticReduction = "min",
    alpha_parametrization: AlphaParametrization = "log",
    min_alpha: float | None = None,
    max_alpha: float | None = None,
    memory: MemoryOptions | None = None,
    **options: Any,
) -> TensorDictSequential:
    """The policy of a hybrid loss, built from JSON values.

    It takes the state dict of ``policy()`` of a loss without ``mask_critics``, made of
    :func:`~rlkit_sac.modules.tanh_gaussian_actor` and :func:`~rlkit_sac.modules.hybrid_critic`
    of the same sizes.

    Args:
        observation_dim: length of the observation.
        action_low: lower bounds, one for each continuous dimension.
        action_high: upper bounds.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers, in actor and critics.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        reward_dim: number of reward dimensions.
        critic_layer_norm: ``layer_norm`` of the critics.
        critic_dropout: ``dropout`` of the critics, which does not act here.
        num_qvalue_nets: number of critics.
        policy_reduction: as in the loss.
        alpha_parametrization: that of the discrete temperature.
        min_alpha: that of the discrete temperature.
        max_alpha: that of the discrete temperature.
        memory: of the actor and of each critic.
        **options: of :func:`~rlkit_sac.modules.tanh_gaussian_actor`: ``log_std_mode``,
            ``log_std_min``, ``log_std_max``.

    Raises:
        ConfigError: for an unknown option or bounds that are not usable.

    >>> hybrid_policy(3, [-1.0], [1.0], 2).out_keys
    ['loc', 'scale', ('action', 'continuous'), ('action', 'discrete')]
    """
    actor = tanh_gaussian_actor(
        observation_dim,
        action_low,
        action_high,
        num_cells=num_cells,
        activation=activation,
        action_key=("action", "continuous"),
        memory=memory,
        **options,
    )
    critic = hybrid_critic(
        observation_dim,
        len(action_low),
        num_actions,
        num_cells=num_cells,
        activation=activation,
        layer_norm=critic_layer_norm,
        dropout=critic_dropout,
        reward_dim=reward_dim,
        memory=memory,
    )
    alpha = asdict(Temperature(alpha_parametrization, min_alpha, max_alpha))
    options = {"reduction": policy_reduction, "action_key": ("action", "discrete")}
    discrete = boltzmann_of_critic(critic, num_qvalue_nets, **alpha, **options)
    return TensorDictSequential(actor, discrete)


def categorical_behavior_policy(
    observation_dim: int, num_actions: int, *, shared_trunk: bool = False, **options: Any
) -> BehaviorPolicy:
    """The policy of ACER over discrete actions, built from JSON values.

    It takes the state dict of ``policy()`` of a loss made with the same arguments.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        shared_trunk: whether the actor was one of two heads.
        **options: of :func:`~rlkit_sac.modules.categorical_actor`, or with a shared trunk of
            :func:`~rlkit_sac.modules.categorical_actor_critic`: ``num_cells``, ``activation``,
            ``memory``.

    Raises:
        ConfigError: for an unknown activation, or a trunk without layers.

    >>> categorical_behavior_policy(3, 2).out_keys
    ['action', ('behavior', 'logits')]
    """
    if not shared_trunk:
        return BehaviorPolicy(categorical_actor(observation_dim, num_actions, **options))
    both = categorical_actor_critic(observation_dim, num_actions, **options)
    return BehaviorPolicy(policy_operator(both))


def gaussian_behavior_policy(
    observation_dim: int, action_dim: int, *, shared_trunk: bool = False, **options: Any
) -> BehaviorPolicy:
    """The policy of ACER over continuous actions, built from JSON values.

    It takes the state dict of ``policy()`` of a loss made with the same arguments.

    Args:
        observation_dim: length of the observation.
        action_dim: length D of the action.
        shared_trunk: whether the actor was one of two heads.
        **options: of :func:`~rlkit_sac.modules.gaussian_actor`, or with a shared trunk of
            :func:`~rlkit_sac.modules.gaussian_actor_critic`: ``num_cells``, ``activation``,
            ``log_std_mode``, ``log_std_min``, ``log_std_max``, ``memory``.

    Raises:
        ConfigError: for an unknown option, or a trunk without layers.

    >>> gaussian_behavior_policy(3, 1).out_keys
    ['action', ('behavior', 'loc'), ('behavior', 'scale')]
    """
    if not shared_trunk:
        return BehaviorPolicy(gaussian_actor(observation_dim, action_dim, **options))
    both = gaussian_actor_critic(observation_dim, action_dim, **options)
    return BehaviorPolicy(policy_operator(both))


def boltzmann_of_critic(
    critic: TensorDictModule,
    num_qvalue_nets: int,
    *,
    mode: Any,
    minimum: Any,
    maximum: Any,
    **options: Any,
) -> BoltzmannPolicy:
    """A Boltzmann policy of critics that are all like one.

    Args:
        critic: reads a state and writes values of discrete actions; becomes the stack of critics.
        num_qvalue_nets: their number.
        mode: parametrization of the temperature, as for ``Temperature``.
        minimum: its lower limit.
        maximum: its upper limit.
        **options: as for :class:`~rlkit_sac.modules.BoltzmannPolicy`.
    """
    weights = TensorDict.from_module(critic).data.expand(num_qvalue_nets).clone()
    TensorDictParams(weights).to_module(critic, preserve_module_state=False)
    temperature = Temperature(mode, minimum, maximum)
    log_alpha = torch.tensor(temperature.initial_parameter(1.0))
    return BoltzmannPolicy(critic, log_alpha, temperature, **options)
