"""The steps of an update, and the forward passes that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


@dataclass(frozen=True)
class LossStep:
    """A step that minimizes the sum of some losses over the parameters of some optimizers.

    Attributes:
        losses: keys of the loss module's output.
        optimizers: names of the optimizers that take a step.
        period: the number of updates from one such step to the next; 2 is every second update.
        recompute: whether this step and later ones use the losses of a new forward pass. Later
            steps do so even in updates in which this step is not due.
        start: no such step is taken in the first ``start`` updates.
    """

    losses: tuple[str, ...]
    optimizers: tuple[str, ...]
    period: int = 1
    recompute: bool = False
    start: int = 0


@dataclass(frozen=True)
class TargetStep:
    """A step that moves the target networks.

    Attributes:
        period: the number of updates from one such step to the next; 2 is every second update.
    """

    period: int = 1
    start = 0  # no field


Step: TypeAlias = LossStep | TargetStep


class Pass(NamedTuple):
    """A forward pass of the loss module, with the steps that use its losses.

    Attributes:
        steps: the steps, in order.
        first: whether this is the first pass of the update, which writes to the batch.
    """

    steps: tuple[Step, ...]
    first: bool = True

    @property
    def loss_steps(self) -> tuple[LossStep, ...]:
        """Return the steps that minimize losses."""
        return tuple(step for step in self.steps if isinstance(step, LossStep))


def split_at_forward_passes(steps: Sequence[Step], *, recompute: bool) -> list[list[Step]]:
    """Split the steps of an update into one list for each forward pass.

    Args:
        steps: the steps, in the order in which they are taken.
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


def due_passes(blocks: Sequence[Sequence[Step]], update_number: int) -> list[Pass]:
    """Return the forward passes of an update with the steps that are due. There is at least one.

    Args:
        blocks: the result of :func:`split_at_forward_passes`.
        update_number: the number of the update, from 1.

    >>> blocks = [[LossStep(("loss_qvalue",), ("qvalue",)), TargetStep()],
    ...           [LossStep(("loss_actor",), ("actor",), period=2)]]
    >>> [len(due_passes(blocks, update_number)) for update_number in (1, 2)]
    [1, 2]
    """
    due: list[tuple[Step, ...]] = [()]
    for block in blocks:
        started = (step for step in block if update_number > step.start)
        steps = tuple(step for step in started if update_number % step.period == 0)
        if due[-1] and any(isinstance(step, LossStep) for step in steps):
            due.append(steps)
        else:  # the block has no losses that are due, or is the first one
            due[-1] += steps
    return [Pass(steps, first=number == 0) for number, steps in enumerate(due)]
