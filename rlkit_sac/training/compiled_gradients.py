"""The losses of a batch and their gradients as one compiled graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.envs.utils import exploration_type

from rlkit_sac.capture import (
    Fingerprint,
    NotRecordable,
    Recording,
    compile_graph,
    lift_random_inputs,
    record,
    round_products,
    undone,
)
from rlkit_sac.training.gradients import Gradients, Losses, LossGradients
from rlkit_sac.training.steps import LossStep

NestedKey: TypeAlias = str | tuple[str, ...]

#: Graphs made for batches of different shapes, or of a loss module that changes, before giving up.
MOST_GRAPHS = 8
_TOLERANCE = 1e-3


class CompiledLossGradients:
    """Does what :class:`LossGradients` does, in one compiled graph for each kind of batch.

    The graph is recorded from a run of the loss module itself, so it takes any module and network
    whose computation does not depend on the values of tensors. Parameters, buffers, the batch and
    random numbers are its inputs: the graph follows them wherever they go, and draws what the
    loss module would have drawn. When a number, flag or tensor that the module holds is exchanged,
    a new graph is made.

    What cannot be recorded or compiled goes on uncompiled, after a warning.

    Args:
        uncompiled: to be compiled.
        bfloat16: whether large matrix products take bfloat16 factors.
    """

    def __init__(self, uncompiled: LossGradients, *, bfloat16: bool = False) -> None:
        self._uncompiled, self._bfloat16 = uncompiled, bfloat16
        self._programs: dict[object, _Program] = {}
        self._fingerprint: Fingerprint | None = None
        self._made = 0

    def __call__(self, batch: TensorDictBase, steps: Sequence[LossStep]) -> Losses:
        """As :meth:`LossGradients.__call__`."""
        program = self._program(batch, tuple(steps))
        return self._uncompiled(batch, steps) if program is None else program(batch)

    def _program(self, batch: TensorDictBase, steps: tuple[LossStep, ...]) -> _Program | None:
        if self._fingerprint is not None and self._fingerprint.change() is not None:
            self._programs, self._fingerprint = {}, None
        mode = exploration_type(), torch.is_autocast_enabled()
        kind = (
            steps,
            mode,
            batch.batch_size,
            *(_layout(*item) for item in batch.items(True, True)),
        )
        if kind in self._programs or self._made > MOST_GRAPHS:
            return self._programs.get(kind)
        self._made += 1
        if self._made > MOST_GRAPHS:
            self._warn(
                f"{MOST_GRAPHS} graphs were made for batches of different shapes or changes of the "
                "loss module; updates that none of them fits"
            )
            return None
        try:
            program = _Program(self._uncompiled, batch, steps, bfloat16=self._bfloat16)
        except Exception as error:
            self._made = MOST_GRAPHS + 1
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self._warn(f"it cannot become one compiled graph ({reason}); its updates")
            return None
        self._programs[kind], self._fingerprint = program, program.fingerprint
        return program

    def _warn(self, reason: str) -> None:
        name = type(self._uncompiled.loss_module).__name__
        warnings.warn(f"{name}: {reason} run uncompiled", stacklevel=5)


class _Program:
    """One compiled graph, with the names of its inputs and outputs.

    Args:
        function: to be recorded.
        batch: an example; it is left as it is.
        steps: whose gradients are wanted.
        bfloat16: whether large matrix products take bfloat16 factors.
    """

    def __init__(
        self,
        function: LossGradients,
        batch: TensorDictBase,
        steps: tuple[LossStep, ...],
        *,
        bfloat16: bool,
    ) -> None:
        module = function.loss_module
        tensors = [*module.parameters(), *module.buffers()]
        tensors += [each for own in function.parameters.values() for each in own]
        tensors += batch.values(True, True)
        run = _Run(function, batch, steps)
        with undone(module, tensors):
            fingerprint, recording = _recorded(run, tensors, module)
            self._random = lift_random_inputs(recording.graph)
            blank = self._random.draw()
        entries = {id(value): key for key, value in batch.items(True, True)}
        self.fingerprint = fingerprint
        self._example, self._written = run.losses, run.written
        self._inputs = [entries.get(id(tensor), tensor) for tensor in recording.inputs]
        self._compiled: Callable[..., Sequence[Tensor]] = recording.graph
        self._verify(function, batch, steps)
        if bfloat16:
            round_products(recording.graph)
        self._compiled = compile_graph(recording.graph, [*recording.inputs, *blank])

    def _verify(
        self, function: LossGradients, batch: TensorDictBase, steps: tuple[LossStep, ...]
    ) -> None:
        """Values that left PyTorch unseen are those of the recorded batch: try another one."""
        other = batch.apply(lambda value: value * 0.3 + 0.1 if value.is_floating_point() else value)
        runs = []
        for run in (function, lambda changed, _: self(changed)):
            changed = other.copy()
            with undone(function.loss_module, other.values(True, True)):
                losses = run(changed, steps)
            written = [changed.get(key) for key in self._written]
            runs.append([*losses.scalars.values(), *written, *losses.values()])
        for wanted, found in zip(*runs, strict=True):
            if not _nearly_equal(found, wanted):
                raise NotRecordable(
                    "the graph computes something else for another batch: values of tensors leave "
                    "PyTorch, as with numpy() or tolist()"
                )

    def __call__(self, batch: TensorDictBase) -> Losses:
        inputs = [each if isinstance(each, Tensor) else batch.get(each) for each in self._inputs]
        with torch.no_grad():
            values = iter(self._compiled(*inputs, *self._random.draw()))
        scalars = {name: next(values) for name in self._example.scalars}
        finite = next(values)
        for key in self._written:
            batch.set(key, next(values))
        gradients = {
            step: {
                name: Gradients(
                    tuple(None if each is None else next(values) for each in example.values),
                    next(values),
                )
                for name, example in found.items()
            }
            for step, found in self._example.gradients.items()
        }
        return Losses(scalars, gradients, finite)


class _Run:
    """One call of what is recorded, which keeps the form of its result."""

    losses: Losses
    written: tuple[NestedKey, ...]

    def __init__(
        self, function: LossGradients, batch: TensorDictBase, steps: tuple[LossStep, ...]
    ) -> None:
        self._function, self._batch, self._steps = function, batch, steps

    def __call__(self) -> list[Tensor | None]:
        batch = self._batch.copy()
        losses = self._function(batch, self._steps)
        written = {
            key: value
            for key, value in batch.items(True, True)
            if value is not self._batch.get(key, None)
        }
        self.losses, self.written = losses, tuple(written)
        return [*losses.scalars.values(), losses.finite, *written.values(), *losses.values()]


def _recorded(run: _Run, tensors: list[Tensor], module: nn.Module) -> tuple[Fingerprint, Recording]:
    """A recording, and what the module held then; a first call may still make parts of it."""
    for _ in range(2):
        fingerprint = Fingerprint(module)
        recording = record(run, tensors)
        if (changed := fingerprint.change()) is None:
            return fingerprint, recording
    raise NotRecordable(f"{changed} is exchanged in every call")


def _nearly_equal(found: Tensor, wanted: Tensor) -> bool:
    """Within what another order of sums can make of them."""
    if not bool(wanted.isfinite().all()):
        return True
    found, wanted = found.double(), wanted.double()
    return bool((found - wanted).norm() <= _TOLERANCE * (1e-3 + wanted.norm()))


def _layout(key: NestedKey, value: Tensor) -> tuple[object, ...]:
    return key, value.shape, value.stride(), value.dtype, value.device
