"""What the soft actor-critic losses read of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensordict import NestedKey, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.checks.batch import check_entries, check_flag, check_reward
from rlkit_sac.objectives.checks.validity import fill_invalid, valid_steps
from rlkit_sac.objectives.sac.priors import one_step_later


@dataclass(frozen=True)
class Transitions:
    """A batch ``[*]`` of checked transitions, with zeros in its invalid steps.

    Attributes:
        batch: every entry the loss reads.
        states: what networks and priors read at s.
        next_states: the same at s'.
        valid: bool ``[*]``; ``None`` where every step is valid.
    """

    batch: TensorDictBase
    states: TensorDictBase
    next_states: TensorDictBase
    valid: Tensor | None


def check_transitions(
    tensordict: TensorDictBase,
    required: Sequence[NestedKey],
    roles: Mapping[NestedKey, str],
    keys: Any,
    *,
    reward_weights: Tensor | None,
    sequential: bool,
) -> None:
    """Refuse a batch that lacks an entry, or has one of another shape.

    Args:
        tensordict: ``[*]``.
        required: entries that must be there.
        roles: the name under which ``set_keys`` knows a key.
        keys: the tensor keys of the loss.
        reward_weights: of the loss.
        sequential: whether the targets need sequences ``[*, T]``.

    Raises:
        BatchError: naming what came and what was wanted.
    """
    check_entries(tensordict, required, roles)
    if sequential and not tensordict.ndim:
        raise BatchError(
            "TD(lambda) needs sequences [*, T], but the batch has no dimension for time"
        )
    if sequential and tensordict.ndim == 1 and tensordict.get("index", None) is not None:
        raise BatchError(
            "TD(lambda) needs sequences [*, T], but the batch is a flat sample "
            f"[{len(tensordict)}] from replay, whose transitions do not follow each other: "
            "draw slices (slice_length) or reshape them to [B, T]"
        )
    for role in ("terminated", "done")[: 1 + sequential]:
        check_flag(tensordict, ("next", getattr(keys, role)), role)
    check_reward(tensordict.get(("next", keys.reward)), reward_weights, tensordict)


def read_transitions(
    tensordict: TensorDictBase,
    required: Sequence[NestedKey],
    mask_keys: Sequence[NestedKey],
    *,
    state_keys: Sequence[NestedKey],
    next_state_keys: Sequence[NestedKey],
    action_keys: list[NestedKey],
) -> Transitions:
    """Select what a loss reads of a checked batch.

    Args:
        tensordict: ``[*]``.
        required: entries that the loss reads.
        mask_keys: of masks of valid steps.
        state_keys: what networks and priors read at a state.
        next_state_keys: those of them that are there under ``next``; the others are known from
            the transition itself, see :func:`~rlkit_sac.objectives.sac.priors.one_step_later`.
        action_keys: of the parts of the action.
    """
    valid = valid_steps(tensordict, mask_keys)
    batch = fill_invalid(tensordict.select(*required), valid)
    next_states = batch.get("next").select(*next_state_keys)
    for key in state_keys:
        if key not in next_state_keys:
            next_states.set(key, one_step_later(key, batch, action_keys))
    return Transitions(batch, batch.select(*state_keys), next_states, valid)


def unraveled(*keys: NestedKey) -> list[NestedKey]:
    """The keys in one form, each once."""
    return list(dict.fromkeys(map(unravel_key, keys)))
