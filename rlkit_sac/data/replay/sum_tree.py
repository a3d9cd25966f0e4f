"""Weights of many places, drawn from in proportion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_WIDTH = 32  # weights under one sum


class SumTree:
    """Weights with two levels of sums above them, each of 32 of the level below.

    A draw looks for its mass among the sums of the highest level, then among 32 sums, then among 32
    weights: for all draws of a batch at once, in time that hardly grows with the capacity. Sums are
    always taken anew from what they add up, so no rounding error builds up.

    Args:
        capacity: number of places; their weights are 0 at first.
        device: where the weights lie, in float64.

    >>> tree = SumTree(3)
    >>> tree.set(torch.tensor([0, 2]), torch.tensor([1.0, 3.0]))
    >>> tree.total
    tensor(4., dtype=torch.float64)
    >>> places, probabilities = tree.draw(100)
    >>> sorted(set(zip(places.tolist(), probabilities.tolist())))
    [(0, 0.25), (2, 0.75)]
    """

    def __init__(self, capacity: int, *, device: torch.device | str = "cpu") -> None:
        self.capacity = capacity
        groups = -(-capacity // _WIDTH**2)
        options: dict[str, Any] = {"dtype": torch.float64, "device": device}
        self._weights = torch.zeros(groups * _WIDTH**2, **options)
        self._sums = torch.zeros(groups * _WIDTH, **options)
        self._top = torch.zeros(groups, **options)

    @property
    def total(self) -> Tensor:
        """The sum of all weights, a scalar."""
        return self._top.sum()

    def get(self, places: Tensor) -> Tensor:
        """The weights ``[n]`` of some places ``[n]``."""
        return self._weights[places]

    def set(self, places: Tensor, weights: Tensor) -> None:
        """Give places ``[n]`` new weights ``[n]``; the largest counts where a place is repeated."""
        self._weights.scatter_reduce_(
            0, places, weights.to(self._weights), "amax", include_self=False
        )
        self._add_up(places)

    def draw(
        self, count: int, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Places ``[count]``, drawn with probabilities in proportion to their weights.

        Args:
            count: number of draws, with replacement.
            generator: of random numbers; default PyTorch's global one.

        Returns:
            The places, and the probability of each.
        """
        level = self._top
        uniform = torch.rand(count, dtype=level.dtype, device=level.device, generator=generator)
        rows = level.unsqueeze(0)
        cumulated = rows.cumsum(1)
        total = cumulated[0, -1]
        place, weight, mass = _find(rows, cumulated, uniform.mul_(total).unsqueeze(0))
        place, mass = place[0], mass.mT
        for level in (self._sums, self._weights):
            rows = level.view(-1, _WIDTH).index_select(0, place)
            within, weight, mass = _find(rows, rows.cumsum(1), mass)
            place = place.mul_(_WIDTH).add_(within[:, 0])
        return place, weight[:, 0].div_(total)

    def state_dict(self, count: int) -> dict[str, Any]:
        """The weights of the first places.

        Args:
            count: of places.
        """
        return {"weights": self._weights[:count].clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over weights; those of further places become 0."""
        self._weights.zero_()
        self._weights[: len(state["weights"])] = state["weights"].to(self._weights)
        self._add_up(torch.arange(0, len(self._weights), _WIDTH, device=self._weights.device))

    def _add_up(self, places: Tensor) -> None:
        """Make the sums right again where weights are new."""
        for level, sums in ((self._weights, self._sums), (self._sums, self._top)):
            places = places.div(_WIDTH, rounding_mode="floor")
            sums[places] = level.view(-1, _WIDTH).index_select(0, places).sum(1)


def _find(rows: Tensor, cumulated: Tensor, mass: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In each row the place under which a mass falls, its weight, and what is left of the mass.

    However sums were rounded, the place is not beyond the row's end and its weight not 0.
    """
    below_total = torch.nextafter(cumulated[:, -1:], cumulated.new_zeros(()))
    mass = torch.minimum(mass, below_total)
    place = torch.searchsorted(cumulated, mass, right=True)
    weight = rows.gather(1, place)
    rest = mass.sub_(cumulated.gather(1, place)).add_(weight).clamp_(min=0.0)
    return place, weight, rest
