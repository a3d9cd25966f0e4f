"""Compilation of a function of a batch to one graph."""

from __future__ import annotations

import random
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torchrl.envs.utils import exploration_type
from torchrl.objectives import LossModule

from rlkit_sac.graph import (
    CUDAGraphFunction,
    Fingerprint,
    Held,
    NotRecordable,
    Recording,
    any_on_gpu,
    compile_graph,
    has_fast_bfloat16,
    lift_random_inputs,
    preserve_state,
    record,
    round_to_bf16,
)
from rlkit_sac.graph.compiler import clone_with_strides
from rlkit_sac.updates.steps import Pass

Result = TypeVar("Result")

#: The largest number of graphs for a forward pass. Batches of different shapes, and changes of the
#: loss module, need different graphs.
MOST_GRAPHS = 8
_TOLERANCE = 1e-3


class Computation(ABC, Generic[Result]):
    """A function of a batch and of the steps that are due, which can be recorded."""

    loss_module: LossModule

    @abstractmethod
    def __call__(self, batch: TensorDictBase, due: Pass) -> Result:
        """Return tensors in tuples and dictionaries; entries may be added to the batch."""

    @abstractmethod
    def used_tensors(self) -> list[Tensor]:
        """Return the tensors that it reads or changes, besides those of the loss module."""

    def changed_tensors(self) -> list[Tensor]:
        """Return the tensors that it changes in place."""
        return []

    def dependencies(self) -> list[Held]:
        """Return the objects that a recording depends on, besides the loss module."""
        return []


class CompiledComputation(Generic[Result]):
    """A computation that runs as one compiled graph for each kind of batch.

    The graph is recorded from a run of the computation itself. This works for any loss module and
    network whose operations do not depend on the values of tensors. Parameters, buffers, the state
    of optimizers, the batch and random numbers are inputs of the graph. If a number, flag or tensor
    of the loss module or of an optimizer is replaced, a new graph is made. If the old value is put
    back, the earlier graph is used again.

    With ``cuda_graph`` the compiled graph is captured as a CUDA graph on a GPU, and its results are
    compared with the results of the computation. If the computation cannot be recorded or compiled,
    a warning says so and the caller runs it.

    Args:
        computation: the computation to compile.
        bfloat16: whether the factors of large matrix products are rounded to bfloat16, where the
            processor has instructions for it. Default: ``False``.
        cuda_graph: whether a compiled graph is captured as a CUDA graph on a GPU. Default:
            ``False``.

    Attributes:
        compile_context: a function that makes a context, in which a graph is recorded and compiled.
        num_graphs: number of graphs so far.
    """

    compile_context: Callable[[], AbstractContextManager[object]] = nullcontext

    def __init__(self, computation: Computation[Result], **options: bool) -> None:
        self._computation, self._options = computation, options
        self._programs: dict[object, list[_Program[Result]]] = {}
        self._attempts: Counter[Pass] = Counter()
        self.num_graphs = 0

    def __call__(self, batch: TensorDictBase, due: Pass) -> Result | None:
        """Return the result of the computation; without a graph do nothing and return ``None``."""
        entries = dict(batch.items(True, True))
        program = self._find_or_compile(batch, entries, due)
        return None if program is None else program(batch, entries)

    def _find_or_compile(
        self, batch: TensorDictBase, entries: Mapping[NestedKey, Tensor], due: Pass
    ) -> _Program[Result] | None:
        autocast = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled()
        mode = exploration_type(), *autocast
        layout = ((k, x.shape, x.stride(), x.dtype, x.device) for k, x in entries.items())
        kind = due, mode, batch.batch_size, *layout
        programs = self._programs.get(kind, [])
        for i, program in enumerate(programs):
            if program.fingerprint.first_changed_attribute() is None:
                programs.insert(0, programs.pop(i))  # the next batch is likely to use it too
                return program
        if self._attempts[due] > MOST_GRAPHS:
            return None
        self.num_graphs += 1
        self._attempts[due] += 1
        if self._attempts[due] > MOST_GRAPHS:
            self._warn(
                f"{MOST_GRAPHS} graphs were made for batches of different shapes or changes of the "
                "loss module; updates that fit none of them"
            )
            return None
        try:
            with self.compile_context():
                program = _Program(self._computation, batch, due, **self._options)
        except Exception as error:
            self._attempts[due] = MOST_GRAPHS + 1
            self._warn(f"it cannot become one compiled graph ({_first_line(error)}); its updates")
            return None
        self._programs[kind] = [program, *programs]
        return program

    def _warn(self, reason: str) -> None:
        name = type(self._computation.loss_module).__name__
        warnings.warn(f"{name}: {reason} run uncompiled", stacklevel=5)


class _Program(Generic[Result]):
    """One compiled graph, with the names of its inputs and outputs.

    Args:
        computation: the computation to record.
        batch: an example of a batch; it is not changed.
        due: the steps that are due.
        bfloat16: whether the factors of large matrix products are rounded to bfloat16, where the
            processor has instructions for it.
        cuda_graph: whether the compiled graph is captured as a CUDA graph on a GPU.
    """

    def __init__(
        self,
        computation: Computation[Result],
        batch: TensorDictBase,
        due: Pass,
        *,
        bfloat16: bool = False,
        cuda_graph: bool = False,
    ) -> None:
        # Not public in PyTorch. If the import fails, updates run uncompiled.
        from torch.utils._pytree import tree_flatten, tree_unflatten

        self._computation = computation
        module, batch = computation.loss_module, _separate_aliases(batch)
        tensors = [*module.parameters(), *module.buffers(), *computation.used_tensors()]
        tensors += batch.values(True, True)

        def run() -> list[Tensor]:
            copy = batch.copy()
            leaves, spec = tree_flatten(computation(copy, due))
            self._present = [leaf is not None for leaf in leaves]
            self._unflatten = partial(tree_unflatten, treespec=spec)
            written = {
                key: value
                for key, value in copy.items(True, True)
                if value is not batch.get(key, None)
            }
            self._written = tuple(written)
            return [*(leaf for leaf in leaves if leaf is not None), *written.values()]

        with preserve_state(module, changes=computation.changed_tensors()):
            self.fingerprint, recording = _record_computation(run, tensors, computation)
            self._draws = lift_random_inputs(recording.graph)
            blank = [draw() for draw in self._draws]
        entries = {id(value): key for key, value in batch.items(True, True)}
        self._inputs = list(recording.inputs)
        keys = [(i, entries.get(id(value))) for i, value in enumerate(self._inputs)]
        self._keys = [(i, key) for i, key in keys if key is not None]
        self._compiled: Callable[..., Sequence[Tensor]] = recording.graph
        self._verify(batch, due)
        examples = [*recording.inputs, *blank]
        bfloat16 = bfloat16 and (any_on_gpu(examples) or has_fast_bfloat16())
        if bfloat16:
            round_to_bf16(recording.graph)
        self._compiled = compile_graph(recording.graph, examples)
        if cuda_graph and any_on_gpu(examples):
            self._capture_graph(batch, due, examples)

    def _capture_graph(self, batch: TensorDictBase, due: Pass, examples: Sequence[Tensor]) -> None:
        """Capture the compiled graph as a CUDA graph; keep it if its results are the same."""
        compiled, module = self._compiled, self._computation.loss_module
        varying = [i for i, _ in self._keys]
        varying += range(len(self._inputs), len(examples))
        try:
            with preserve_state(module, changes=self._computation.changed_tensors()):
                self._compiled = CUDAGraphFunction(compiled, examples, varying)
            self._verify(batch, due)
        except Exception as error:
            self._compiled = compiled
            warnings.warn(
                f"{type(module).__name__}: compiled updates run without a CUDA graph "
                f"({_first_line(error)})",
                stacklevel=7,
            )

    def _verify(self, batch: TensorDictBase, due: Pass) -> None:
        """Compare the graph with the computation on another batch.

        A value that leaves PyTorch during the recording, as with ``tolist()``, is a constant of the
        graph.
        """
        from torch.utils._pytree import tree_leaves

        computation, runs = self._computation, []
        other = batch.apply(lambda value: value * 0.3 + 0.1 if value.is_floating_point() else value)
        for run in (computation, lambda batch, _: self(batch, dict(batch.items(True, True)))):
            copy, changes = other.copy(), computation.changed_tensors()
            with preserve_state(computation.loss_module, changes=changes):
                results = tree_leaves(run(copy, due))
                results += [copy.get(key) for key in self._written]
                results += [tensor.detach().clone() for tensor in changes]
            runs.append(results)
        for wanted, got in zip(*runs, strict=True):
            if wanted is not None and not _nearly_equal(got, wanted):
                raise NotRecordable(
                    "the graph gives other results than the loss for another batch: values of "
                    "tensors leave PyTorch, as with numpy() or tolist()"
                )

    def __call__(self, batch: TensorDictBase, entries: Mapping[NestedKey, Tensor]) -> Result:
        inputs = self._inputs.copy()
        for i, key in self._keys:
            inputs[i] = entries[key]
        with torch.no_grad():
            random_inputs = [draw() for draw in self._draws]
            values = list(self._compiled(*inputs, *random_inputs))
        for key in reversed(self._written):
            batch.set(key, values.pop())
        remaining = iter(values)
        leaves = [next(remaining) if present else None for present in self._present]
        return self._unflatten(leaves)


def _separate_aliases(batch: TensorDictBase) -> TensorDictBase:
    """Return the batch with a separate tensor for each entry: in later batches they may differ."""
    copy, seen = batch.copy(), set()
    for key, value in batch.items(True, True):
        if id(value) in seen:
            copy.set(key, clone_with_strides(value))
        seen.add(id(value))
    return copy


def _record_computation(
    run: Callable[[], list[Tensor]], tensors: list[Tensor], computation: Computation[Any]
) -> tuple[Fingerprint, Recording]:
    """Return a recording, and the fingerprint of the objects that it depends on.

    The first call of a loss module may still create parts of it. Then it is recorded once more.
    """
    for _ in range(2):
        fingerprint = Fingerprint(computation.loss_module, *computation.dependencies())
        random_state = random.getstate(), str(np.random.get_state())
        recording = record(run, tensors)
        if random_state != (random.getstate(), str(np.random.get_state())):
            raise NotRecordable("random numbers are drawn outside of PyTorch")
        if (changed := fingerprint.first_changed_attribute()) is None:
            return fingerprint, recording
    raise NotRecordable(f"{changed} is exchanged in every call")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _nearly_equal(got: Tensor, wanted: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding, such as of another summation order."""
    if not bool(wanted.isfinite().all()):
        return True
    got, wanted = got.double(), wanted.double()
    return bool((got - wanted).norm() <= _TOLERANCE * (1e-3 + wanted.norm()))
