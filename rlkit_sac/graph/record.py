"""Recording the tensor operations of a Python function as a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.fx import GraphModule


class NotRecordable(Exception):  # noqa: N818 - it describes the function
    """The function cannot be recorded as one graph of tensor operations."""


@dataclass(frozen=True)
class Recording:
    """A graph of tensor operations, from flat inputs to a tuple of tensors.

    Attributes:
        graph: takes ``inputs`` in their order.
        inputs: the tensors that the graph reads or changes in place.
    """

    graph: GraphModule
    inputs: tuple[Tensor, ...]


def record(function: Callable[[], Sequence[Tensor | None]], tensors: Sequence[Tensor]) -> Recording:
    """Run a function once and record its tensor operations.

    The graph contains the gradients that the function computes with ``torch.autograd.grad``, and
    its in-place changes of the given tensors. Python values (numbers, flags, shapes) are constants
    of the graph. Operations with unused results are removed.

    Args:
        function: without arguments; it returns the tensors that it computes.
        tensors: tensors that it reads and that may have other values, or other storage, in later
            runs. All others are constants of the graph.

    Returns:
        The graph; its inputs are those of ``tensors`` that it uses. It returns the results of
        ``function`` in their order, without those that are ``None``.

    Raises:
        NotRecordable: if the computation depends on the values of tensors, as with ``item()``, or
            cannot be traced for another reason. Values that leave PyTorch through ``numpy()`` or
            ``tolist()`` are not detected and become constants: compare the results of the graph on
            other inputs.

    >>> weight = torch.ones(2, requires_grad=True)
    >>> recording = record(lambda: torch.autograd.grad((weight**2).sum(), [weight]), [weight])
    >>> recording.graph(torch.tensor([1.0, 3.0]))
    (tensor([2., 6.]),)
    """
    unique = list({id(tensor): tensor for tensor in tensors}.values())

    def flat(*_: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in function() if tensor is not None)

    try:
        # Not part of PyTorch's public interface: a version without it records nothing.
        from torch.fx.experimental.proxy_tensor import make_fx

        with warnings.catch_warnings(), _no_distribution_validation():
            warnings.simplefilter("ignore")
            graph = make_fx(flat)(*unique)
    except Exception as error:
        raise NotRecordable(_first_line(error)) from error
    _refuse_data_dependent_shapes(graph)
    _replace_aliases_by_inputs(graph, unique)
    _remove_detach(graph)
    graph.graph.eliminate_dead_code()
    inputs = []
    for tensor, place in zip(unique, graph.graph.find_nodes(op="placeholder"), strict=True):
        if place.users:
            inputs.append(tensor)
        else:
            graph.graph.erase_node(place)
    graph.recompile()
    return Recording(graph, tuple(inputs))


@contextmanager
def _no_distribution_validation() -> Iterator[None]:
    """Do not validate the arguments of distributions: that would branch on values of tensors."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    if "trying to get value out of a tracing tensor" in text:
        return "what it computes depends on the values of tensors, as with item() or a branch"
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _refuse_data_dependent_shapes(graph: GraphModule) -> None:
    """Raise an error where a shape depends on values, as that of elements selected by a mask."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.index.Tensor:
            indices = [index.meta["val"] for index in node.args[1] if index is not None]
            depends = any(index.dtype in (torch.bool, torch.uint8) for index in indices)
        else:
            depends = torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
        if depends:
            raise NotRecordable(f"the shape of {node.target} depends on the values of tensors")


def _replace_aliases_by_inputs(graph: GraphModule, tensors: Sequence[Tensor]) -> None:
    """Replace constants that alias an input, such as a detached parameter, by that input."""
    places = graph.graph.find_nodes(op="placeholder")
    known = {_storage_key(tensor): place for tensor, place in zip(tensors, places, strict=True)}
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    for node in graph.graph.find_nodes(op="get_attr"):
        constant = getattr(graph, str(node.target))
        if not isinstance(constant, Tensor):
            continue
        same = known.get(_storage_key(constant))
        if same is not None:
            node.replace_all_uses_with(same)
            graph.graph.erase_node(node)
        elif constant.numel() and constant.untyped_storage().data_ptr() in storages:
            raise NotRecordable(
                f"a tensor of shape {list(constant.shape)} is a view of an input, made before the "
                "function ran"
            )


def _storage_key(tensor: Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device


def _remove_detach(graph: GraphModule) -> None:
    """Remove ``detach``: the gradients are part of the graph already."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
