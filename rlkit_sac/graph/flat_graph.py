"""A recorded graph as a flat sequence of calls into PyTorch, with as few of them as possible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from rlkit_sac.graph.record import Recording

_aten = torch.ops.aten

# Their results do not depend on the shape.
_POINTWISE = (_aten.relu, _aten.tanh, _aten.sigmoid, _aten.exp, _aten.clamp, _aten.elu, _aten.silu)


class FlatGraph:
    """Calls the operations of a recording without gradients and with little overhead.

    Views of parameters and buffers, such as transposed weights, are made once: they follow changes
    in place. Shapes are changed only where an operation needs it, and calls go to functions of
    ``torch`` instead of ``torch.ops``. Results equal those of the graph, bit for bit.

    Args:
        recording: the recording of a function.
        inputs: the inputs of the recording that each call passes; the others stay the same tensors.

    >>> from rlkit_sac.graph import record
    >>> weight, number = torch.ones(2, 2), torch.ones(2)
    >>> recording = record(lambda: [weight.t() @ number], [weight, number])
    >>> flat = FlatGraph(recording, [number])
    >>> _ = weight.mul_(3)
    >>> flat(torch.tensor([1.0, 2.0]))
    (tensor([9., 9.]),)
    """

    def __init__(self, recording: Recording, inputs: Sequence[Tensor]) -> None:
        graph = recording.graph
        given = {id(tensor) for tensor in inputs}
        places = graph.graph.find_nodes(op="placeholder")
        sources = dict(zip(places, recording.inputs, strict=True))
        self._fixed: dict[Node, Tensor] = {
            place: tensor for place, tensor in sources.items() if id(tensor) not in given
        }
        self._state = list(self._fixed.values())
        for node in graph.graph.find_nodes(op="get_attr"):
            self._fixed[node] = getattr(graph, str(node.target))
        self._views: list[Node] = []
        for node in graph.graph.nodes:
            if _is_view(node) and all(
                each in self._fixed or each in self._views for each in node.all_input_nodes
            ):
                self._views.append(node)
        builder = _GraphBuilder()
        for index, tensor in enumerate(inputs):
            place = builder.graph.placeholder(f"input_{index}")
            for node, source in sources.items():
                if source is tensor:
                    builder.copies[node] = place
        fixed = [*self._fixed, *self._views]
        self._used = [node for node in fixed if any(user not in fixed for user in node.users)]
        for index, node in enumerate(self._used):
            builder.copies[node] = builder.graph.placeholder(f"fixed_{index}")
        for node in graph.graph.nodes:
            if node not in fixed and node.op != "placeholder":
                builder.copy_node(node)
        function = GraphModule(nn.Module(), builder.graph).forward
        self._function: Callable[..., tuple[Tensor, ...]] = function
        self._make_views()

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the operations.

        Args:
            inputs: the inputs, in the order of the constructor's inputs.
        """
        if self._layout != [(tensor.data_ptr(), tensor.stride()) for tensor in self._state]:
            self._make_views()
        return self._function(*inputs, *self._values)

    def _make_views(self) -> None:
        values: dict[Node, Any] = {node: tensor.detach() for node, tensor in self._fixed.items()}
        for node in self._views:
            arguments = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*arguments[0], **arguments[1])  # type: ignore[operator]
        self._values = [values[node] for node in self._used]
        self._layout = [(tensor.data_ptr(), tensor.stride()) for tensor in self._state]


@dataclass
class _View:
    """A tensor in another shape, which is not in the new graph yet."""

    base: Node
    base_shape: torch.Size
    shape: torch.Size


class _GraphBuilder:
    """Copies the nodes of a graph into a new graph."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.copies: dict[Node, Any] = {}

    def copy_node(self, node: Node) -> None:
        """Copy a node; its inputs must have been copied before."""
        if node.op == "output":
            self.graph.output(map_arg(node.args[0], self._materialize))
        elif node.target is _aten.view.default:
            self.copies[node] = self._view_of_input(node)
        elif _is_pointwise(node):
            before = self._view_of_input(node)
            arguments = (before.base, *node.args[1:])
            self.copies[node] = _View(self._emit(node, arguments), before.base_shape, before.shape)
        else:
            self.copies[node] = self._emit(
                node, tuple(map_arg(each, self._materialize) for each in node.args)
            )

    def _view_of_input(self, node: Node) -> _View:
        """Return the input of a node with one tensor, in the shape of the node's result."""
        (source,) = node.all_input_nodes
        base, shape = self.copies[source], node.meta["val"].shape
        if isinstance(base, _View):
            return _View(base.base, base.base_shape, shape)
        return _View(base, source.meta["val"].shape, shape)

    def _materialize(self, node: Node) -> Node:
        found = self.copies[node]
        if not isinstance(found, _View):
            return found
        if found.base_shape != found.shape:
            shape = list(found.shape)
            self.copies[node] = self.graph.call_method("view", (found.base, shape))
            return self.copies[node]
        return found.base

    def _emit(self, node: Node, arguments: tuple[Any, ...]) -> Node:
        """Add a call of the node's target, as a function of ``torch`` if there is one."""
        keywords = {
            name: value
            for name, value in node.kwargs.items()
            if (name, value) != ("pin_memory", False)
        }
        target = node.target
        if getattr(target, "namespace", None) == "aten":
            name = target.overloadpacket.__name__  # type: ignore[union-attr]
            if isinstance(getattr(torch, name, None), BuiltinFunctionType):
                target = getattr(torch, name)
            elif isinstance(getattr(Tensor, name, None), MethodDescriptorType):
                return self.graph.call_method(name, arguments, keywords)
        return self.graph.create_node(node.op, target, arguments, keywords)


def _is_view(node: Node) -> bool:
    return node.target is operator.getitem or bool(getattr(node.target, "is_view", False))


def _is_pointwise(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) in _POINTWISE and (
        len(node.all_input_nodes) == 1
    )
