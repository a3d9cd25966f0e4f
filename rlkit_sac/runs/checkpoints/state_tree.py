"""Nested state as JSON and named tensors: all that a checkpoint holds, without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Marks what JSON has no word for.
_TENSOR, _ARRAY, _SCALAR = "__tensor__", "__array__", "__numpy_scalar__"
_TUPLE, _DICT = "__tuple__", "__dict__"
_MARKS = {_TENSOR, _ARRAY, _SCALAR, _TUPLE, _DICT}


def split_state(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take a nested state apart.

    Args:
        state: dicts, lists, tuples, numbers, strings, booleans and ``None``, tensors on any device,
            NumPy arrays and scalars.

    Returns:
        A JSON value, and the tensors it refers to by name, copied to the CPU.

    Raises:
        TypeError: for any other value, naming where it is.

    >>> tree, tensors = split_state({"step": (1, 2.5), "weight": torch.ones(2)})
    >>> tree
    {'step': {'__tuple__': [1, 2.5]}, 'weight': {'__tensor__': 'weight'}}
    >>> tensors
    {'weight': tensor([1., 1.])}
    """
    tensors: dict[str, Tensor] = {}

    def hold(value: Tensor, path: str) -> str:
        tensors[path] = value.detach().to("cpu", copy=True).contiguous()
        return path

    def split(value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Tensor):
            return {_TENSOR: hold(value, path)}
        if isinstance(value, np.ndarray | np.generic):
            array = np.array(value)  # a copy that owns its memory
            try:
                return {
                    _SCALAR if isinstance(value, np.generic) else _ARRAY: hold(
                        torch.from_numpy(array), path
                    )
                }
            except TypeError as error:
                raise TypeError(
                    f"{path} is an array of {array.dtype}, which cannot be saved"
                ) from error
        if isinstance(value, Mapping):
            if all(type(key) is str and key not in _MARKS for key in value):
                return {key: split(item, _join(path, key)) for key, item in value.items()}
            pairs = [
                [split(key, path), split(item, _join(path, key))] for key, item in value.items()
            ]
            return {_DICT: pairs}
        if isinstance(value, list | tuple):
            items = [split(item, _join(path, index)) for index, item in enumerate(value)]
            return items if isinstance(value, list) else {_TUPLE: items}
        raise TypeError(f"{path} is a {type(value).__name__}, which cannot be saved")

    return split(state, ""), tensors


def join_state(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put a state that :func:`split_state` took apart together again.

    Raises:
        KeyError: for a tensor that is missing.

    >>> join_state({"step": {"__tuple__": [1, 2.5]}}, {})
    {'step': (1, 2.5)}
    """
    if isinstance(tree, list):
        return [join_state(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        ((mark, content),) = tree.items()
        if mark == _TENSOR:
            return tensors[content]
        if mark == _ARRAY:
            return tensors[content].numpy()
        if mark == _SCALAR:
            return tensors[content].numpy()[()]
        if mark == _TUPLE:
            return tuple(join_state(item, tensors) for item in content)
        if mark == _DICT:
            return {join_state(key, tensors): join_state(item, tensors) for key, item in content}
    return {key: join_state(item, tensors) for key, item in tree.items()}


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)
