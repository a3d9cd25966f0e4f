"""The nested state of a run as JSON and named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def split_state(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take a nested state apart.

    Args:
        state: JSON values, tensors and NumPy arrays in lists, tuples and mappings with any keys.

    Returns:
        A JSON value, and the tensors it refers to by name, copied to the CPU.

    Raises:
        TypeError: for any other value, naming where it is.

    >>> tree, tensors = split_state([2.5, {"weight": torch.ones(2)}])
    >>> tree
    [2.5, {'dict': [['weight', {'tensor': '1/weight'}]]}]
    >>> tensors
    {'1/weight': tensor([1., 1.])}
    """
    tensors: dict[str, Tensor] = {}

    def split(value: Any, *path: Any) -> Any:
        if isinstance(value, Tensor | np.ndarray | np.generic):
            kind = "tensor" if isinstance(value, Tensor) else "array"
            name = "/".join(map(str, path))
            while name in tensors:  # keys such as 1 and "1"
                name += "'"
            tensor = (
                value.detach() if isinstance(value, Tensor) else torch.tensor(np.asarray(value))
            )
            tensors[name] = tensor.to("cpu", copy=True).contiguous()
            return {kind: name}
        if isinstance(value, Mapping):
            return {"dict": [[split(k, *path), split(v, *path, k)] for k, v in value.items()]}
        if isinstance(value, list | tuple):
            items = [split(item, *path, index) for index, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        where = "/".join(map(str, path))
        raise TypeError(f"{where}: a {type(value).__name__} cannot be saved")

    return split(state), tensors


def join_state(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put a state that :func:`split_state` took apart together again.

    Raises:
        KeyError: for a tensor that is missing.

    >>> join_state(*split_state({"step": (1, 2.5)}))
    {'step': (1, 2.5)}
    """
    if isinstance(tree, list):
        return [join_state(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind in ("tensor", "array"):
        return tensors[content] if kind == "tensor" else tensors[content].numpy()
    items = join_state(content, tensors)
    return tuple(items) if kind == "tuple" else dict(items)
