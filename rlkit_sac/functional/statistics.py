"""Statistics over the valid steps of a batch."""

import torch
from torch import Tensor


def masked_mean(x: Tensor, valid: Tensor | None) -> Tensor:
    """Mean over the valid steps.

    Args:
        x: ``[*]``.
        valid: bool ``[*]``, or ``None`` where every step counts.

    >>> masked_mean(torch.tensor([1.0, 9.0]), torch.tensor([True, False]))
    tensor(1.)
    """
    if valid is None:
        return x.mean()
    return torch.where(valid, x, torch.zeros_like(x)).sum() / valid.sum().clamp_min(1)


def explained_variance(values: Tensor, target: Tensor, valid: Tensor | None) -> Tensor:
    r"""Share of the targets' variance that values explain, over the valid steps.

    .. math:: 1 - \operatorname{Var}(y - Q) / \operatorname{Var}(y)

    Args:
        values: Q, ``[*, M]``.
        target: y, ``[*, M]``.
        valid: bool ``[*]`` or ``None``.

    Returns:
        1 where values are perfect, 0 where they are no better than a constant, NaN where all
        targets are equal.

    >>> explained_variance(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [3.0]]), None)
    tensor(0.7500)
    """
    residual = target - values
    center, bias = (masked_mean(each.mean(-1), valid) for each in (target, residual))
    spread = masked_mean((target - center).square().mean(-1), valid)
    unexplained = masked_mean((residual - bias).square().mean(-1), valid)
    return 1 - unexplained / torch.where(spread > 0, spread, torch.nan)
