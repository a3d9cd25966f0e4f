"""An update as a sequence of tensor operations, without a decision in between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.optim import Optimizer
from torchrl.objectives import SoftUpdate

from rlkit_sac.graph import Held
from rlkit_sac.updates.gradients import Losses, LossGradients, clipped
from rlkit_sac.updates.optimizer_formulas import has_formula, place_step_counts, take_step
from rlkit_sac.updates.steps import Due, LossStep, forward_passes, run_steps

if TYPE_CHECKING:
    from rlkit_sac.updates.update import Update


class Outcome(NamedTuple):
    """What is left of an update.

    Attributes:
        scalars: all that the loss module returns, and the gradients' norms.
        finite: bool, whether all that was watched was finite.
        watched: for each forward pass what was watched, as in
            :class:`~rlkit_sac.updates.gradients.Losses`.
    """

    scalars: dict[str, Tensor]
    finite: Tensor
    watched: list[Tensor]


class WholeUpdate:
    """Takes the steps of an update: losses, gradients, optimizers, targets.

    What is not finite moves no parameter, no moment of an optimizer and no target; with
    ``recompute`` neither do the steps after it. Optimizers keep their state where PyTorch has it,
    and numbers that schedules change are inputs: see :meth:`read_numbers`.

    Args:
        update: whose steps are taken.
        gradients: its losses and gradients.
    """

    def __init__(self, update: Update, gradients: LossGradients) -> None:
        self.loss_module = update.loss_module
        self._update, self._gradients = update, gradients
        self._rates = {name: _rates_of(optimizer) for name, optimizer in update.optimizers.items()}
        self._tau, self._largest_norm = (_number(self._device) for _ in range(2))
        self._read: list[list[float]] = []

    def can_be_taken(self) -> bool:
        """Whether the optimizers and the target updater are among those it knows."""
        updater = self._update.target_updater
        known = updater is None or type(updater) is SoftUpdate
        return known and all(map(has_formula, self._update.optimizers.values()))

    def is_ready(self, due: Due) -> bool:
        """Whether the optimizers have a state, which they make in a step's first update."""
        return all(
            self._update.count > step.period for steps in forward_passes(due) for step in steps
        )

    def __call__(self, batch: TensorDictBase, steps: Due) -> Outcome:
        """Take the steps that are due; the batch gains what the loss module writes."""
        passes: list[Losses] = []
        norms: dict[str, Tensor] = {}
        finite = torch.ones((), dtype=torch.bool, device=self._device)

        def differentiate(steps: list[LossStep]) -> None:
            nonlocal finite
            passes.append(self._gradients(batch, steps))
            finite = finite & passes[-1].watched.isfinite().all()

        def optimizer_step(step: LossStep, name: str) -> None:
            gradients = passes[-1].gradients[step][name]
            norms[f"grad_norm_{name}"] = gradients.norm
            values = clipped(gradients, self._largest_norm)
            take_step(self._update.optimizers[name], values, self._rates[name], finite)
            if hasattr(self.loss_module, "project_parameters"):
                self.loss_module.project_parameters()

        run_steps(
            steps,
            differentiate=differentiate,
            optimizer_step=optimizer_step,
            move_targets=lambda: self._move_targets(finite),
        )
        scalars = {name: value for each in passes for name, value in each.scalars.items()}
        return Outcome(scalars | norms, finite, [each.watched for each in passes])

    def read_numbers(self) -> None:
        """Take over learning rates, the rate of the targets and the bound of the gradients."""
        update = self._update
        for name, optimizer in update.optimizers.items():
            place_step_counts(optimizer)
            if len(optimizer.param_groups) != len(self._rates[name]):
                self._rates[name] = _rates_of(optimizer)
                self._read = []
        updater, largest = update.target_updater, update.max_grad_norm
        numbers = [
            [group["lr"] for group in each.param_groups] for each in update.optimizers.values()
        ]
        numbers += [
            [1 - updater.eps if isinstance(updater, SoftUpdate) else 0.0],
            [math.inf if largest is None else largest],
        ]
        if numbers != self._read:
            self._read = numbers
            places = [*self._rates.values(), [self._tau], [self._largest_norm]]
            for own, values in zip(places, numbers, strict=True):
                for place, value in zip(own, values, strict=True):
                    place.fill_(value)

    def tensors(self) -> list[Tensor]:
        """What it reads or changes besides the loss module's parameters and buffers."""
        rates = [rate for rates in self._rates.values() for rate in rates]
        numbers = [*rates, self._tau, self._largest_norm]
        return [*numbers, *self._gradients.tensors(), *self.changes()]

    def changes(self) -> list[Tensor]:
        """What it changes in place."""
        moments = [
            value
            for optimizer in self._update.optimizers.values()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        ]
        targets = [target for _, target in self._pairs()]
        return [*self._gradients.tensors(), *moments, *targets]

    def holds(self) -> list[Held]:
        """What must be as it was for a recording to be of use, besides the loss module."""
        optimizers = self._update.optimizers
        held: list[Held] = [("Update", each, tuple(each)) for each in (optimizers, self._rates)]
        for optimizer in optimizers.values():
            name = type(optimizer).__name__
            held.append((name, vars(optimizer), ("state", "param_groups")))
            held.append((name, optimizer.state, tuple(optimizer.state)))
            held += [(name, state, tuple(state)) for state in optimizer.state.values()]
            held += [
                (name, group, tuple(key for key in group if key != "lr"))
                for group in optimizer.param_groups
            ]
        return held

    @property
    def _device(self) -> torch.device:
        return next(iter(self._rates.values()))[0].device

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        """The networks that targets follow, and the targets."""
        if self._update.target_updater is None:
            return []
        sources, targets = (
            self._update.target_updater._sources,
            self._update.target_updater._targets,
        )
        return [
            (source, targets.get(("target_" + path[0], *path[1:])))
            for key, source in sources.items(True, True)
            for path in ((key,) if isinstance(key, str) else key,)
        ]

    def _move_targets(self, moves: Tensor) -> None:
        with torch.no_grad():
            for source, target in self._pairs():
                moved = target.lerp(source, self._tau.to(target.dtype))
                target.copy_(torch.where(moves, moved, target))


def _rates_of(optimizer: Optimizer) -> list[Tensor]:
    """A place for the learning rate of each group of parameters."""
    return [_number(group["params"][0].device) for group in optimizer.param_groups]


def _number(device: torch.device) -> Tensor:
    """A place for a number that may change between updates."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.zeros((), dtype=dtype, device=device)
