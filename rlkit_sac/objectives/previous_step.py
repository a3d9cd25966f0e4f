"""Entries of a state that describe the previous step: its action, and whether there was one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.errors import BatchError

#: At the next state these entries describe the step of the batch.
PREVIOUS_ACTION, IS_INIT = "prev_action", "is_init"


def is_previous_step_key(key: NestedKey) -> bool:
    """Return whether an entry of a state describes the previous step.

    >>> is_previous_step_key(("prev_action", "discrete")), is_previous_step_key("observation")
    (True, False)
    """
    return (key if isinstance(key, str) else key[0]) in (PREVIOUS_ACTION, IS_INIT)


def next_state_entry(
    key: NestedKey, batch: TensorDictBase, action_keys: Sequence[NestedKey]
) -> Tensor | TensorDictBase:
    """Return the value that an entry about the previous step has at the next state.

    Args:
        key: ``is_init``, whose value is false; ``prev_action``, whose value is the action of the
            batch; or ``("prev_action", part)``, whose value is a part of the action.
        batch: the batch of transitions.
        action_keys: the keys of the parts of the batch's action.

    Raises:
        BatchError: for a part that the action does not have.
    """
    if key == IS_INIT:
        return torch.zeros_like(batch.get(key), dtype=torch.bool)
    if not isinstance(key, tuple) and len(action_keys) == 1:
        return batch.get(action_keys[0])
    parts = {unravel_key(part)[-1]: batch.get(part) for part in action_keys}
    if not isinstance(key, tuple):
        return TensorDict(parts, batch_size=batch.batch_size)
    if key[-1] not in parts:
        raise BatchError(
            f"a prior or memory reads {key!r}, but the parts of the action are {', '.join(parts)}: "
            "call them alike"
        )
    return parts[key[-1]]
