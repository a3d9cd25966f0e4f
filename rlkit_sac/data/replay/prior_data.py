"""Transitions from before the run: in the buffer at first, or in a share of each batch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from rlkit_sac.data.replay.n_steps import STEPS
from rlkit_sac.data.replay.packed_storage import PackedStorage
from rlkit_sac.errors import ConfigError
from rlkit_sac.valid_steps import drop_invalid


class PriorShare(PackedStorage):
    """Transitions that a buffer does not hold, of which a share of each batch is drawn.

    Its state is a checksum of them, which are not stored again.

    Args:
        data: the transitions ``[n]``.
        share: the part of each batch.
        device: where they lie.
    """

    def __init__(self, data: TensorDictBase, share: float, *, device: torch.device | str) -> None:
        super().__init__(len(data), device=device)
        self.write(0, data)
        self.share = share
        self.inexact_reasons: list[str] = []
        self._state = {"sha256": hashlib.sha256(self._rows.cpu().numpy().data).hexdigest()}

    def state_dict(self) -> dict[str, Any]:
        """The checksum of the transitions."""
        return self._state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Compare the transitions with those of the run before it was stopped."""
        if state_dict != self._state:
            self.inexact_reasons = ["replay.prior_data holds other transitions than before"]


def fitting(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Transitions with the entries that replay stores, without steps that are not valid.

    Args:
        data: ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: if there are none, or an entry is missing, of another shape or type, or not
            finite; or if they are of several steps, but the example is of one.

    >>> from tensordict import TensorDict
    >>> fitting(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
    if not data.batch_size.numel():
        raise ConfigError(f"the prior data have no transition, but the shape {list(data.shape)}")
    rows = drop_invalid(data).reshape(-1)
    steps = rows.get(STEPS, torch.ones(len(rows), dtype=torch.int64))
    if example.get(STEPS, None) is not None:
        rows = rows.copy().set(STEPS, steps)
    elif (steps > 1).any():
        raise ConfigError(f"the prior data are of {steps.max()} steps: set n_steps above 1")
    entries = dict(rows.items(True, True))
    for key, wanted in example.items(True, True):
        found = entries.get(key)
        there = "missing" if found is None else f"{found.dtype} {list(found.shape[1:])}"
        here = f"{wanted.dtype} {list(wanted.shape)}"
        if there != here:
            raise ConfigError(
                f"the prior data do not fit the task: {key!r} is {there} there and {here} here"
            )
        if not entries[key].isfinite().all():
            raise ConfigError(f"the prior data have NaN or infinity in {key!r}: leave these out")
    return rows.select(*example.keys(True, True))
