"""The precision of float32 matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Literal

import torch
from torch.fx import GraphModule

MatmulPrecision = Literal["auto", "exact", "bfloat16"]

#: Largest error of a float32 product, relative to the norm of the exact one.
_FLOAT32_ERROR = 1e-6


def set_matmul_precision(kind: MatmulPrecision) -> AbstractContextManager[None]:
    """Choose the kernels of float32 matrix products on the CPU.

    PyTorch has two libraries for them. Its default, MKL, runs at half speed or less on processors
    that are not Intel's. It uses oneDNN where bfloat16 is allowed in place of float32; on
    processors without fast bfloat16 instructions, oneDNN computes in float32 all the same.

    Args:
        kind: ``"exact"`` for PyTorch's default; otherwise oneDNN if its products have float32's
            precision on this processor.

    >>> with set_matmul_precision("auto"):
    ...     (torch.ones(64, 64) @ torch.ones(64, 64))[0, 0].item()
    64.0
    """
    return nullcontext() if kind == "exact" or not onednn_is_exact() else _use_onednn()


@contextmanager
def _use_onednn() -> Iterator[None]:
    """Compute products with oneDNN, in whatever precision."""
    switch = _onednn_precision_setting()
    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


@cache
def onednn_is_exact() -> bool:
    """Return whether oneDNN, with bfloat16 allowed, has float32's precision on this processor.

    >>> isinstance(onednn_is_exact(), bool)
    True
    """
    if _onednn_precision_setting() is None:
        return False
    generator = torch.Generator().manual_seed(0)
    for rows, inner, columns in ((256, 256, 256), (128, 64, 128), (256, 23, 256)):
        a = torch.randn(2, rows, inner, generator=generator)
        b = torch.randn(2, inner, columns, generator=generator)
        exact = a.double() @ b.double()
        left, right = a.mT.contiguous().mT, b.mT.contiguous().mT  # the same in column-major order
        with _use_onednn():
            products = [a @ b, left @ b, a @ right, a[0] @ b[0]]
        for product in products:
            wanted = exact if product.ndim == exact.ndim else exact[0]
            if (product.double() - wanted).norm() > _FLOAT32_ERROR * wanted.norm():
                return False
    return True


def _onednn_precision_setting() -> Any:
    """Return the setting of oneDNN's precision; None before PyTorch 2.9, or without oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return None
    switch = getattr(torch.backends.mkldnn, "matmul", None)
    return switch if hasattr(switch, "fp32_precision") else None


def has_fast_bfloat16() -> bool:
    """Return whether this processor multiplies matrices in bfloat16 faster than in float32.

    >>> isinstance(has_fast_bfloat16(), bool)
    True
    """
    return bool(torch.cpu._is_avx512_bf16_supported())


def round_to_bf16(graph: GraphModule, *, min_size: int = 128) -> None:
    """Round the factors of a graph's large float32 matrix products to bfloat16.

    A product is accumulated in float32 and its result rounded to bfloat16. Products with a
    dimension below ``min_size``, as at the inputs and outputs of a network, stay exact: rounding
    them would gain little, and cost precision at the outputs, of which critics over atoms have 101.

    Args:
        graph: changed in place.
        min_size: least dimension of a product that is rounded.

    >>> from rlkit_sac.graph import record
    >>> x = torch.full((128, 128), 1.001)
    >>> graph = record(lambda: [x @ x], [x]).graph
    >>> round_to_bf16(graph)
    >>> graph(x)[0][0, 0].item()
    128.0
    """
    aten = torch.ops.aten
    plain = {aten.addmm.default: aten.mm.default, aten.baddbmm.default: aten.bmm.default}
    for node in list(graph.graph.nodes):
        if node.target in plain and node.kwargs:
            continue  # scaled
        if node.target not in (aten.mm.default, aten.bmm.default, *plain):
            continue
        *added, a, b = node.args
        left, right = a.meta["val"], b.meta["val"]
        sides = (*left.shape[-2:], right.shape[-1])
        if left.dtype != torch.float32 or min(sides) < min_size:
            continue
        with graph.graph.inserting_before(node):
            factors = [
                graph.graph.call_function(aten._to_copy.default, (x,), {"dtype": torch.bfloat16})
                for x in (a, b)
            ]
            target = plain.get(node.target, node.target)
            product = graph.graph.call_function(target, tuple(factors))
            result = graph.graph.call_function(
                aten._to_copy.default, (product,), {"dtype": torch.float32}
            )
            if added:
                result = graph.graph.call_function(aten.add.Tensor, (result, added[0]))
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        graph.graph.erase_node(node)
    graph.recompile()
