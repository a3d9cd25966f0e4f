"""One update: an ordered list of gradient steps and the move of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim import Optimizer
from torchrl.objectives import LossModule
from torchrl.objectives.utils import TargetNetUpdater

from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.graph import MatmulPrecision, set_matmul_precision
from rlkit_sac.updates.compiled import CompiledComputation
from rlkit_sac.updates.gradients import (
    Gradients,
    LossGradients,
    clip_gradients,
    loss_and_norm_names,
    match_strides,
)
from rlkit_sac.updates.pass_steps import PassOutcome, PassSteps
from rlkit_sac.updates.process_group import average_losses, broadcast
from rlkit_sac.updates.steps import (
    LossStep,
    Pass,
    TargetStep,
    due_passes,
    split_at_forward_passes,
)

#: The number of compiled passes on a GPU between checks that their losses were finite.
MOST_UNCHECKED = 100


@dataclass(eq=False, repr=False)
class Update:
    r"""One update of a loss module: gradient steps and moves of the targets, in a given order.

    Published systems differ in their updates: some minimize all losses at once, others train
    temperature, critic and actor one after the other, some of them only at every second update.
    Here an update is a list of steps. By default all losses of an update come from one forward
    pass, and their gradients are computed before the first step is taken. With ``recompute`` each
    step has a forward pass of its own, with the parameters that the step before it has left. Then
    the first pass gives all scalars and writes to the batch; later passes only give losses.

    Args:
        loss_module: any TorchRL loss module that returns a TensorDict with a scalar for each loss.
        optimizers: the optimizers by name; each parameter belongs to one optimizer.
        steps: the steps, in the order in which they are taken.
        target_updater: TorchRL's ``SoftUpdate`` or ``HardUpdate`` of ``loss_module``; required by a
            :class:`TargetStep`.
        max_grad_norm: the largest norm of the gradient of each optimizer's parameters.
        recompute: whether every step runs the loss module again; see :class:`LossStep` for single
            steps.
        compile_from: the count of the first update that runs as compiled graphs, equal up to
            rounding; ``None`` compiles no update. The first update of each step is never compiled,
            because optimizers create their state in it. Graphs contain Adam, AdamW and RMSprop with
            the options that the documentation lists, and ``SoftUpdate``. With other optimizers or
            updaters, graphs end with the gradients.
        matmul_precision: the kernels of float32 matrix products on a CPU, see
            :func:`~rlkit_sac.graph.set_matmul_precision`. With ``"bfloat16"`` compiled updates
            round the factors of hidden layers' products, if the processor or GPU has instructions
            for it.
        cuda_graph: whether to capture compiled updates as CUDA graphs on a GPU; not with
            ``"bfloat16"``.
        group: processes that make the same updates, each with its share of a batch, such as
            ``torch.distributed.group.WORLD``. All processes start with the parameters and buffers
            of the first one. Gradients, losses and other scalars are averaged over processes before
            clipping. So if the losses are means and the shares are equal, the update equals the
            update with the joint batch. Compiled graphs end with the gradients. Default: a single
            process.

    Raises:
        ConfigError: for a step that names an unknown optimizer or loss, a missing updater, and
            compiled updates on MPS; in the call, for a loss module that does not return scalar
            losses, and for an optimizer whose parameters the losses do not depend on.
        RunError: in the call, if a process of ``group`` is lost, and for a loss or gradient that is
            not finite, in all processes and before any parameter changes (with ``recompute``,
            before this step changes any). For compiled updates on a GPU the error comes up to
            :data:`MOST_UNCHECKED` updates later.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> from torchrl.modules import QValueActor
    >>> from torchrl.objectives import DQNLoss, SoftUpdate
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

    loss_module: LossModule
    optimizers: Mapping[str, Optimizer]
    steps: Sequence[LossStep | TargetStep]
    _: KW_ONLY
    target_updater: TargetNetUpdater | None = None
    max_grad_norm: float | None = None
    recompute: bool = False
    compile_from: int | None = None
    matmul_precision: MatmulPrecision = "auto"
    cuda_graph: bool = False
    group: ProcessGroup | None = None

    def __post_init__(self) -> None:
        loss_module, group = self.loss_module, self.group
        self.optimizers = optimizers = dict(self.optimizers)
        self.steps = tuple(self.steps)
        self.count = 0
        self._unchecked: list[tuple[int, Pass, PassOutcome]] = []
        self._blocks = split_at_forward_passes(self.steps, recompute=self.recompute)
        self._check_options()
        if group is not None:
            broadcast([*loss_module.parameters(), *loss_module.buffers()], group)
            if getattr(loss_module, "target_subset", None) is not None:
                device = next(loss_module.parameters()).device
                loss_module.critic_order = torch.arange(loss_module.num_qvalue_nets, device=device)
        parameters = {name: self._parameters(name) for name in optimizers}
        is_bfloat16 = self.matmul_precision == "bfloat16"
        options = {"bfloat16": is_bfloat16, "cuda_graph": self.cuda_graph}
        self._gradients = LossGradients(loss_module, parameters)
        self._compiled_gradients = CompiledComputation(self._gradients, **options)
        self._pass_steps = PassSteps(self._gradients, optimizers, self.target_updater)
        self._compiled_steps = CompiledComputation(self._pass_steps, **options)

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """The keys of the scalars that a call returns if every step is due.

        A loss module without ``out_keys``, as some of TorchRL's, has the losses of the steps.
        """
        losses = (name for step in self.steps if isinstance(step, LossStep) for name in step.losses)
        out_keys = getattr(self.loss_module, "out_keys", None) or dict.fromkeys(losses)
        return (*out_keys, *(f"grad_norm_{name}" for name in self.optimizers))

    def __call__(self, batch: TensorDictBase) -> dict[str, Tensor]:
        """Take the steps that are due.

        Args:
            batch: the input of the loss module, which may add entries to it (priorities).

        Returns:
            The scalars of the loss module and ``grad_norm_<optimizer>`` (before clipping), detached
            and on their device.
        """
        self.count += 1
        order = getattr(self.loss_module, "critic_order", None)
        if order is not None:  # all processes must draw the same order
            shared = torch.Generator().manual_seed(self.count)
            order.copy_(torch.randperm(len(order), generator=shared))
        passes = due_passes(self._blocks, self.count)
        # Optimizers create their state in the first step.
        is_first = any(self.count <= s.start + s.period for due in passes for s in due.loss_steps)
        reached = self.compile_from is not None and self.count >= self.compile_from
        compiled = reached and not is_first
        in_graph = compiled and self.group is None and self._pass_steps.is_supported()
        scalars: dict[str, Tensor] = {}
        with set_matmul_precision(self.matmul_precision):
            if in_graph:
                self._pass_steps.copy_hyperparameters(self.max_grad_norm)
            for due in passes:
                outcome = self._compiled_steps(batch, due) if in_graph else None
                if outcome is None:
                    scalars |= self._take_steps(batch, due, compiled=compiled and not in_graph)
                    continue
                scalars |= outcome.scalars
                self._unchecked.append((self.count, due, outcome))
                if outcome.finite.device.type == "cpu" or len(self._unchecked) >= MOST_UNCHECKED:
                    self.check_finite()
        return scalars

    def check_finite(self) -> None:
        """Check the losses and gradients of compiled updates since the last check.

        On a GPU the check waits for the device. It is therefore made only every 100 compiled
        passes, and by :meth:`state_dict`.

        Raises:
            RunError: for a loss or gradient that was not finite, whose step was not taken.
        """
        unchecked, self._unchecked = self._unchecked, []
        if unchecked and not torch.stack([outcome.finite for *_, outcome in unchecked]).all():
            self._pass_steps.finite.fill_(True)
            count, due, outcome = next(entry for entry in unchecked if not entry[2].finite)
            self._raise_not_finite(due, outcome.watched, count)

    @property
    def num_graphs(self) -> int:
        """The number of graphs that were compiled so far."""
        return self._compiled_gradients.num_graphs + self._compiled_steps.num_graphs

    def _take_steps(self, batch: TensorDictBase, due: Pass, *, compiled: bool) -> dict[str, Tensor]:
        """Take the steps of a forward pass, after its gradients, which a graph may compute."""
        self.check_finite()  # the compiled passes before this one
        loss_pass = Pass(due.loss_steps, due.first)
        losses = self._compiled_gradients(batch, loss_pass) if compiled else None
        if losses is None:
            losses = self._gradients(batch, due)
        if self.group is not None:
            losses = average_losses(losses, self.group)
        if not losses.watched.isfinite().all():
            self._raise_not_finite(due, losses.watched, self.count)
        norms: dict[str, Tensor] = {}
        for step in due.steps:
            if isinstance(step, TargetStep):
                assert self.target_updater is not None
                self.target_updater.step()
                continue
            for name, gradients in losses.gradients[step].items():
                norms[f"grad_norm_{name}"] = gradients.norm
                self._optimizer_step(name, gradients)
        return losses.scalars | norms

    def announce_compiling(self, context: Callable[[], AbstractContextManager[object]]) -> None:
        """Compile graphs in a context from now on, such as one that tells the user about the delay.

        Args:
            context: a function that makes the context, called for each graph.
        """
        self._compiled_gradients.compile_context = context
        self._compiled_steps.compile_context = context

    def state_dict(self) -> dict[str, Any]:
        """Return the count of updates, and the ``state_dict`` of each optimizer."""
        self.check_finite()
        return {
            "count": self.count,
            "optimizers": {key: value.state_dict() for key, value in self.optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state; learning rates and other settings stay those of this update.

        Raises:
            ValueError: if the optimizers in the state have other names.
        """
        if set(state["optimizers"]) != set(self.optimizers):
            raise ValueError(
                f"the state has the optimizers {sorted(state['optimizers'])}, this update has "
                f"{sorted(self.optimizers)}"
            )
        self.count, self._unchecked = state["count"], []
        self._pass_steps.finite.fill_(True)
        for name, optimizer in self.optimizers.items():
            parameters = self._parameters(name)
            moments = {
                index: {key: _fit_moment(value, parameters[index]) for key, value in entry.items()}
                for index, entry in state["optimizers"][name]["state"].items()
            }
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})

    def _raise_not_finite(self, due: Pass, watched: Tensor, count: int) -> NoReturn:
        """Raise an error that names the losses and gradients that are not finite."""
        values = zip(loss_and_norm_names(due.loss_steps), watched.tolist(), strict=True)
        bad = ", ".join(f"{name} is {value}" for name, value in values if not math.isfinite(value))
        raise RunError(
            f"{bad} in update {count}; its step was not taken. Lower the learning rates, "
            "bound the gradients (update.max_grad_norm) or scale the rewards "
            "(loss.reward_scale)"
        )

    def _optimizer_step(self, name: str, gradients: Gradients) -> None:
        values = clip_gradients(gradients, self.max_grad_norm)
        for parameter, value in zip(self._parameters(name), values, strict=True):
            # Fused optimizers read a gradient in the memory order of the parameter.
            parameter.grad = None if value is None else match_strides(value, parameter)
        self.optimizers[name].step()
        if hasattr(self.loss_module, "project_parameters"):
            self.loss_module.project_parameters()

    def _parameters(self, name: str) -> list[Tensor]:
        return [p for group in self.optimizers[name].param_groups for p in group["params"]]

    def _check_options(self) -> None:
        if self.compile_from is not None and next(self.loss_module.parameters()).is_mps:
            raise ConfigError("updates on MPS cannot be compiled: set compile to false")
        for block in self._blocks:
            if len(set(block)) != len(block):
                raise ConfigError(
                    "the update takes the same step twice with the losses of one forward pass: "
                    "pass recompute=True"
                )
        for step in self.steps:
            if isinstance(step, TargetStep):
                if self.target_updater is None:
                    raise ConfigError(
                        "the update has a TargetStep but no target_updater: pass "
                        "SoftUpdate(loss_module, tau=...)"
                    )
                continue
            for name in step.optimizers:
                if name not in self.optimizers:
                    raise ConfigError(
                        f"{step} names the optimizer {name!r}, but there are "
                        f"{', '.join(map(repr, self.optimizers))}"
                    )


def _fit_moment(value: Any, parameter: Tensor) -> Any:
    """Return an entry of an optimizer's state with the strides of its parameter."""
    has_strides = torch.is_tensor(value) and value.shape == parameter.shape
    return match_strides(value, parameter) if has_strides else value
