"""The steps of an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class LossStep:
    """Minimize the sum of some losses over the parameters of some optimizers.

    Attributes:
        losses: keys of the loss module's output.
        optimizers: names of the optimizers that take a step.
        period: 2 takes the step at every second update.
        recompute: whether this step and those after it use the losses of a new forward pass; this
            holds for those after it in updates in which this step is not due, too.
    """

    losses: tuple[str, ...]
    optimizers: tuple[str, ...]
    period: int = 1
    recompute: bool = False


@dataclass(frozen=True)
class TargetStep:
    """Move the target networks.

    Attributes:
        period: 2 moves them at every second update.
    """

    period: int = 1


Step: TypeAlias = LossStep | TargetStep

#: The steps of an update that are due, one sequence for each forward pass.
Due: TypeAlias = Sequence[Sequence[Step]]


def split_at_forward_passes(steps: Sequence[Step], *, recompute: bool) -> list[list[Step]]:
    """Split the steps of an update into one list for each forward pass.

    Args:
        steps: in the order in which they are taken.
        recompute: whether every loss step has a forward pass of its own.

    >>> steps = [LossStep(("loss_qvalue",), ("qvalue",)), LossStep(("loss_actor",), ("actor",))]
    >>> [len(block) for block in split_at_forward_passes(steps, recompute=False)]
    [2]
    >>> [len(block) for block in split_at_forward_passes(steps, recompute=True)]
    [1, 1]
    """
    blocks: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step, LossStep) and (recompute or step.recompute):
            blocks.append([])
        blocks[-1].append(step)
    return [block for block in blocks if block]


def forward_passes(due: Due) -> list[list[LossStep]]:
    """Return the loss steps of each forward pass; a single empty pass if no loss step is due.

    >>> forward_passes([[TargetStep()]])
    [[]]
    """
    losses = [[step for step in block if isinstance(step, LossStep)] for block in due]
    return [each for each in losses if each] or [[]]


def run_steps(
    due: Due,
    *,
    differentiate: Callable[[list[LossStep]], Any],
    optimizer_step: Callable[[LossStep, str], Any],
    move_targets: Callable[[], Any],
) -> None:
    """Take the steps that are due, in their order.

    Args:
        due: the steps.
        differentiate: makes a forward pass and computes the gradients of its loss steps.
        optimizer_step: takes the step of an optimizer for a loss step.
        move_targets: moves the target networks.
    """
    passes = iter(forward_passes(due))
    for block in due:
        if any(isinstance(step, LossStep) for step in block):
            differentiate(next(passes))
        for step in block:
            if isinstance(step, TargetStep):
                move_targets()
                continue
            for name in step.optimizers:
                optimizer_step(step, name)
    for steps in passes:  # no loss step was due
        differentiate(steps)
