"""A compiled function as a CUDA graph, launched as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARMUPS = 3  # PyTorch's number of calls before a capture


def on_a_gpu(inputs: Sequence[Tensor]) -> bool:
    """Whether a function of these tensors does something on a GPU.

    >>> on_a_gpu([torch.zeros(2)])
    False
    """
    return any(tensor.is_cuda for tensor in inputs)


class CUDAGraphFunction:
    """Replays the kernels of a function, whose launches then cost the processor nothing.

    The tensors of the capture are read and changed where they lie. Those that are others in later
    calls are copied into places of the graph's own before it is replayed; results are copied out of
    it. Calling the function must have no effect but on tensors.

    Args:
        function: of ``inputs``; it is called four times here.
        inputs: examples, all on one GPU.
        varying: the places of inputs that are other tensors in later calls.

    Raises:
        RuntimeError: if the function cannot be captured, as where it waits for the GPU, or inputs
            lie elsewhere.
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
        self._varying = list(varying)
        self._inputs = list(inputs)
        for place in self._varying:
            self._inputs[place] = inputs[place].detach().clone()
        with torch.no_grad(), torch.cuda.device(inputs[0].device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARMUPS):
                    function(*self._inputs)
            torch.cuda.current_stream().wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._results = list(function(*self._inputs))

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """What the function returns for inputs of the same layout."""
        for place in self._varying:
            self._inputs[place].copy_(inputs[place])
        self._graph.replay()
        return [result.clone() for result in self._results]
