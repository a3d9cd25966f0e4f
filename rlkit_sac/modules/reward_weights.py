"""The weights of a vector reward, shared by a loss and the policies made from its critics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class RewardWeights(nn.Module):
    """Holds the weights ``[M]`` of a vector reward in a buffer, or ``None`` for ones.

    A loss and its policies share one object, so that weights assigned during a run reach all of
    them. Only the state dict of a policy holds them. A cast begins with the numbers as they were
    assigned, so that one to a higher precision loses nothing.

    >>> weights = RewardWeights()
    >>> weights.assign([1.0, -0.5], like=torch.zeros(()))
    >>> weights.value
    tensor([ 1.0000, -0.5000])
    """

    value: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", None, persistent=False)
        self._assigned: list[float] = []

    def assign(self, weights: Tensor | Sequence[float] | None, *, like: Tensor) -> None:
        """Change the weights.

        Args:
            weights: ``[M]`` numbers, or ``None``.
            like: any tensor of the dtype and device wanted.
        """
        if weights is None:
            self.value = None
            return
        self._assigned = [float(weight) for weight in weights]
        value = torch.tensor(self._assigned, dtype=like.dtype, device=like.device)
        if self.value is not None and self.value.shape == value.shape:
            self.value.copy_(value)  # a compiled update holds this tensor
        else:
            self.value = value

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RewardWeights:
        super()._apply(fn, recurse)
        if self.value is not None:
            self.assign(self._assigned, like=self.value)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}value")
        if saved is not None:  # whether or not there were weights before
            self.assign(saved, like=saved if self.value is None else self.value)
