"""Compiling a recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule


def compile_graph(graph: GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Compile a graph with PyTorch's inductor.

    A graph that was compiled before comes from inductor's cache on disk. Random operations of the
    graph draw the numbers that they draw uncompiled.

    Args:
        graph: of tensor operations, with every gradient written out.
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
