"""The losses' checks of networks and action specs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import torch
from tensordict import NestedKey, TensorDictBase, unravel_key
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec

from rlkit_sac.errors import BatchError, ConfigError, check_bounds

P = ParamSpec("P")
Result = TypeVar("Result")

NEEDS_SPEC = (
    "needs the action spec: pass action_spec= (for a batched environment "
    "env.action_spec_unbatched), or an actor with a spec"
)


def actor_output_keys(actor: TensorDictModuleBase) -> tuple[NestedKey, NestedKey]:
    """Return the keys under which an actor writes its action and its log-probability.

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


def check_writes(name: str, network: TensorDictModuleBase, key: NestedKey, role: str) -> None:
    """Refuse a network that does not write an entry.

    Args:
        name: the name of the network.
        network: the network.
        key: the entry.
        role: the name of the entry's accepted key.

    Raises:
        BatchError: naming the entries that the network writes.
    """
    if unravel_key(key) not in map(unravel_key, network.out_keys):
        raise BatchError(
            f"{name} writes {network.out_keys}, not {key!r}: name its output so, or name the right "
            f"one with set_keys({role}=...)"
        )


def name_mismatched_entries(method: Callable[P, Result]) -> Callable[P, Result]:
    """Make a method of a loss raise a `BatchError` for entries of a wrong width or type.

    Args:
        method: a method that takes a batch. If it raises a `RuntimeError`, as PyTorch does for
            shapes that do not match, the entries of the batch are checked.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except RuntimeError:
            loss, *inputs = cast(tuple[Any, ...], args)
            if inputs and isinstance(inputs[0], TensorDictBase):
                for name in loss.network_names:
                    if name not in loss.recurrent:
                        check_input_width(
                            name, getattr(loss, name), inputs[0], loss._reference.dtype
                        )
            raise

    return call


def check_input_width(
    name: str, network: TensorDictModuleBase, batch: TensorDictBase, dtype: torch.dtype
) -> None:
    """Refuse entries that the first layer of a network cannot read.

    Args:
        name: the name of the network.
        network: a network without a memory. It is checked only if its first layer is linear.
        batch: the batch with the entries.
        dtype: the dtype of the network's parameters.

    Raises:
        BatchError: naming the entry, its shape and type, and the shape and type that it must have.
    """
    layer = next((layer for layer in network.modules() if hasattr(layer, "weight")), None)
    first_key, *other_keys = network.in_keys
    for key in (first_key, ("next", first_key)):
        value, *others = (batch.get(entry, None) for entry in (key, *other_keys))
        if not isinstance(layer, nn.Linear) or value is None or None in others:
            return
        for other, entry in zip(other_keys, others, strict=True):
            if entry.dtype != dtype:
                raise BatchError(f"{other!r} has the type {entry.dtype}, but {name} wants {dtype}")
        width = layer.in_features - sum(entry.shape[-1] for entry in others)
        # The first layer may read only the first entry.
        if value.dtype != dtype or value.shape[-1] not in (width, layer.in_features):
            raise BatchError(
                f"{key!r} has the shape {list(value.shape)} and the type {value.dtype}, but "
                f"{name} wants {[*batch.batch_size, width]} of {dtype}"
            )


def find_action_spec(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """Return the spec of one action, which may be an entry of a composite spec.

    Args:
        spec: the spec of the action (returned unchanged), a composite spec, or ``None``.
        key: the key of the action in a composite spec, whose batch dimensions are removed.

    Raises:
        ConfigError: for bounds that are infinite or equal.
    """
    if isinstance(spec, Composite):
        path = key if isinstance(key, tuple) else (key,)
        batch_dims = 0
        for name in path:
            if not isinstance(spec, Composite) or name not in spec.keys():  # noqa: SIM118
                return None
            batch_dims = spec.ndim
            spec = spec[name]
        if spec is not None and batch_dims:
            spec = spec[(0,) * batch_dims]
    if isinstance(spec, Bounded):
        check_bounds(spec.space.low, spec.space.high)
    return spec


def find_discrete_spec(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """Return the categorical spec of a discrete action, which may be in a composite spec.

    Raises:
        ConfigError: for another kind of spec.
    """
    leaf = find_action_spec(spec, key)
    if leaf is None or (isinstance(leaf, Categorical) and not isinstance(leaf, MultiCategorical)):
        return leaf
    advice = "one of a Discrete space, whose actions are indices"
    if isinstance(leaf, OneHot):
        advice = "indices: GymEnv(..., categorical_action_encoding=True)"
    raise ConfigError(
        f"the spec of the discrete action {key!r} is {type(leaf).__name__}, wanted Categorical, "
        f"{advice}"
    )


def find_hybrid_part_spec(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """Return the spec of one part of a hybrid action.

    Args:
        spec: ``env.full_action_spec``, or the spec of the action alone. In the latter the last
            element of a part's key is the name of the part.
        key: the key of the part.

    Raises:
        ConfigError: for a spec that is not composite.
    """
    if spec is not None and not isinstance(spec, Composite):
        raise ConfigError(
            f"action_spec is {type(spec).__name__}: a hybrid action needs a Composite with a "
            "continuous and a discrete entry"
        )
    leaf = find_action_spec(spec, key)
    return leaf if leaf is not None or isinstance(key, str) else find_action_spec(spec, key[-1])
