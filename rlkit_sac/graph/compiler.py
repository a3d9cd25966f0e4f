"""Machine code for a recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule


def compile_graph(graph: GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Compile a graph with PyTorch's inductor.

    What was compiled before is taken from inductor's cache on disk. Random operations left in the
    graph draw as they do uncompiled.

    Args:
        graph: of tensor operations, with every gradient written out.
        inputs: examples; later ones must have the same shapes, strides, types and devices.

    Returns:
        A function of the inputs, to be called without gradients. It changes the inputs in place
        that the graph does.

    Raises:
        Exception: whatever inductor raises, such as for a missing C++ compiler.

    >>> from rlkit_sac.graph import record
    >>> x = torch.arange(3.0)
    >>> recording = record(lambda: [x.sin().sum()], [x])
    >>> compiled = compile_graph(recording.graph, recording.inputs)
    >>> [round(value.item(), 4) for value in compiled(torch.ones(3))]
    [2.5244]
    """
    # Inductor takes a second to import, which runs that do not compile are spared.
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.async_compile import shutdown_compile_workers
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    examples = [tensor.detach() for tensor in inputs]
    # Without an environment of shapes, inductor does not look into its cache.
    shapes = TracingContext(FakeTensorMode(shape_env=ShapeEnv(assume_static_by_default=True)))
    with torch.no_grad(), config.patch(fallback_random=True), tracing(shapes):
        compiled: Any = compile_fx(graph, examples)
    shutdown_compile_workers()
    return compiled
