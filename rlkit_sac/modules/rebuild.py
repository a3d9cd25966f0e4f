"""Construction of a policy from its blueprint, and the check that it still describes the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.modules.behavior import BehaviorPolicy
from rlkit_sac.modules.blueprints import BUILDERS, Blueprint, get_blueprint
from rlkit_sac.modules.boltzmann import BoltzmannPolicy
from rlkit_sac.modules.critics import stack_critics
from rlkit_sac.modules.masked_critic import MaskedCritic
from rlkit_sac.modules.memory import policy_states
from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.modules.priors.policy import PolicyPrior
from rlkit_sac.modules.structure import changed_layer, structure
from rlkit_sac.modules.temperature import Temperature


def build_from_blueprint(blueprint: Blueprint) -> Any:
    """Build the module that a blueprint describes, on the device ``meta``: shapes without memory.

    Load a state dict with ``load_state_dict(..., assign=True)``. A blueprint may come from a file,
    so it can name only functions and classes of this package.

    Args:
        blueprint: a blueprint, see :func:`~rlkit_sac.modules.blueprints.get_blueprint`.

    Raises:
        KeyError: for an unknown builder.
        ConfigError, TypeError, ValueError: for arguments that the builder refuses.

    >>> from rlkit_sac.modules import categorical_actor
    >>> build_from_blueprint(get_blueprint(categorical_actor(3, 2))).out_keys
    ['logits', 'action']
    """
    name, builders = blueprint["builder"], BUILDERS | _CLASSES
    arguments = {option: _build_argument(value) for option, value in blueprint["arguments"].items()}
    with torch.device("meta"):
        return builders[name](**arguments)


def get_valid_blueprint(policy: TensorDictModuleBase) -> Blueprint | None:
    """Return the blueprint of a policy, if the blueprint describes this policy.

    The described policy is built and compared. All layers must have the same shapes, types and
    numbers. With the same weights, all outputs must be the same for random observations,
    and for random memory states and previous actions if the policy has a memory.

    Args:
        policy: any acting module. The states of random generators do not change.

    Returns:
        The blueprint, or ``None`` if there is none or if it describes another policy.

    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> actor = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> get_valid_blueprint(actor)["builder"]
    'tanh_gaussian_actor'
    >>> actor.module[0].module[0][1] = nn.ELU()
    >>> get_valid_blueprint(actor) is None
    True
    """
    blueprint = get_blueprint(policy) or {}
    try:
        check_blueprint(blueprint, policy)
    except Exception:  # the module has no blueprint, or is no longer what its blueprint describes
        return None
    return blueprint


def check_blueprint(blueprint: Blueprint, policy: TensorDictModuleBase) -> None:
    """Compare a policy with the policy that a blueprint describes, given the same weights.

    Args:
        blueprint: the blueprint of this policy, or of a saved one.
        policy: any acting module. If it has a blueprint too, its layers are compared as well: the
            outputs of the deterministic mode do not show everything, such as a temperature.

    Raises:
        AssertionError: if the two are different functions.
        Exception: any other error, if the policy cannot act where the described policy can.

    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> relu, tanh = (tanh_gaussian_actor(3, [-1.0], [1.0], activation=a) for a in ("relu", "tanh"))
    >>> check_blueprint(get_blueprint(relu), relu)
    >>> check_blueprint(get_blueprint(relu), tanh)
    Traceback (most recent call last):
    AssertionError: ...
    """
    rebuilt = build_from_blueprint(blueprint)
    rebuilt.load_state_dict(policy.state_dict(), strict=True, assign=True)
    if get_blueprint(policy) is not None and (saved := structure(rebuilt)) != structure(policy):
        raise AssertionError(changed_layer(saved, policy) or "there are more layers, or fewer")
    states = _random_states(blueprint, rebuilt)
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        outputs = [dict(actor(states.copy()).items(True, True)) for actor in (policy, rebuilt)]
    torch.testing.assert_close(*outputs, equal_nan=True)


def _random_states(blueprint: Blueprint, policy: TensorDictModuleBase) -> TensorDict:
    """Return 64 random states for a policy, none of them the first of an episode.

    The numbers are large, to reach the bounds of normalizers and of standard deviations.
    """
    generator, weight = torch.Generator("cpu").manual_seed(0), next(policy.parameters())

    def normal(*shape: int) -> Tensor:
        return 30 * torch.randn(64, *shape, generator=generator, device="cpu").to(weight)

    vector = {"key": "observation", "shape": [_find_argument(blueprint, "observation_dim")]}
    layout = _find_argument(blueprint, "layout") or [vector]  # a shared encoder comes first
    memory = _find_argument(blueprint, "memory") or {}
    length, count = memory.get("action_dim", 0), memory.get("num_actions", 0)
    parts = {"continuous": normal(length), "discrete": torch.zeros(64).long()}
    states: dict[Any, Any] = {
        **{entry["key"]: normal(*entry["shape"]) for entry in layout},
        "prev_action": parts if length and count else parts["discrete" if count else "continuous"],
        "is_init": torch.zeros(64, 1).bool(),
        **{key: normal(*shape) for key, shape in policy_states(policy).items()},
    }
    if (mask_key := _find_argument(blueprint, "mask_key")) is not None:
        states[mask_key] = normal(_find_argument(blueprint, "num_actions")) > 0
    return TensorDict(states, batch_size=[64], device=weight.device)


def _build_argument(value: Any) -> Any:
    if isinstance(value, dict):
        return build_from_blueprint(value) if "builder" in value else value
    return tuple(map(_build_argument, value)) if isinstance(value, list) else value


def _find_argument(value: Any, name: str) -> Any:
    """Return an argument in a blueprint or in those within it; ``None`` if there is none."""
    if isinstance(value, dict):
        if value.get(name) is not None:
            return value[name]
        value = list(value.values())
    arguments = (_find_argument(item, name) for item in value) if isinstance(value, list) else ()
    return next((argument for argument in arguments if argument is not None), None)


def _boltzmann_policy(
    critic: TensorDictModule, num_qvalue_nets: int, **options: Any
) -> BoltzmannPolicy:
    critics = stack_critics([critic] * num_qvalue_nets)
    temperature = Temperature(**{f.name: options.pop(f.name) for f in fields(Temperature)})
    return BoltzmannPolicy(critics, torch.zeros(()), temperature, **options)


_CLASSES: dict[str, Callable[..., nn.Module]] = {
    "BehaviorPolicy": BehaviorPolicy,
    "BoltzmannPolicy": _boltzmann_policy,
    "FrozenPrior": FrozenPrior,
    "MaskedCritic": MaskedCritic,
    "NormalizedPolicy": NormalizedPolicy,
    "ObservationNormalizer": ObservationNormalizer,
    "PolicyPrior": PolicyPrior,
    "TensorDictSequential": lambda modules: TensorDictSequential(*modules),
}
