"""The steps of an update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


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


class Pass(NamedTuple):
    """Steps with the losses of one forward pass.

    Attributes:
        steps: in their order.
        first: whether it is the first one of its update, which writes to the batch.
    """

    steps: tuple[Step, ...]
    first: bool = True

    @property
    def losses(self) -> tuple[LossStep, ...]:
        """The steps that minimize losses."""
        return tuple(step for step in self.steps if isinstance(step, LossStep))


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


def due_passes(blocks: Sequence[Sequence[Step]], count: int) -> list[Pass]:
    """Return the forward passes of an update, with the steps that are due; at least one.

    Args:
        blocks: from :func:`split_at_forward_passes`.
        count: of the update.

    >>> blocks = [[LossStep(("loss_qvalue",), ("qvalue",)), TargetStep()],
    ...           [LossStep(("loss_actor",), ("actor",), period=2)]]
    >>> [len(due_passes(blocks, count)) for count in (1, 2)]
    [1, 2]
    """
    due: list[tuple[Step, ...]] = [()]
    for block in blocks:
        steps = tuple(step for step in block if count % step.period == 0)
        if due[-1] and any(isinstance(step, LossStep) for step in steps):
            due.append(steps)
        else:  # which takes no losses, or the first one
            due[-1] += steps
    return [Pass(steps, first=number == 0) for number, steps in enumerate(due)]
