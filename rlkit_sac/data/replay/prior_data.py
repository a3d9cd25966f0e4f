"""Transitions from before the run: in the buffer at first, or in a share of each batch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tensordict import TensorDictBase

from rlkit_sac.errors import ConfigError


class PriorShare:
    """Transitions that a buffer does not hold, of which a share of each batch is drawn.

    Its state is a checksum of them, which are not stored again.

    Args:
        rows: the transitions ``[n]``.
        share: the part of each batch.
    """

    def __init__(self, rows: TensorDictBase, share: float) -> None:
        self.rows, self.share = rows, share
        self.inexact_reasons: list[str] = []
        digest = hashlib.sha256()
        for key in sorted(rows.keys(True, True), key=str):
            digest.update(rows.get(key).cpu().contiguous().numpy())
        self._sha256 = digest.hexdigest()

    def state_dict(self) -> Mapping[str, Any]:
        """The checksum of the transitions."""
        return {"sha256": self._sha256}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Compare the transitions with those of the run before it was stopped."""
        if state["sha256"] != self._sha256:
            self.inexact_reasons = ["replay.prior_data holds other transitions than before"]


def fitting(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Transitions with the entries that replay stores.

    Args:
        data: ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: if there are none, or an entry is missing or of another shape or type.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> fitting(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
    if not data.numel():
        raise ConfigError("the prior data have no transition")
    rows = data.reshape(-1)
    entries = dict(rows.items(True, True))
    for key, wanted in example.items(True, True):
        found = entries.get(key)
        there = "missing" if found is None else f"{found.dtype} {list(found.shape[1:])}"
        here = f"{wanted.dtype} {list(wanted.shape)}"
        if there != here:
            raise ConfigError(
                f"the prior data do not fit the task: {key!r} is {there} there and {here} here"
            )
    return rows.select(*example.keys(True, True))
