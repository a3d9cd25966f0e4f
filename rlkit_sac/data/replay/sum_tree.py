"""Sampling in proportion to weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_WIDTH = 32  # weights under one sum


class SumTree:
    """Weights with two levels of sums above them, each of 32 of the level below.

    A draw searches for its mass among the sums of the highest level, then among 32 sums, then among
    32 weights: for all draws of a batch at once, in time that hardly grows with the capacity. A
    sum is always computed from all of its terms, so rounding errors do not accumulate.

    Args:
        capacity: number of weights, which are 0 at first.
        device: the device of the weights, which are float64, on MPS float32.

    Attributes:
        options: ``dtype`` and ``device`` of the weights.

    >>> tree = SumTree(3)
    >>> tree.set(torch.tensor([0, 2]), torch.tensor([1.0, 3.0]))
    >>> indices, probabilities = tree.draw(100)
    >>> sorted(set(zip(indices.tolist(), probabilities.tolist())))
    [(0, 0.25), (2, 0.75)]
    """

    def __init__(self, capacity: int, *, device: torch.device | str = "cpu") -> None:
        self.capacity = capacity
        groups = -(-capacity // _WIDTH**2)
        dtype = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self.options: dict[str, Any] = {"dtype": dtype, "device": device}
        self._weights = torch.zeros(groups * _WIDTH**2, **self.options)
        self._sums = torch.zeros(groups * _WIDTH, **self.options)
        self._top = torch.zeros(groups, **self.options)

    def set(self, indices: Tensor, weights: Tensor) -> None:
        """Set the weights ``[n]`` at indices ``[n]``; of a repeated index the largest counts."""
        self._weights.scatter_reduce_(
            0, indices, weights.to(self._weights), "amax", include_self=False
        )
        self._update_sums(indices)

    def draw(
        self, count: int, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return indices ``[count]``, drawn with probabilities in proportion to their weights.

        Args:
            count: number of draws, with replacement.
            generator: a generator of random numbers. Default: PyTorch's global one.

        Returns:
            The indices, and the probability of each.
        """
        level = self._top
        uniform = torch.rand(count, dtype=level.dtype, device=level.device, generator=generator)
        rows = level.unsqueeze(0)
        cumulated = rows.cumsum(1)
        total = cumulated[0, -1]
        index, weight, mass = _find_by_mass(rows, cumulated, uniform.mul_(total).unsqueeze(0))
        index, mass = index[0], mass.mT
        for level in (self._sums, self._weights):
            rows = level.view(-1, _WIDTH).index_select(0, index)
            within, weight, mass = _find_by_mass(rows, rows.cumsum(1), mass)
            index = index.mul_(_WIDTH).add_(within[:, 0])
        return index, weight[:, 0].div_(total)

    def state_dict(self, count: int) -> dict[str, Any]:
        """Return the first weights.

        Args:
            count: number of weights.
        """
        return {"weights": self._weights[:count].clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the first weights; the others become 0."""
        self._weights.zero_()
        self._weights[: len(state["weights"])] = state["weights"].to(self._weights)
        self._update_sums(torch.arange(0, len(self._weights), _WIDTH, device=self._weights.device))

    def _update_sums(self, indices: Tensor) -> None:
        """Update the sums over weights that changed."""
        for level, sums in ((self._weights, self._sums), (self._sums, self._top)):
            indices = indices.div(_WIDTH, rounding_mode="floor")
            sums[indices] = level.view(-1, _WIDTH).index_select(0, indices).sum(1)


def _find_by_mass(rows: Tensor, cumulated: Tensor, mass: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each row, the index at which a mass falls, its weight, and the rest of the mass.

    Whatever the rounding of sums, the index lies in the row and its weight is not 0.
    """
    below_total = torch.nextafter(cumulated[:, -1:], cumulated.new_zeros(()))
    mass = torch.minimum(mass, below_total)
    index = torch.searchsorted(cumulated, mass, right=True)
    weight = rows.gather(1, index)
    rest = mass.sub_(cumulated.gather(1, index)).add_(weight).clamp_(min=0.0)
    return index, weight, rest
