"""Statistics over the valid steps of a batch."""

import torch
from torch import Tensor


def masked_mean(x: Tensor, valid: Tensor | None) -> Tensor:
    """Return the mean over the valid steps.

    Args:
        x: one number for each step, ``[*]``.
        valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.

    >>> masked_mean(torch.tensor([1.0, 9.0]), torch.tensor([True, False]))
    tensor(1.)
    """
    if valid is None:
        return x.mean()
    return torch.where(valid, x, torch.zeros_like(x)).sum() / valid.sum().clamp_min(1)


def explained_variance(values: Tensor, target: Tensor, valid: Tensor | None) -> Tensor:
    r"""Return the fraction of the targets' variance that the values explain.

    .. math:: 1 - \operatorname{Var}(y - Q) / \operatorname{Var}(y)

    Args:
        values: the values Q, ``[*, M]``.
        target: the targets y, ``[*, M]``.
        valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.

    Returns:
        1 for perfect values, 0 for values no better than a constant, NaN if all targets are
        equal.

    >>> explained_variance(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [3.0]]), None)
    tensor(0.7500)
    """
    residual = target - values
    center, bias = (masked_mean(x.mean(-1), valid) for x in (target, residual))
    spread = masked_mean((target - center).square().mean(-1), valid)
    unexplained = masked_mean((residual - bias).square().mean(-1), valid)
    return 1 - unexplained / torch.where(spread > 0, spread, torch.nan)
