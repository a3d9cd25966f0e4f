"""Builders of acting policies without losses and targets, such as a checkpoint is loaded into."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

import torch
from tensordict import TensorDict
from tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictParams,
    TensorDictSequential,
)
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.errors import ConfigError
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
from rlkit_sac.modules.ensemble import structure
from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.modules.notes import Note, note_of
from rlkit_sac.modules.priors.policy import PolicyPrior
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
            ``activation``, ``reward_dim``.

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
    return _boltzmann_policy(critic, num_qvalue_nets, **alpha, reduction=policy_reduction)


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
    **options: Any,
) -> TensorDictSequential:
    """The policy of a hybrid loss, built from JSON values.

    It takes the state dict of ``policy()`` of a loss made of
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
    )
    alpha = asdict(Temperature(alpha_parametrization, min_alpha, max_alpha))
    options = {"reduction": policy_reduction, "action_key": ("action", "discrete")}
    discrete = _boltzmann_policy(critic, num_qvalue_nets, **alpha, **options)
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
            :func:`~rlkit_sac.modules.categorical_actor_critic`: ``num_cells``, ``activation``.

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
            ``log_std_mode``, ``log_std_min``, ``log_std_max``.

    Raises:
        ConfigError: for an unknown option, or a trunk without layers.

    >>> gaussian_behavior_policy(3, 1).out_keys
    ['action', ('behavior', 'loc'), ('behavior', 'scale')]
    """
    if not shared_trunk:
        return BehaviorPolicy(gaussian_actor(observation_dim, action_dim, **options))
    both = gaussian_actor_critic(observation_dim, action_dim, **options)
    return BehaviorPolicy(policy_operator(both))


def build_from_note(note: Note) -> Any:
    """The module that a note describes, on the device ``meta``: shapes without memory.

    It takes a state dict with ``load_state_dict(..., assign=True)``. A note may come from a file:
    it can name only what is listed here, and costs little whatever sizes it names.

    Args:
        note: what :func:`~rlkit_sac.modules.notes.note_of` returns, or the name and arguments of
            one of the functions above.

    Raises:
        ConfigError: for an unknown builder, or arguments that it refuses.
        TypeError, ValueError: for arguments that no module notes.

    >>> from rlkit_sac.modules.notes import note_of
    >>> build_from_note(note_of(hybrid_policy(3, [-1.0], [1.0], 2))).out_keys
    ['loc', 'scale', ('action', 'continuous'), ('action', 'discrete')]
    """
    name, arguments = note["builder"], note["arguments"]
    if not isinstance(name, str) or name not in _BUILDERS:
        raise ConfigError(f"unknown builder {name!r}; known are {sorted(_BUILDERS)}")
    if arguments.get("action_dim", 0) > _MOST_ACTIONS:  # whose bounds take memory all the same
        raise ConfigError(f"action_dim is {arguments['action_dim']}, above {_MOST_ACTIONS}")
    with torch.device("meta"):
        return _BUILDERS[name](**{option: _argument(value) for option, value in arguments.items()})


def checked_note(policy: TensorDictModuleBase) -> Note | None:
    """The note of a policy, if it describes this policy.

    What the note describes is built, and compared: all layers with their shapes, types and numbers,
    and with the same weights all that the policy writes, and the probability of its action, for
    observations of several sizes. This is done once, and again where a layer or the note changed.

    Args:
        policy: any acting module; random generators stay as they are.

    Returns:
        ``None`` for a policy without a note, or with one that describes another policy.

    >>> from torch import nn
    >>> actor = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> checked_note(actor)["builder"]
    'tanh_gaussian_actor'
    >>> actor.module[0].module[0][1] = nn.ELU()
    >>> checked_note(actor) is None
    True
    """
    note = note_of(policy)
    if note is None:
        return None
    form = note, _form(policy)
    if policy not in _checked or _checked[policy][0] != form:
        _checked[policy] = form, _describes(note, policy)
    return note if _checked[policy][1] else None


def _form(policy: TensorDictModuleBase) -> tuple[dict[str, Any], str]:
    return structure(policy), repr(policy)  # the latter has the arguments of distributions


def _describes(note: Note, policy: TensorDictModuleBase) -> bool:
    try:
        rebuilt = build_from_note(note)
        rebuilt.load_state_dict(policy.state_dict(), strict=True, assign=True)
        if _form(rebuilt) != _form(policy):
            return False
        first = next(each for each in rebuilt.modules() if isinstance(each, nn.Linear))
        own = torch.Generator("cpu").manual_seed(0)
        numbers = torch.randn(64, first.in_features, generator=own, device="cpu")
        scales = torch.logspace(-2, 3, 64, device="cpu").unsqueeze(-1)
        states = (scales * numbers).to(first.weight)
        outputs = [_outputs(each, states) for each in (policy, rebuilt)]
        torch.testing.assert_close(*outputs, equal_nan=True)
    except Exception:  # of a module that is no longer what the note describes
        return False
    return True


def _outputs(policy: TensorDictModuleBase, observation: Tensor) -> dict[Any, Tensor]:
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        out = policy(TensorDict(observation=observation, batch_size=observation.shape[:1]))
        prior = PolicyPrior(policy)
        dist, keys = prior.get_dist(out), prior.action_keys
        score = dist.log_prob(out if len(keys) > 1 else out[keys[0]])
    return {**dict(out.items(True, True)), "score": score}


def _argument(value: Any) -> Any:
    if isinstance(value, dict):
        return build_from_note(value)
    return tuple(map(_argument, value)) if isinstance(value, list) else value


def _boltzmann_policy(
    critic: TensorDictModule,
    num_qvalue_nets: int,
    *,
    mode: Any,
    minimum: Any,
    maximum: Any,
    **options: Any,
) -> BoltzmannPolicy:
    """Of critics that are all like one, which becomes their stack."""
    weights = TensorDict.from_module(critic).data.expand(num_qvalue_nets).clone()
    TensorDictParams(weights).to_module(critic, preserve_module_state=False)
    temperature = Temperature(mode, minimum, maximum)
    log_alpha = torch.tensor(temperature.initial_parameter(1.0))
    return BoltzmannPolicy(critic, log_alpha, temperature, **options)


_MOST_ACTIONS = 10_000

# The form of each policy that was compared with its note, and the result.
_checked: WeakKeyDictionary[nn.Module, tuple[Any, bool]] = WeakKeyDictionary()

_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "BehaviorPolicy": BehaviorPolicy,
    "BoltzmannPolicy": _boltzmann_policy,
    "NormalizedPolicy": NormalizedPolicy,
    "ObservationNormalizer": ObservationNormalizer,
    "TensorDictSequential": lambda modules: TensorDictSequential(*modules),
    "action_value_critic": action_value_critic,
    "boltzmann_policy": boltzmann_policy,
    "categorical_actor": categorical_actor,
    "categorical_actor_critic": categorical_actor_critic,
    "categorical_behavior_policy": categorical_behavior_policy,
    "gaussian_actor": gaussian_actor,
    "gaussian_actor_critic": gaussian_actor_critic,
    "gaussian_behavior_policy": gaussian_behavior_policy,
    "hybrid_critic": hybrid_critic,
    "hybrid_policy": hybrid_policy,
    "policy_operator": policy_operator,
    "tanh_gaussian_actor": tanh_gaussian_actor,
}
