"""TensorDicts of entries that are known to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor


def nested(
    entries: Mapping[NestedKey, Tensor], batch_size: torch.Size, device: torch.device | None
) -> TensorDictBase:
    """A TensorDict of entries by nested keys, without looking at them.

    What TensorDict checks for each entry takes longer than everything else that is done to one
    frame.

    Args:
        entries: each with the batch size in front, on the device.
        batch_size: of the TensorDict.
        device: of the TensorDict.

    >>> nested({"a": torch.zeros(2), ("b", "c"): torch.ones(2)}, torch.Size([2]), None)["b", "c"]
    tensor([1., 1.])
    """
    tree: dict[str, Any] = {}
    for key, value in entries.items():
        if isinstance(key, str):
            tree[key] = value
            continue
        branch = tree
        for part in key[:-1]:
            branch = branch.setdefault(part, {})
        branch[key[-1]] = value
    return _built(tree, batch_size, device)


def _built(
    tree: dict[str, Any], batch_size: torch.Size, device: torch.device | None
) -> TensorDictBase:
    for name, part in tree.items():
        if isinstance(part, dict):
            tree[name] = _built(part, batch_size, device)
    return TensorDict._new_unsafe(tree, batch_size=batch_size, device=device)
