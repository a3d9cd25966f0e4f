"""The steps that an update is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class LossStep:
    """Minimize the sum of some losses over the parameters of some optimizers.

    Attributes:
        losses: keys of the loss module's output.
        optimizers: names of the optimizers that step.
        period: updates between two of these steps; 2 takes it at every second update.
    """

    losses: tuple[str, ...]
    optimizers: tuple[str, ...]
    period: int = 1


@dataclass(frozen=True)
class TargetStep:
    """Move the target networks.

    Attributes:
        period: updates between two moves.
    """

    period: int = 1


Step: TypeAlias = LossStep | TargetStep


def forward_passes(due: Sequence[Step], *, recompute: bool) -> list[list[LossStep]]:
    """The steps whose gradients come from each forward pass of an update.

    >>> steps = [LossStep(("loss_qvalue",), ("qvalue",)), LossStep(("loss_actor",), ("actor",))]
    >>> [len(each) for each in forward_passes(steps, recompute=True)]
    [1, 1]
    >>> [len(each) for each in forward_passes(steps, recompute=False)]
    [2]
    """
    losses = [step for step in due if isinstance(step, LossStep)]
    return [[step] for step in losses] if recompute and losses else [losses]


def carry_out(
    due: Sequence[Step],
    *,
    recompute: bool,
    differentiate: Callable[[list[LossStep]], Any],
    descend: Callable[[LossStep, str], Any],
    move_targets: Callable[[], Any],
) -> None:
    """Call what the steps that are due consist of, in their order.

    Args:
        due: the steps.
        recompute: whether every loss step has a forward pass of its own.
        differentiate: a forward pass, for the steps whose gradients it gives.
        descend: the step of an optimizer.
        move_targets: a target step.
    """
    passes = iter(forward_passes(due, recompute=recompute))
    anew = recompute and any(isinstance(step, LossStep) for step in due)
    if not anew:
        differentiate(next(passes))
    for step in due:
        if isinstance(step, TargetStep):
            move_targets()
            continue
        if anew:
            differentiate(next(passes))
        for name in step.optimizers:
            descend(step, name)
