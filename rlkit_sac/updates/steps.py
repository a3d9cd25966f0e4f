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


Step: TypeAlias = LossStep | TargetStep

#: The steps of an update that are due, in one sequence for each forward pass.
Due: TypeAlias = Sequence[Sequence[Step]]


def split_at_forward_passes(steps: Sequence[Step], *, recompute: bool) -> list[list[Step]]:
    """The steps of an update, in one list for each forward pass.

    Args:
        steps: in their order.
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
    """The steps whose gradients each forward pass gives; one pass of none if no loss step is due.

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
    """Call what the steps that are due consist of, in their order.

    Args:
        due: the steps.
        differentiate: a forward pass, for the steps whose gradients it gives.
        optimizer_step: the step of an optimizer.
        move_targets: a target step.
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
