"""Bounds of squashed actions."""

from torch import Tensor

from rlkit_sac.errors import ConfigError


def check_box(low: Tensor, high: Tensor) -> None:
    """Refuse bounds without a finite, positive width in their own precision.

    Args:
        low: lower bounds, any shape.
        high: upper bounds.

    Raises:
        ConfigError: naming the first dimension whose bounds are not usable.

    >>> import torch
    >>> check_box(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, torch.inf]))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: action dimension 1 has the bounds [0.0, inf]: ...
    """
    width = high - low
    usable = (width > 0) & width.isfinite()
    if bool(usable.all()):
        return
    dimension = int((~usable).flatten().nonzero()[0])
    lower, upper = low.flatten()[dimension].item(), high.flatten()[dimension].item()
    raise ConfigError(
        f"action dimension {dimension} has the bounds [{lower}, {upper}]: a squashed policy needs "
        f"finite ones, the lower below the upper, and a width that {low.dtype} can hold"
    )
