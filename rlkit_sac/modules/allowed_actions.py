"""Masks of allowed actions, and the logits that they are applied to."""

from __future__ import annotations

from typing import Any

from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torch.distributions import Distribution

from rlkit_sac.errors import BatchError


def read_action_mask(states: TensorDictBase, key: NestedKey | None, like: Tensor) -> Tensor | None:
    """The mask of allowed actions at some states, bool ``[*, K]``; ``None`` without a key.

    Args:
        states: ``[*]``.
        key: of the mask.
        like: one number for each action, ``[*, K]``.

    Raises:
        BatchError: for a mask that is missing, of another shape, or of floating-point numbers, as
            those that are added to logits.

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
            f"there is no {key!r}: pass the mask of allowed actions, {list(like.shape)}, as "
            "make_env writes it for a task that gives masks"
        )
    if mask.shape != like.shape or mask.is_floating_point():
        raise BatchError(
            f"{key!r} has the shape {list(mask.shape)}, wanted {list(like.shape)}, and is "
            f"{mask.dtype}, wanted torch.bool: one for each action, true where it is allowed"
        )
    return mask.bool()


def build_dist(actor: Any, parameters: TensorDictBase) -> Distribution:
    """The distribution of an actor, with its logits as they were given, see :func:`note_logits`.

    Args:
        actor: a probabilistic TensorDictModule.
        parameters: what its ``get_dist_params`` returned.
    """
    dist: Distribution = actor.build_dist_from_params(parameters)
    note_logits(dist, actor.module[-1], parameters)
    return dist


def note_logits(dist: Any, module: Any, parameters: TensorDictBase) -> None:
    """Set ``given_logits`` of a categorical distribution, its logits as they were given.

    A ``Categorical`` normalizes them over all actions, so that a large one of a forbidden action
    costs the others their digits.

    Args:
        dist: that a module made.
        module: the probabilistic one.
        parameters: which it read.
    """
    names = dict(zip(getattr(module, "dist_keys", ()), module.in_keys, strict=False))
    if "logits" in names:
        dist.given_logits = parameters.get(names["logits"])
