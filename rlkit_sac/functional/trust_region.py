"""The trust region around an average policy, in the space of a distribution's parameters."""

import torch
from torch import Tensor


def project_gradient(gradient: Tensor, kl_gradient: Tensor, delta: float) -> Tensor:
    r"""Project a gradient so that the divergence grows by at most a bound.

    .. math:: z = g - \max\left(0, \frac{k^\top g - \delta}{\lVert k \rVert^2}\right) k

    The result z solves :math:`\min_z \tfrac12 \lVert g - z \rVert^2` subject to
    :math:`k^\top z \le \delta`, separately for each step. Where :math:`k = 0`, z is g.

    If g is the gradient of a loss, k is the gradient of **minus** the divergence
    :math:`D(\bar\pi \Vert \pi)`. If g is the gradient of an objective to be maximized, k is the
    gradient of the divergence. The norm of k may have any value in the range of its dtype.

    Args:
        gradient: the gradient g, ``[*, P]``.
        kl_gradient: the gradient k, ``[*, P]``.
        delta: the bound :math:`\delta \ge 0`.

    Returns:
        The projected gradient z, ``[*, P]``.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 11 and 12.

    >>> project_gradient(torch.tensor([3.0, 4.0]), torch.tensor([2.0, 0.0]), 1.0)
    tensor([0.5000, 4.0000])
    """
    length = kl_gradient.abs().amax(-1, keepdim=True)
    length = torch.where(length > 0, length, torch.ones_like(length))
    direction = kl_gradient / length  # so that its square can neither overflow nor vanish
    square = direction.square().sum(-1, keepdim=True)
    excess = (direction * gradient).sum(-1, keepdim=True) - delta / length
    factor = excess.clamp_min(0.0) / torch.where(square > 0, square, torch.ones_like(square))
    return gradient - factor * direction
