"""The nested state of a run as JSON and named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from rlkit_sac.envs.state import CannotSaveError, Node, ValueReader, ValueWriter


def split_state(state: Any) -> tuple[Node, dict[str, Tensor]]:
    """Take a nested state apart.

    Args:
        state: tensors on any device, and what :class:`~rlkit_sac.envs.state.ValueWriter` takes, in
            tuples and mappings of any class.

    Returns:
        A JSON value, and the tensors it refers to by name, copied to the CPU.

    Raises:
        CannotSaveError: for any other value, naming where it is.

    >>> tree, tensors = split_state([2.5, {"weight": torch.ones(2)}])
    >>> tree["items"][1]["items"]
    [['weight', {'kind': 'tensor', 'data': '1/weight'}]]
    >>> tensors
    {'1/weight': tensor([1., 1.])}
    """
    writer = _StateWriter()
    try:
        return writer.write(state), writer.tensors
    except CannotSaveError as error:
        raise CannotSaveError(f"{writer.path}: {error}") from None


def join_state(tree: Node, tensors: Mapping[str, Tensor]) -> Any:
    """Put a state that :func:`split_state` took apart together again.

    Raises:
        KeyError: for a tensor that is missing.

    >>> join_state(*split_state({"step": (1, 2.5)}))
    {'step': (1, 2.5)}
    """
    return _StateReader(tensors).read(tree)


def join_format_1(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put a state of a checkpoint of format 1 together again.

    >>> join_format_1({"step": {"__tuple__": [1, 2.5]}}, {})
    {'step': (1, 2.5)}
    """
    if isinstance(tree, list):
        return [join_format_1(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    match list(tree.items()):
        case [("__tensor__", name)]:
            return tensors[name]
        case [("__array__", name)]:
            return tensors[name].numpy()
        case [("__numpy_scalar__", name)]:
            return tensors[name].numpy()[()]
        case [("__tuple__", items)]:
            return tuple(join_format_1(items, tensors))
        case [("__dict__", pairs)]:
            return dict(join_format_1(pair, tensors) for pair in pairs)
    return {key: join_format_1(item, tensors) for key, item in tree.items()}


class _StateWriter(ValueWriter):
    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, Tensor] = {}

    def write(self, value: Any) -> Node:
        if isinstance(value, Tensor):
            return {"kind": "tensor", "data": self._hold(value)}
        if isinstance(value, tuple):
            value = tuple(value)  # such as a torch.Size
        elif isinstance(value, Mapping):
            value = dict(value)
        node = super().write(value)
        if isinstance(node, dict) and "data" in node:
            node["data"] = self._hold(torch.tensor(node["data"]))
        return node

    def _check_memory(self, array: NDArray[Any]) -> None:
        """Any array will do: a view comes back in memory of its own."""

    def _hold(self, tensor: Tensor) -> str:
        name = self.path
        while name in self.tensors:  # keys such as 1 and "1"
            name += "'"
        self.tensors[name] = tensor.detach().to("cpu", copy=True).contiguous()
        return name


class _StateReader(ValueReader):
    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def read(self, node: Node, *place: Any) -> Any:
        if isinstance(node, dict) and "data" in node:
            tensor = self._tensors[node["data"]]
            if node["kind"] == "tensor":
                return tensor
            node = {**node, "data": tensor.numpy()}
        return super().read(node, *place)
