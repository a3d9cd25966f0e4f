"""The steps that an update is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossStep:
    """Minimize the sum of some losses over the parameters of some optimizers.

    Attributes:
        losses: keys of the loss module's output.
        optimizers: names of the optimizers that step.
        period: updates between two of these steps; 2 takes it at every second update.
        recompute: whether the losses are computed anew from here on, for this step and those after
            it; also in updates in which this step is not due.
    """

    losses: tuple[str, ...]
    optimizers: tuple[str, ...]
    period: int = 1
    recompute: bool = False


@dataclass(frozen=True)
class TargetStep:
    """Move the target networks.

    Attributes:
        period: updates between two moves.
    """

    period: int = 1
