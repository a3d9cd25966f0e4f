"""Averages of what the updates report, between two rows of the log."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class MetricsAverage:
    """Collects scalars on their device and reduces them once for each row.

    Names that end in ``_min`` and ``_max`` are reduced by minimum and maximum, the others by mean.
    The values reach the host only in :meth:`compute`, so logging does not stall a GPU.

    >>> average = MetricsAverage()
    >>> average.add({"alpha": torch.tensor(1.0), "q0_min": torch.tensor(-2.0)})
    >>> average.add({"alpha": torch.tensor(2.0), "q0_min": torch.tensor(-1.0)})
    >>> average.compute()
    {'alpha': 1.5, 'q0_min': -2.0}
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[Tensor]] = {}

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Take in the scalars of one update."""
        for name, value in scalars.items():
            self._rows.setdefault(name, []).append(value)

    def compute(self) -> dict[str, float]:
        """The reduced values since the last call, in the order of first appearance."""
        reduced = [_reduce(name, torch.stack(rows)) for name, rows in self._rows.items()]
        values = torch.stack(reduced).tolist() if reduced else []
        names = list(self._rows)
        self._rows = {}
        return dict(zip(names, values, strict=True))


def _reduce(name: str, values: Tensor) -> Tensor:
    if name.endswith("_min"):
        return values.min()
    if name.endswith("_max"):
        return values.max()
    return values.mean()
