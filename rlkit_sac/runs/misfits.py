"""How the tensors of a file differ from those of the module that shall take them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy


def misfits(own: Mapping[str, Tensor], given: Mapping[str, Any], *, exactly: bool = False) -> str:
    """One line on tensors that cannot be loaded as they are: names, shapes, types, NaN.

    Args:
        own: state dict of the module, on any device.
        given: state dict of the file.
        exactly: whether types must be the same, but for float64, which MPS does not have. Otherwise
            the module's may be wider.

    Returns:
        An empty text if all fit.

    >>> misfits({"w": torch.zeros(3), "b": torch.zeros(1)}, {"w": torch.zeros(1)})
    'only in the module b; of another shape or type w ([1] float32, in the module [3] float32)'
    """
    # A module takes weights of rewards, and has some only once they were given.
    other = {name for name, value in own.items() if not isinstance(value, Tensor)}
    own, given = (
        {
            name: value
            for name, value in state.items()
            if not name.endswith("reward_weights.value") and name not in other
        }
        for state in (own, given)
    )
    both = own.keys() & given.keys()
    fitting = {name for name in both if _holds(own[name], given[name], exactly)}
    found = {
        "only in the file": given.keys() - own.keys(),
        "only in the module": own.keys() - given.keys(),
        "of another shape or type": {
            f"{name} ({_kind(given[name])}, in the module {_kind(own[name])})"
            for name in both - fitting
        },
        "with NaN": {name for name in fitting if given[name].isnan().any()},
    }
    return "; ".join(f"{what} {_first(names)}" for what, names in found.items() if names)


def _holds(own: Tensor, value: Any, exactly: bool) -> bool:
    """Whether a tensor can take the numbers of another as they are."""
    if not isinstance(value, Tensor) or is_lazy(own) or own.shape != value.shape:
        return False
    if exactly:
        is_narrowed = own.device.type == "mps" and value.dtype == torch.float64
        return own.dtype == (torch.float32 if is_narrowed else value.dtype)
    same = own.is_floating_point() == value.is_floating_point()
    return same and torch.promote_types(own.dtype, value.dtype) == own.dtype


def _kind(tensor: Any) -> str:
    if not isinstance(tensor, Tensor):
        return f"a {type(tensor).__name__}"
    if is_lazy(tensor):
        return "unknown before a first call"
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _first(names: Set[str]) -> str:
    first = ", ".join(sorted(names)[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"
