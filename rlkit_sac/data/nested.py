"""TensorDicts made of entries that need no checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor


class NestedEntries:
    """Makes TensorDicts of entries with the same nested keys, without checks.

    TensorDict's checks of each entry take longer than everything else that is done to one frame.

    Args:
        keys: of the entries.

    >>> make = NestedEntries(["a", ("b", "c")])
    >>> make([torch.zeros(2), torch.ones(2)], torch.Size([2]), None)["b", "c"]
    tensor([1., 1.])
    """

    def __init__(self, keys: Sequence[NestedKey]) -> None:
        paths = [(key,) if isinstance(key, str) else key for key in keys]
        # Those at the top first, as TensorDicts have them.
        order = sorted(enumerate(paths), key=lambda each: len(each[1]))
        self._places = [(path[:-1], path[-1], place) for place, path in order]

    def __call__(
        self, values: Sequence[Tensor], batch_size: torch.Size, device: torch.device | None
    ) -> TensorDictBase:
        """Make a TensorDict.

        Args:
            values: in the order of the keys, each with the batch size in front, on the device.
            batch_size: of the TensorDict.
            device: of the TensorDict.
        """
        tree: dict[str, Any] = {}
        for outer, name, place in self._places:
            inner = tree
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[name] = values[place]
        return TensorDict._new_unsafe(tree, batch_size=batch_size, device=device)
