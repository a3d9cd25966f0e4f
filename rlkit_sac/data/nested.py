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
        self._places: dict[str, int] = {}
        inner: dict[str, tuple[list[NestedKey], list[int]]] = {}
        for place, key in enumerate(keys):
            if isinstance(key, str):
                self._places[key] = place
                continue
            within, places = inner.setdefault(key[0], ([], []))
            within.append(key[1] if len(key) == 2 else key[1:])
            places.append(place)
        self._inner = [(name, NestedEntries(within), at) for name, (within, at) in inner.items()]

    def __call__(
        self, values: Sequence[Tensor], batch_size: torch.Size, device: torch.device | None
    ) -> TensorDictBase:
        """Make a TensorDict.

        Args:
            values: in the order of the keys, each with the batch size in front, on the device.
            batch_size: of the TensorDict.
            device: of the TensorDict.
        """
        return TensorDict._new_unsafe(self._tree(values), batch_size=batch_size, device=device)

    def _tree(self, values: Sequence[Tensor]) -> dict[str, Any]:
        tree: dict[str, Any] = {name: values[place] for name, place in self._places.items()}
        for name, entries, places in self._inner:
            tree[name] = entries._tree([values[place] for place in places])
        return tree
