"""The check of the bounds of continuous actions."""

import torch
from torch import Tensor

from rlkit_sac.errors import ConfigError

# Environments often write "unbounded" as the largest float instead of infinity.
_UNBOUNDED = torch.finfo(torch.float32).max


def check_bounds(low: Tensor, high: Tensor, where: str = "") -> None:
    """Refuse bounds without a finite, positive width in their own precision.

    Args:
        low: lower bounds of any shape.
        high: upper bounds of the same shape.
        where: the owner of the bounds for the error, such as ``" of 'continuous'"``.

    Raises:
        ConfigError: naming the first dimension whose bounds are not usable.

    >>> check_bounds(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, torch.inf]))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: action dimension [1] has the bounds [0.0, inf]: wanted finite ...
    """
    width = high - low
    for index in (~((width > 0) & (width < _UNBOUNDED))).nonzero().tolist():
        lower, upper = low[tuple(index)].item(), high[tuple(index)].item()
        raise ConfigError(
            f"action dimension {index}{where} has the bounds [{lower}, {upper}]: wanted finite "
            "ones, the lower below the upper"
        )
