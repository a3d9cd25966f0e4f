"""Compiling a recorded graph, and capturing a compiled function as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

_WARMUPS = 3  # PyTorch's number of calls before a capture


def compile_graph(graph: GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Compile a graph with PyTorch's inductor.

    A graph that was compiled before comes from inductor's cache on disk. Random operations of the
    graph draw the numbers that they draw uncompiled.

    Args:
        graph: a graph of tensor operations, with every gradient written out.
        inputs: examples; later inputs must have the same shapes, strides, dtypes and devices.

    Returns:
        A function of the inputs, to be called under ``torch.no_grad()``. It changes the same inputs
        in place as the graph.

    Raises:
        Exception: any error of inductor, such as a missing C++ compiler.

    >>> from rlkit_sac.graph import record
    >>> x = torch.arange(3.0)
    >>> recording = record(lambda: [x.sin().sum()], [x])
    >>> compiled = compile_graph(recording.graph, recording.inputs)
    >>> [round(value.item(), 4) for value in compiled(torch.ones(3))]
    [2.5244]
    """
    # Importing inductor takes a second: only runs that compile pay it.
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.async_compile import shutdown_compile_workers
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # Without an environment of shapes, inductor does not look into its cache.
    mode = FakeTensorMode(shape_env=ShapeEnv())
    # One program calls PyTorch in less time than Python does; torch 2.7 cannot make it so.
    whole = torch.__version__ >= "2.13" and all(each.device.type == "cpu" for each in inputs)
    examples = [mode.from_tensor(tensor.detach(), static_shapes=True) for tensor in inputs]

    options: dict[str, Any] = {"fallback_random": True, "cpp_wrapper": whole}
    if whole:
        # In less time: a compiler of C++20 knows AVX-512, which inductor would try for seconds.
        options |= {"cpp_wrapper_build_separate": True, "cpp_cache_precompile_headers": False}
        options |= {"cpp.vec_isa_ok": True}
    with torch.no_grad(), config.patch(**options), tracing(TracingContext(mode)):
        compiled: Any = compile_fx(graph, examples)
    shutdown_compile_workers()
    return compiled


def any_on_gpu(inputs: Sequence[Tensor]) -> bool:
    """Return whether any of the tensors is on a CUDA device.

    >>> any_on_gpu([torch.zeros(2)])
    False
    """
    return any(tensor.is_cuda for tensor in inputs)


class CUDAGraphFunction:
    """Captures a function as a CUDA graph and replays it, with one launch for all its kernels.

    The inputs of the capture are read and changed in place in every replay. Inputs that are other
    tensors in later calls are copied into static tensors before the replay; results are copied from
    static tensors after it. The function must have no side effects but those on tensors. Where an
    input of the capture has moved to other memory, as by ``parameter.data = ...``, the function is
    called instead.

    Args:
        function: a function of ``inputs``; the capture calls it four times.
        inputs: examples, all on one GPU.
        varying: positions of the inputs that are other tensors in later calls.

    Raises:
        RuntimeError: if the function cannot be captured, such as one that synchronizes with the
            GPU, or if inputs are on different devices.
    """

    def __init__(
        self,
        function: Callable[..., Sequence[Tensor]],
        inputs: Sequence[Tensor],
        varying: Sequence[int],
    ) -> None:
        devices = sorted({str(tensor.device) for tensor in inputs})
        if len(devices) > 1:
            raise RuntimeError(f"its inputs lie on {' and '.join(devices)}")
        self._function, self._varying = function, list(varying)
        self._inputs = list(inputs)
        for place in self._varying:
            self._inputs[place] = clone_with_strides(inputs[place].detach())
        self._memory = [(n, x.data_ptr()) for n, x in enumerate(inputs) if n not in self._varying]
        with torch.no_grad(), torch.cuda.device(inputs[0].device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARMUPS):
                    function(*self._inputs)
            current = torch.cuda.current_stream()
            current.wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            # The outer one, because `graph` does not leave its stream when the capture fails.
            with torch.cuda.stream(current), torch.cuda.graph(self._graph, stream=stream):
                self._results = list(function(*self._inputs))

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Return the results of the function for inputs of the same shapes and strides."""
        if any(inputs[place].data_ptr() != before for place, before in self._memory):
            return list(self._function(*inputs))
        for place in self._varying:
            self._inputs[place].copy_(inputs[place])
        self._graph.replay()
        return [result.clone() for result in self._results]


def clone_with_strides(value: Tensor) -> Tensor:
    """Return a copy with the same strides; ``clone()`` keeps them for dense tensors only.

    >>> clone_with_strides(torch.zeros(3, 4)[:, :2]).stride()
    (4, 1)
    """
    extent = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
    held = value.as_strided((extent,), (1,)) if value.numel() else value.flatten()
    return held.clone().as_strided(value.shape, value.stride())
