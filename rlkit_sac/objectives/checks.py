"""What losses refuse of networks and of the specs of their actions."""

from __future__ import annotations

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec

from rlkit_sac.action_bounds import check_bounds
from rlkit_sac.errors import BatchError, ConfigError


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


def check_widths(
    name: str, network: TensorDictModuleBase, batch: TensorDictBase, dtype: torch.dtype
) -> None:
    """Refuse entries that the first layer of a network cannot read.

    Args:
        name: of the network.
        network: without a memory; its first layer is looked at if that is linear.
        batch: with these entries.
        dtype: of the network's parameters.

    Raises:
        BatchError: naming the entry, its shape and type, and those that are wanted.
    """
    first = next((layer for layer in network.modules() if hasattr(layer, "weight")), None)
    key, *others = network.in_keys
    for place in (key, ("next", key)):
        value, *rest = (batch.get(entry, None) for entry in (place, *others))
        if not isinstance(first, nn.Linear) or value is None or None in rest:
            return
        for other, entry in zip(others, rest, strict=True):
            if entry.dtype != dtype:
                raise BatchError(f"{other!r} has the type {entry.dtype}, but {name} wants {dtype}")
        beside, width = sum(entry.shape[-1] for entry in rest), value.shape[-1]
        wanted = first.in_features - beside
        # A network may read its first entry alone in its first layer.
        if value.dtype != dtype or width not in (wanted, first.in_features):
            raise BatchError(
                f"{place!r} has the shape {list(value.shape)} and the type {value.dtype}, but "
                f"{name} wants {[*batch.batch_size, wanted]} of {dtype}"
            )


def action_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The spec of one action, which may be an entry of a composite spec.

    Args:
        spec: spec of the action (returned unchanged), a composite spec, or ``None``.
        key: of the action in a composite spec, whose batch dimensions are removed.

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


def discrete_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The categorical spec of one discrete action, which may be an entry of a composite spec.

    Raises:
        ConfigError: for another kind of spec.
    """
    leaf = action_leaf(spec, key)
    if leaf is None or (isinstance(leaf, Categorical) and not isinstance(leaf, MultiCategorical)):
        return leaf
    advice = "one of a Discrete space, whose actions are indices"
    if isinstance(leaf, OneHot):
        advice = "indices: GymEnv(..., categorical_action_encoding=True)"
    raise ConfigError(
        f"the spec of the discrete action {key!r} is {type(leaf).__name__}, wanted Categorical, "
        f"{advice}"
    )


def hybrid_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The spec of one part of a hybrid action.

    Args:
        spec: ``env.full_action_spec``, or the spec of the action alone, whose entries are the last
            elements of the keys.
        key: of the part.

    Raises:
        ConfigError: for a spec that is not composite.
    """
    if spec is not None and not isinstance(spec, Composite):
        raise ConfigError(
            f"action_spec is {type(spec).__name__}: a hybrid action needs a Composite with a "
            "continuous and a discrete entry"
        )
    leaf = action_leaf(spec, key)
    return leaf if leaf is not None or isinstance(key, str) else action_leaf(spec, key[-1])
