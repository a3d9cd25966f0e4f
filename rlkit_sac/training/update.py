"""One update: an ordered list of gradient steps and the move of the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.optim import Optimizer
from torchrl.objectives import LossModule
from torchrl.objectives.utils import TargetNetUpdater

from rlkit_sac.capture import Products, matrix_products
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.training.compiled_gradients import CompiledLossGradients
from rlkit_sac.training.gradients import Gradients, Losses, LossGradients, laid_out_like
from rlkit_sac.training.steps import LossStep, TargetStep


class Update:
    r"""Runs a loss module, its optimizers and its target updater in a given order.

    The published systems differ in what "one update" is: all losses at once, or temperature,
    critic and actor one after the other, with some steps taken at every second update only. Here
    that is a list. By default all losses of an update come from one forward pass, their gradients
    are taken first, and the steps follow in order; with ``recompute`` every step sees the
    parameters the one before it left, or those from some steps on.

    Args:
        loss_module: any TorchRL loss module.
        optimizers: by name; each parameter belongs to one optimizer.
        steps: the order of the update.
        target_updater: TorchRL's ``SoftUpdate`` or ``HardUpdate`` of ``loss_module``; needed for a
            :class:`TargetStep`.
        max_grad_norm: largest norm of the gradient of each optimizer's parameters.
        recompute: run the loss module anew for every step, as for single ones their ``recompute``.
        compile_from: count of the first update whose losses and gradients are computed by one
            compiled graph (:class:`CompiledLossGradients`), equal within rounding; ``None`` for no
            update.
        products: which kernels multiply float32 matrices on a CPU, as
            :func:`~rlkit_sac.capture.matrix_products` takes them.

    Raises:
        ConfigError: for a step that names an unknown optimizer or no loss, or a missing updater; in
            the call, for an optimizer whose parameters the losses do not depend on.
        RunError: in the call, for a loss or gradient that is not finite, before any parameter moves
            (with ``recompute``: before those of that step do).

    >>> import torch
    >>> from torchrl.objectives import SoftUpdate
    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> from tensordict import TensorDict
    >>> from torchrl.modules import QValueActor
    >>> from torchrl.objectives import DQNLoss
    >>> actor = QValueActor(torch.nn.Linear(3, 2), in_keys=["observation"], action_space="one-hot")
    >>> loss = DQNLoss(actor, action_space="one-hot", delay_value=True)
    >>> update = Update(
    ...     loss,
    ...     {"value": torch.optim.SGD(loss.parameters(), 0.1)},
    ...     [LossStep(("loss",), ("value",)), TargetStep(period=2)],
    ...     target_updater=SoftUpdate(loss, tau=0.005),
    ... )
    >>> batch = TensorDict(
    ...     observation=torch.ones(4, 3),
    ...     action=torch.eye(2)[[0, 1, 0, 1]],
    ...     next=TensorDict(
    ...         observation=torch.ones(4, 3),
    ...         reward=torch.ones(4, 1),
    ...         done=torch.zeros(4, 1, dtype=torch.bool),
    ...         terminated=torch.zeros(4, 1, dtype=torch.bool),
    ...         batch_size=[4],
    ...     ),
    ...     batch_size=[4],
    ... )
    >>> sorted(update(batch))
    ['grad_norm_value', 'loss']
    """

    def __init__(
        self,
        loss_module: LossModule,
        optimizers: Mapping[str, Optimizer],
        steps: Sequence[LossStep | TargetStep],
        *,
        target_updater: TargetNetUpdater | None = None,
        max_grad_norm: float | None = None,
        recompute: bool = False,
        compile_from: int | None = None,
        products: Products = "auto",
    ) -> None:
        self.loss_module = loss_module
        self.optimizers = dict(optimizers)
        self.steps = tuple(steps)
        self.target_updater = target_updater
        self.max_grad_norm = max_grad_norm
        self.recompute = recompute
        self.compile_from = compile_from
        self.products = products
        self.count = 0
        self._blocks = self._split_at_forward_passes()
        self._check()
        parameters = {name: self._parameters(name) for name in self.optimizers}
        self._uncompiled = LossGradients(loss_module, parameters)
        self._compiled = CompiledLossGradients(self._uncompiled, bfloat16=products == "bfloat16")

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """What a call returns, if every step is due."""
        return (*self.loss_module.out_keys, *(f"grad_norm_{name}" for name in self.optimizers))

    def __call__(self, batch: TensorDictBase) -> dict[str, Tensor]:
        """Take the steps that are due.

        Args:
            batch: what the loss module reads; it gains what the loss module writes (priorities).

        Returns:
            The loss module's scalars and ``grad_norm_<optimizer>`` (before clipping), on the
            device, without gradients; with ``recompute`` those of the last forward pass.
        """
        self.count += 1
        scalars: dict[str, Tensor] = {}
        for block in self._blocks:
            due = [step for step in block if self.count % step.period == 0]
            loss_steps = [step for step in due if isinstance(step, LossStep)]
            if loss_steps:
                gradients = self._differentiate(batch, loss_steps, scalars)
            for step in due:
                if isinstance(step, TargetStep):
                    assert self.target_updater is not None
                    self.target_updater.step()
                    continue
                for name in step.optimizers:
                    scalars[f"grad_norm_{name}"] = self._descend(name, gradients[step][name])
        if not scalars:  # no step on a loss was due
            self._differentiate(batch, [], scalars)
        return scalars

    def state_dict(self) -> dict[str, Any]:
        """Updates made, and the state of each optimizer in the form of ``torch.optim``."""
        return {
            "count": self.count,
            "optimizers": {name: each.state_dict() for name, each in self.optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with the learning rates and other settings this update was given.

        Raises:
            ValueError: if the optimizers are others than those of the state.
        """
        if set(state["optimizers"]) != set(self.optimizers):
            raise ValueError(
                f"the state has the optimizers {sorted(state['optimizers'])}, this update has "
                f"{sorted(self.optimizers)}"
            )
        self.count = state["count"]
        for name, optimizer in self.optimizers.items():
            parameters = self._parameters(name)
            moments = {
                index: {
                    key: laid_out_like(value, parameters[index])
                    if torch.is_tensor(value) and value.shape == parameters[index].shape
                    else value
                    for key, value in entry.items()
                }
                for index, entry in state["optimizers"][name]["state"].items()
            }
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})

    def _differentiate(
        self, batch: TensorDictBase, steps: Sequence[LossStep], scalars: dict[str, Tensor]
    ) -> Mapping[LossStep, Mapping[str, Gradients]]:
        """Gradients of one forward pass; adds what it reports to the scalars."""
        compiled = self.compile_from is not None and self.count >= self.compile_from
        with matrix_products(self.products):
            losses = (self._compiled if compiled else self._uncompiled)(batch, steps)
        scalars |= losses.scalars
        if not losses.finite:
            self._refuse(losses)
        return losses.gradients

    def _refuse(self, losses: Losses) -> NoReturn:
        """Name what would spoil parameters, before any of them moves."""
        values = {name: losses.scalars[name] for step in losses.gradients for name in step.losses}
        for found in losses.gradients.values():
            for name, gradient in found.items():
                values[f"the gradient norm of {name}"] = gradient.norm
        bad = ", ".join(
            f"{name} is {value.item()}" for name, value in values.items() if not value.isfinite()
        )
        raise RunError(
            f"{bad} in update {self.count}; no parameter was changed by it. Lower the learning "
            "rates, bound the gradients (update.max_grad_norm) or scale the rewards "
            "(loss.reward_scale)"
        )

    def _descend(self, name: str, gradients: Gradients) -> Tensor:
        norm = gradients.norm
        parameters = self._parameters(name)
        factor = None
        if self.max_grad_norm is not None:
            factor = (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter, gradient in zip(parameters, gradients.values, strict=True):
            if gradient is not None:
                gradient = laid_out_like(gradient, parameter)
                # Not in place: parameters that are added to each other share their gradient.
                gradient = gradient if factor is None else gradient * factor
            parameter.grad = gradient
        self.optimizers[name].step()
        if hasattr(self.loss_module, "project_parameters"):
            self.loss_module.project_parameters()
        return norm

    def _parameters(self, name: str) -> list[Tensor]:
        return [p for group in self.optimizers[name].param_groups for p in group["params"]]

    def _split_at_forward_passes(self) -> list[list[LossStep | TargetStep]]:
        """The steps, in one list for each forward pass."""
        blocks: list[list[LossStep | TargetStep]] = [[]]
        for step in self.steps:
            if isinstance(step, LossStep) and (self.recompute or step.recompute):
                blocks.append([])
            blocks[-1].append(step)
        return blocks

    def _check(self) -> None:
        for block in self._blocks:
            if len(set(block)) != len(block):
                raise ConfigError(
                    "the update takes the same step twice with the losses of one forward pass: "
                    "pass recompute=True"
                )
        for step in self.steps:
            if step.period < 1:
                raise ConfigError(f"the period of {step} must be at least 1")
            if isinstance(step, TargetStep):
                if self.target_updater is None:
                    raise ConfigError(
                        "the update has a TargetStep but no target_updater: pass "
                        "SoftUpdate(loss_module, tau=...)"
                    )
                continue
            if not step.losses or not step.optimizers:
                raise ConfigError(f"{step} must name at least one loss and one optimizer")
            for name in step.optimizers:
                if name not in self.optimizers:
                    raise ConfigError(
                        f"{step} names the optimizer {name!r}, but there are "
                        f"{', '.join(map(repr, self.optimizers))}"
                    )
            for loss in step.losses:
                if loss not in self.loss_module.out_keys:
                    raise ConfigError(
                        f"{step} names {loss!r}, but {type(self.loss_module).__name__} writes "
                        f"{', '.join(map(repr, self.loss_module.out_keys))}"
                    )
