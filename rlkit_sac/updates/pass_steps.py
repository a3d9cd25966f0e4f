"""The steps of a forward pass, as tensor operations that one graph can contain."""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.optim import Optimizer
from torchrl.objectives import SoftUpdate
from torchrl.objectives.utils import TargetNetUpdater

from rlkit_sac.graph import Held
from rlkit_sac.updates.compiled import Computation
from rlkit_sac.updates.gradients import LossGradients, clip_gradients
from rlkit_sac.updates.optimizer_formulas import has_formula, move_step_counts, take_step
from rlkit_sac.updates.steps import Pass, TargetStep


class PassOutcome(NamedTuple):
    """The result of the steps of a forward pass.

    Attributes:
        scalars: the scalars of :class:`~rlkit_sac.updates.gradients.Losses` and the gradients'
            norms.
        finite: whether all losses and gradients were finite so far, a bool tensor.
        watched: the vector :attr:`~rlkit_sac.updates.gradients.Losses.watched`.
    """

    scalars: dict[str, Tensor]
    finite: Tensor
    watched: Tensor


class PassSteps(Computation[PassOutcome]):
    """A computation that takes the steps of a forward pass: losses, optimizers, targets.

    If a loss or gradient is not finite, no parameter, optimizer state or target changes from then
    on, until :attr:`finite` is set to true again. The state of the optimizers stays in
    ``optimizer.state``. Numbers that schedules change are tensors, set by
    :meth:`copy_hyperparameters`.

    Args:
        gradients: the computation of the losses and their gradients.
        optimizers: the optimizers by name.
        target_updater: the updater of the targets; ``None`` for an update without a target step.

    Attributes:
        finite: whether all losses and gradients were finite so far, a bool tensor.
    """

    def __init__(
        self,
        gradients: LossGradients,
        optimizers: dict[str, Optimizer],
        target_updater: TargetNetUpdater | None,
    ) -> None:
        self.loss_module = gradients.loss_module
        self._gradients, self._optimizers = gradients, optimizers
        self._target_updater = target_updater
        self._rates = {name: _make_lr_tensors(optimizer) for name, optimizer in optimizers.items()}
        device = next(iter(self._rates.values()))[0].device
        self._tau, self._max_norm = (_make_scalar(device) for _ in range(2))
        self.finite = torch.ones((), dtype=torch.bool, device=device)
        self._numbers: list[float] = []

    def is_supported(self) -> bool:
        """Return whether all optimizers and the target updater can be part of a graph."""
        updater = self._target_updater
        known = updater is None or type(updater) is SoftUpdate
        return known and all(map(has_formula, self._optimizers.values()))

    def __call__(self, batch: TensorDictBase, due: Pass) -> PassOutcome:
        """Take the steps that are due; the loss module may add entries to the batch."""
        losses = self._gradients(batch, due)
        finite = self.finite & losses.watched.isfinite().all()
        self.finite.copy_(finite)
        norms: dict[str, Tensor] = {}
        for step in due.steps:
            if isinstance(step, TargetStep):
                self._move_targets(finite)
                continue
            for name, gradients in losses.gradients[step].items():
                norms[f"grad_norm_{name}"] = gradients.norm
                values = clip_gradients(gradients, self._max_norm)
                take_step(self._optimizers[name], values, self._rates[name], finite)
                if hasattr(self.loss_module, "project_parameters"):
                    self.loss_module.project_parameters()
        return PassOutcome(losses.scalars | norms, finite, losses.watched)

    def copy_hyperparameters(self, max_grad_norm: float | None) -> None:
        """Copy learning rates, the rate of the targets and the bound of the norms into tensors.

        Args:
            max_grad_norm: the largest norm of the gradient of each optimizer's parameters.
        """
        updater, optimizers = self._target_updater, self._optimizers.values()
        for optimizer in optimizers:
            move_step_counts(optimizer)
        numbers = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
        numbers += [
            1 - updater.eps if isinstance(updater, SoftUpdate) else 0.0,
            math.inf if max_grad_norm is None else max_grad_norm,
        ]
        if numbers != self._numbers:
            self._numbers = numbers
            tensors = chain(*self._rates.values(), [self._tau, self._max_norm])
            for tensor, value in zip(tensors, numbers, strict=True):
                tensor.fill_(value)

    def used_tensors(self) -> list[Tensor]:
        """Return the tensors that it reads or changes, besides those of the loss module."""
        rates = [rate for rates in self._rates.values() for rate in rates]
        return [*rates, self._tau, self._max_norm, *self.changed_tensors()]

    def changed_tensors(self) -> list[Tensor]:
        """Return the tensors that it changes in place."""
        moments = [
            value
            for optimizer in self._optimizers.values()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        ]
        targets = [target for _, target in self._sources_and_targets()]
        return [self.finite, *self._gradients.used_tensors(), *moments, *targets]

    def dependencies(self) -> list[Held]:
        """Return the objects that a recording depends on, besides the loss module."""
        held: list[Held] = [("Update", self._optimizers, tuple(self._optimizers))]
        for optimizer in self._optimizers.values():
            name = type(optimizer).__name__
            held.append((name, vars(optimizer), ("state", "param_groups")))
            held.append((name, optimizer.state, tuple(optimizer.state)))
            held += [(name, state, tuple(state)) for state in optimizer.state.values()]
            held += [
                (name, group, tuple(key for key in group if key != "lr"))
                for group in optimizer.param_groups
            ]
        return held

    def _sources_and_targets(self) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter that a target follows, with the target."""
        if self._target_updater is None:
            return []
        # Private names: nothing public says which parameters a SoftUpdate follows, and its step
        # takes a number and always moves, where a graph needs a tensor and may move no target.
        sources, targets = self._target_updater._sources, self._target_updater._targets
        return [
            (source, targets.get(("target_" + path[0], *path[1:])))
            for key, source in sources.items(True, True)
            for path in ((key,) if isinstance(key, str) else key,)
        ]

    def _move_targets(self, moves: Tensor) -> None:
        with torch.no_grad():
            for source, target in self._sources_and_targets():
                moved = target.lerp(source, self._tau.to(target.dtype))
                target.copy_(torch.where(moves, moved, target))


def _make_lr_tensors(optimizer: Optimizer) -> list[Tensor]:
    """Make a tensor for the learning rate of each group of parameters."""
    return [_make_scalar(group["params"][0].device) for group in optimizer.param_groups]


def _make_scalar(device: torch.device) -> Tensor:
    """Make a tensor for a number that may change between updates."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.zeros((), dtype=dtype, device=device)
