"""Averages of the scalars of updates, between two rows of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class MetricsAverage:
    """Collects scalars on their device and reduces them once for each row.

    Names that end in ``_min`` and ``_max`` are reduced by minimum and maximum, the others by mean.
    The values reach the host only in :meth:`compute`, so logging does not stall a GPU, and take no
    more memory however many updates a row covers.

    >>> average = MetricsAverage()
    >>> average.add({"alpha": torch.tensor(1.0), "q0_min": torch.tensor(-2.0)})
    >>> average.add({"alpha": torch.tensor(2.0), "q0_min": torch.tensor(-1.0)})
    >>> average.compute()
    {'alpha': 1.5, 'q0_min': -2.0}
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, ...], _Part] = {}

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Take in the scalars of one update."""
        names = tuple(scalars)
        values = torch.stack(tuple(scalars.values())).detach()
        part = self._parts.get(names)
        if part is None:
            self._parts[names] = _Part(1, values, values.clone(), values.clone())
        else:
            part.merge(values)

    def compute(self) -> dict[str, float]:
        """The reduced values since the last call, in the order of first appearance."""
        means: dict[str, tuple[int, float]] = {}
        out: dict[str, float] = {}
        for names, part in self._parts.items():
            rows = torch.stack([part.total, part.low, part.high]).tolist()
            for name, total, low, high in zip(names, *rows, strict=True):
                if name.endswith("_min"):
                    out[name] = min(out.get(name, low), low)
                elif name.endswith("_max"):
                    out[name] = max(out.get(name, high), high)
                else:
                    count, sum_so_far = means.get(name, (0, 0.0))
                    means[name] = count + part.count, sum_so_far + total
                    out[name] = means[name][1] / means[name][0]
        self._parts = {}
        return out

    def state_dict(self) -> dict[str, Any]:
        """What was added since the last row."""
        return {
            "parts": [
                (list(names), part.count, part.total.clone(), part.low.clone(), part.high.clone())
                for names, part in self._parts.items()
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, which may lie on another device."""
        self._parts = {
            tuple(names): _Part(count, *(each.clone() for each in reduced))
            for names, count, *reduced in state["parts"]
        }


@dataclass
class _Part:
    """Sum, minimum and maximum over updates with the same scalars."""

    count: int
    total: Tensor
    low: Tensor
    high: Tensor

    def merge(self, values: Tensor) -> None:
        if self.total.device != values.device:  # a state from elsewhere
            self.total, self.low, self.high = (
                each.to(values.device) for each in (self.total, self.low, self.high)
            )
        self.count += 1
        self.total += values
        torch.minimum(self.low, values, out=self.low)
        torch.maximum(self.high, values, out=self.high)
