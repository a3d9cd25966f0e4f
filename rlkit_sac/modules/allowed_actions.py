"""Masks of allowed actions, and the logits to which they are applied."""

from __future__ import annotations

from typing import Any

from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torch.distributions import Distribution

from rlkit_sac.errors import BatchError


def read_action_mask(
    states: TensorDictBase, key: NestedKey | None, logits: Tensor
) -> Tensor | None:
    """Return the mask of allowed actions at some states, bool ``[*, K]``; ``None`` without a key.

    Args:
        states: the states ``[*]``.
        key: the key of the mask.
        logits: one number for each action, ``[*, K]``.

    Raises:
        BatchError: for a mask that is missing or has another shape, and for a floating-point mask,
            which other packages add to logits.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> states = TensorDict(action_mask=torch.ones(5, 1, dtype=torch.bool), batch_size=[5])
    >>> read_action_mask(states, "action_mask", torch.zeros(5, 3))
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: 'action_mask' has the shape [5, 1], wanted [5, 3], and is ...
    """
    if key is None:
        return None
    mask = states.get(key, None)
    if mask is None:
        raise BatchError(
            f"there is no {key!r}: pass the mask of allowed actions, {list(logits.shape)}, as "
            "make_env writes it for a task that gives masks"
        )
    if mask.shape != logits.shape or mask.is_floating_point():
        raise BatchError(
            f"{key!r} has the shape {list(mask.shape)}, wanted {list(logits.shape)}, and is "
            f"{mask.dtype}, wanted torch.bool: one for each action, true where it is allowed"
        )
    return mask.bool()


def build_dist(actor: Any, parameters: TensorDictBase) -> Distribution:
    """Return the distribution of an actor, with its raw logits, see :func:`set_raw_logits`.

    Args:
        actor: a probabilistic TensorDictModule.
        parameters: the result of the actor's ``get_dist_params``.
    """
    dist: Distribution = actor.build_dist_from_params(parameters)
    set_raw_logits(dist, actor.module[-1], parameters)
    return dist


def set_raw_logits(dist: Any, module: Any, parameters: TensorDictBase) -> None:
    """Set ``raw_logits`` of a categorical distribution: its logits before normalization.

    A ``Categorical`` normalizes its logits over all actions. A large logit of a forbidden action
    would then cost the other logits their precision.

    Args:
        dist: the distribution.
        module: the probabilistic module that made the distribution.
        parameters: the inputs of the module.
    """
    names = dict(zip(getattr(module, "dist_keys", ()), module.in_keys, strict=False))
    if "logits" in names:
        dist.raw_logits = parameters.get(names["logits"])
