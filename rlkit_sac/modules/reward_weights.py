"""The weights of a vector reward, shared by a loss and the policies made from its critics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlkit_sac.errors import ConfigError


class RewardWeights(nn.Module):
    """Holds the weights ``[M]`` of a vector reward, or ``None`` for ones.

    A loss and its policies share one object, so that weights assigned during a run reach all of
    them. Only the state dict of a policy holds them. A cast starts from the numbers as they were
    assigned, so that a cast to a higher precision restores it.

    >>> weights = RewardWeights()
    >>> weights.assign([1.0, -0.5], like=torch.zeros(()))
    >>> weights.value
    tensor([ 1.0000, -0.5000])
    """

    value: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", None, persistent=False)
        self._assigned: Tensor | None = None  # as assigned, float64

    def assign(self, weights: Tensor | Sequence[float] | None, *, like: Tensor) -> None:
        """Change the weights.

        Args:
            weights: ``[M]`` finite numbers, or ``None``.
            like: any tensor of the dtype and device wanted.

        Raises:
            ConfigError: for anything else.
        """
        if weights is None:
            self.value = self._assigned = None
            return
        exact = torch.as_tensor(weights, dtype=torch.float64, device="cpu").detach().clone()
        value = exact.to(dtype=like.dtype, device=like.device, copy=True)
        if value.ndim != 1 or not bool(value.isfinite().all()):
            raise ConfigError(
                f"reward_weights must be a list of finite numbers, one for each reward "
                f"dimension, not {value.tolist()}"
            )
        # In place where possible: a compiled update holds these tensors.
        self._assigned = _moved(self._assigned, exact)
        self.value = _moved(self.value, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RewardWeights:
        super()._apply(fn, recurse)
        if self.value is not None:
            self.assign(self._assigned, like=self.value)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}value")
        if saved is not None:  # whether or not there were weights before
            like = saved if self.value is None else self.value
            self.assign(saved, like=like)


def _moved(before: Tensor | None, value: Tensor) -> Tensor:
    """The value, written into the previous tensor where shape, dtype and device agree."""
    if before is None or (before.shape, before.dtype, before.device) != (
        value.shape,
        value.dtype,
        value.device,
    ):
        return value
    return before.copy_(value)
