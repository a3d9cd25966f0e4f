"""A batch as the losses read it."""

from __future__ import annotations

from dataclasses import dataclass

from tensordict import TensorDictBase
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """A batch ``[*]`` that has been checked.

    Attributes:
        batch: the entries that the losses read, with zeros in invalid steps.
        states: the inputs of networks and priors at s.
        next_states: the same at s'.
        valid: bool ``[*]``; ``None`` if every step is valid.
    """

    batch: TensorDictBase
    states: TensorDictBase
    next_states: TensorDictBase
    valid: Tensor | None
