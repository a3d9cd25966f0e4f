"""From a Python function to the graph of the tensor operations it carries out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx


class NotRecordable(Exception):  # noqa: N818 - says what the function is
    """The function cannot be written as one graph of tensor operations."""


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
    """Run a function once and write down its tensor operations.

    Gradients that the function takes with ``torch.autograd.grad`` are part of the graph, and so are
    changes in place of the given tensors. Python values (numbers, flags, shapes) are those of this
    run. Operations whose result is unused are left out. Modules, TensorDicts and vmap leave no
    trace but their operations.

    Args:
        function: takes nothing; reads the tensors it needs and returns others.
        tensors: those of them that may have other values, or other storage, in later runs. Others
            are constants of the graph.

    Returns:
        The graph, with those of ``tensors`` that it uses as its inputs. It returns the tensors of
        ``function`` in their order, without those that are ``None``.

    Raises:
        NotRecordable: if what is computed depends on the values of tensors, as with ``item()``, or
            otherwise cannot be written down. Values that leave PyTorch unseen, by ``numpy()`` or
            ``tolist()``, become constants: compare a run of the graph on other inputs.

    >>> weight = torch.ones(2, requires_grad=True)
    >>> recording = record(lambda: torch.autograd.grad((weight**2).sum(), [weight]), [weight])
    >>> recording.graph(torch.tensor([1.0, 3.0]))
    (tensor([2., 6.]),)
    """
    unique = list({id(tensor): tensor for tensor in tensors}.values())

    def flat(*_: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in function() if tensor is not None)

    try:
        with warnings.catch_warnings(), _unvalidated_distributions():
            warnings.simplefilter("ignore")
            graph = make_fx(flat)(*unique)
    except Exception as error:
        raise NotRecordable(_first_line(error)) from error
    _refuse_shapes_of_values(graph)
    _constants_to_inputs(graph, unique)
    _remove_detach(graph)
    graph.graph.eliminate_dead_code()
    used = [
        bool(node.users) or _erase(graph, node) for node in graph.graph.find_nodes(op="placeholder")
    ]
    graph.recompile()
    inputs = [tensor for tensor, wanted in zip(unique, used, strict=True) if wanted]
    return Recording(graph, tuple(inputs))


def _erase(graph: GraphModule, node: Node) -> bool:
    graph.graph.erase_node(node)
    return False


@contextmanager
def _unvalidated_distributions() -> Iterator[None]:
    """Arguments of distributions are not looked at: their values are not those of later runs."""
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


def _refuse_shapes_of_values(graph: GraphModule) -> None:
    """A mask that selects elements gives a shape that later values may not have."""
    for node in graph.graph.nodes:
        tags = getattr(node.target, "tags", ())
        masks = node.target is torch.ops.aten.index.Tensor and any(
            index is not None and index.meta["val"].dtype in (torch.bool, torch.uint8)
            for index in node.args[1]
        )
        if masks or torch.Tag.dynamic_output_shape in tags:
            raise NotRecordable(f"the shape of {node.target} depends on the values of tensors")


def _constants_to_inputs(graph: GraphModule, tensors: Sequence[Tensor]) -> None:
    """Let what aliases an input, such as a detached parameter kept by a module, be that input."""
    places = graph.graph.find_nodes(op="placeholder")
    known = {_place(tensor): place for tensor, place in zip(tensors, places, strict=True)}
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    for node in graph.graph.find_nodes(op="get_attr"):
        constant = getattr(graph, str(node.target))
        if not isinstance(constant, Tensor):
            continue
        same = known.get(_place(constant))
        if same is not None:
            node.replace_all_uses_with(same)
            graph.graph.erase_node(node)
        elif constant.numel() and constant.untyped_storage().data_ptr() in storages:
            raise NotRecordable(
                f"a tensor of shape {list(constant.shape)} is a view of an input, made before the "
                "function ran"
            )


def _place(tensor: Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device


def _remove_detach(graph: GraphModule) -> None:
    """Gradients are written out already, so that nothing has to be kept from them."""
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
