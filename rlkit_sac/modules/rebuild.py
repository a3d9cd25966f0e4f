"""Building a policy again from its note, and whether a note still describes its policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.actors import (
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    policy_operator,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.behavior import BehaviorPolicy
from rlkit_sac.modules.critics import action_value_critic, hybrid_critic
from rlkit_sac.modules.ensemble import structure
from rlkit_sac.modules.masked_critic import MaskedCritic
from rlkit_sac.modules.memory import policy_states
from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.modules.notes import Note, note_of
from rlkit_sac.modules.policies import (
    boltzmann_of_critic,
    boltzmann_policy,
    categorical_behavior_policy,
    gaussian_behavior_policy,
    hybrid_policy,
)
from rlkit_sac.modules.priors.policy import PolicyPrior


def build_from_note(note: Note) -> Any:
    """The module that a note describes, on the device ``meta``: shapes without memory.

    It takes a state dict with ``load_state_dict(..., assign=True)``. A note may come from a file:
    it can name only what is listed here, and costs little whatever sizes it names.

    Args:
        note: what :func:`~rlkit_sac.modules.notes.note_of` returns, or the name and arguments of
            one of the functions of :mod:`rlkit_sac.modules.policies`.

    Raises:
        ConfigError: for an unknown builder, or arguments that it refuses.
        TypeError, ValueError: for arguments that no module notes.

    >>> build_from_note(note_of(hybrid_policy(3, [-1.0], [1.0], 2))).out_keys
    ['loc', 'scale', ('action', 'continuous'), ('action', 'discrete')]
    """
    name, arguments = note["builder"], note["arguments"]
    if not isinstance(name, str) or name not in _BUILDERS:
        raise ConfigError(f"unknown builder {name!r}; known are {sorted(_BUILDERS)}")
    if arguments.get("action_dim", 0) > _MOST_ACTIONS:  # whose bounds take memory all the same
        raise ConfigError(f"action_dim is {arguments['action_dim']}, above {_MOST_ACTIONS}")
    if (layers := _layers(arguments)) > _MOST_LAYERS:  # each of which takes time
        raise ConfigError(f"it describes {layers} layers, more than {_MOST_LAYERS}")
    with torch.device("meta"):
        return _BUILDERS[name](**{option: _argument(value) for option, value in arguments.items()})


def checked_note(policy: TensorDictModuleBase) -> Note | None:
    """The note of a policy, if it describes this policy.

    What the note describes is built, and compared: all layers with their shapes, types and numbers,
    and with the same weights all that the policy writes, and the probability of its action, for
    observations of several sizes, of a policy with memory also for states and previous actions.
    This is done once, and again where a layer or the note changed.

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
        states = _states(note, rebuilt)
        outputs = [_outputs(each, states.copy()) for each in (policy, rebuilt)]
        torch.testing.assert_close(*outputs, equal_nan=True)
    except Exception:  # of a module that is no longer what the note describes
        return False
    return True


def _states(note: Note, policy: TensorDictModuleBase) -> TensorDict:
    """64 states at random for a policy, of which those with memory begin episodes or go on."""
    own, weight = torch.Generator("cpu").manual_seed(0), next(policy.parameters())

    def normal(*shape: int) -> Tensor:
        return torch.randn(64, *shape, generator=own, device="cpu").to(weight)

    scales = torch.logspace(-2, 3, 64, device="cpu").unsqueeze(-1).to(weight)
    states: dict[Any, Any] = {"observation": scales * normal(_noted(note, "observation_dim"))}
    if carried := policy_states(policy):
        memory = _noted(note, "memory")
        length, count = memory.get("action_dim", 0), memory.get("num_actions", 0)
        parts = {"continuous": normal(length), "discrete": normal().abs().long() % max(count, 1)}
        previous = parts if length and count else parts["discrete" if count else "continuous"]
        states |= {"prev_action": previous, "is_init": normal(1) > 0}
        states |= {key: normal(*shape) for key, shape in carried.items()}
    return TensorDict(states, batch_size=[64])


def _outputs(policy: TensorDictModuleBase, states: TensorDict) -> dict[Any, Tensor]:
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        out = policy(states)
        prior = PolicyPrior(policy)
        dist, keys = prior.get_dist(out), prior.action_keys
        score = dist.log_prob(out if len(keys) > 1 else out[keys[0]])
    return {**dict(out.items(True, True)), "score": score}


def _argument(value: Any) -> Any:
    if isinstance(value, dict):
        return build_from_note(value) if "builder" in value else value
    return tuple(map(_argument, value)) if isinstance(value, list) else value


def _noted(value: Any, name: str) -> Any:
    """An argument in a note, or in the notes within it, that is not ``None``."""
    if isinstance(value, dict):
        if value.get(name) is not None:
            return value[name]
        value = list(value.values())
    found = (_noted(each, name) for each in value) if isinstance(value, list) else ()
    return next((each for each in found if each is not None), None)


def _layers(value: Any) -> int:
    """Layers and modules in the arguments of a note."""
    if not isinstance(value, dict):
        return sum(map(_layers, value)) if isinstance(value, list) else 0
    cells, layers = value.get("num_cells"), value.get("layers")
    own = 1 + (len(cells) if isinstance(cells, list) else 0)
    own += max(layers, 0) if isinstance(layers, int) else 0
    return own + sum(map(_layers, value.values()))


_MOST_ACTIONS, _MOST_LAYERS = 10_000, 1_000

# The form of each policy that was compared with its note, and the result.
_checked: WeakKeyDictionary[nn.Module, tuple[Any, bool]] = WeakKeyDictionary()

_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "BehaviorPolicy": BehaviorPolicy,
    "BoltzmannPolicy": boltzmann_of_critic,
    "MaskedCritic": MaskedCritic,
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
