"""Diagonal Gaussians: density, divergence, entropy, and gradients in their parameter spaces."""

import math
from typing import Literal

import torch
from torch import Tensor

GaussianSpace = Literal["loc_var", "loc_scale"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def gaussian_log_prob(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    r"""Return the log-density :math:`\sum_d -\tfrac12 e_d^2 - \log\sigma_d - \tfrac12\log 2\pi`.

    Here :math:`e = (x - \mu) / \sigma`.

    Args:
        x: the point ``[*, D]``.
        loc: :math:`\mu`, ``[*, D]``.
        scale: :math:`\sigma > 0`, ``[*, D]``.

    Returns:
        The log-density ``[*]`` in nats.

    >>> gaussian_log_prob(torch.zeros(2), torch.zeros(2), torch.ones(2))
    tensor(-1.8379)
    """
    return (-0.5 * ((x - loc) / scale).square() - scale.log() - _LOG_ROOT).sum(-1)


def gaussian_entropy(scale: Tensor) -> Tensor:
    r"""Return the entropy :math:`\sum_d \log\sigma_d + \tfrac12(1 + \log 2\pi)`.

    Args:
        scale: :math:`\sigma > 0`, ``[*, D]``.

    Returns:
        The entropy ``[*]`` in nats.

    >>> gaussian_entropy(torch.ones(1))
    tensor(1.4189)
    """
    return (scale.log() + (0.5 + _LOG_ROOT)).sum(-1)


def gaussian_kl(loc: Tensor, scale: Tensor, other_loc: Tensor, other_scale: Tensor) -> Tensor:
    r"""Return the divergence :math:`D(p \Vert q)` of two diagonal Gaussians.

    .. math:: \sum_d \log\frac{\sigma_q}{\sigma_p}
        + \frac{\sigma_p^2 + (\mu_p - \mu_q)^2}{2\sigma_q^2} - \frac12

    Args:
        loc: :math:`\mu_p`, ``[*, D]``.
        scale: :math:`\sigma_p`, ``[*, D]``.
        other_loc: :math:`\mu_q`, ``[*, D]``.
        other_scale: :math:`\sigma_q`, ``[*, D]``.

    Returns:
        The divergence ``[*]`` in nats.

    >>> gaussian_kl(torch.zeros(1), torch.ones(1), torch.ones(1), torch.ones(1))
    tensor(0.5000)
    """
    ratio = scale / other_scale
    distance = (loc - other_loc) / other_scale
    return (0.5 * (ratio.square() + distance.square() - 1) - ratio.log()).sum(-1)


def gaussian_parameters(loc: Tensor, scale: Tensor, space: GaussianSpace) -> Tensor:
    r"""Return the parameters :math:`\phi` of a diagonal Gaussian in a space.

    Args:
        loc: the mean ``[*, D]``.
        scale: the standard deviation ``[*, D]``.
        space: ``"loc_var"`` for :math:`(\mu, \sigma^2)`, ``"loc_scale"`` for
            :math:`(\mu, \sigma)`.

    Returns:
        The parameters ``[*, 2 D]``.

    >>> gaussian_parameters(torch.tensor([1.0]), torch.tensor([3.0]), "loc_var")
    tensor([1., 9.])
    """
    return torch.cat([loc, scale.square() if space == "loc_var" else scale], -1)


def gaussian_score(x: Tensor, loc: Tensor, scale: Tensor, space: GaussianSpace) -> Tensor:
    r"""Return the gradient of the log-density with respect to the parameters.

    With :math:`e = (x - \mu) / \sigma`,

    .. math:: \frac{\partial\log\pi}{\partial\mu} = \frac{e}{\sigma},\qquad
        \frac{\partial\log\pi}{\partial\sigma} = \frac{e^2 - 1}{\sigma},\qquad
        \frac{\partial\log\pi}{\partial\sigma^2} = \frac{e^2 - 1}{2\sigma^2}

    Args:
        x: the point ``[*, D]``.
        loc: the mean ``[*, D]``.
        scale: the standard deviation ``[*, D]``.
        space: the space of the parameters, see :func:`gaussian_parameters`.

    Returns:
        The gradient ``[*, 2 D]``, clamped to 1e-8 times the largest number of the dtype.

    >>> gaussian_score(torch.tensor([2.0]), torch.zeros(1), torch.tensor([0.5]), "loc_var")
    tensor([ 8., 30.])
    """
    noise = (x - loc) / scale
    return _gaussian_parameter_gradient(noise, noise.square() - 1, scale, space)


def gaussian_kl_gradient(
    average_loc: Tensor, average_scale: Tensor, loc: Tensor, scale: Tensor, space: GaussianSpace
) -> Tensor:
    r"""Return the gradient of minus the divergence from an average policy.

    The divergence is :math:`D(\bar\pi \Vert \pi)`.

    With :math:`d = (\bar\mu - \mu) / \sigma` and :math:`r = \bar\sigma / \sigma`,

    .. math:: k_\mu = \frac{d}{\sigma},\qquad k_\sigma = \frac{r^2 + d^2 - 1}{\sigma},\qquad
        k_{\sigma^2} = \frac{r^2 + d^2 - 1}{2\sigma^2}

    Args:
        average_loc: :math:`\bar\mu`, ``[*, D]``.
        average_scale: :math:`\bar\sigma`, ``[*, D]``.
        loc: :math:`\mu`, ``[*, D]``.
        scale: :math:`\sigma`, ``[*, D]``.
        space: the space of the parameters, see :func:`gaussian_parameters`.

    Returns:
        The gradient ``[*, 2 D]``, clamped to 1e-8 times the largest number of the dtype.

    >>> one = torch.ones(1)
    >>> gaussian_kl_gradient(2 * one, 3 * one, 0 * one, one, "loc_scale")
    tensor([ 2., 12.])
    """
    distance = (average_loc - loc) / scale
    spread = (average_scale / scale).square() + distance.square() - 1
    return _gaussian_parameter_gradient(distance, spread, scale, space)


def _gaussian_parameter_gradient(
    scaled_loc_gradient: Tensor, log_scale_gradient: Tensor, scale: Tensor, space: GaussianSpace
) -> Tensor:
    r"""Convert :math:`\sigma\partial_\mu` and :math:`\partial_{\log\sigma}` to a space."""
    spread_gradient = log_scale_gradient / (2 * scale.square() if space == "loc_var" else scale)
    gradient = torch.cat([scaled_loc_gradient / scale, spread_gradient], -1)
    # Products with weights and sums over dimensions must not overflow.
    bound = 1e-8 * torch.finfo(gradient.dtype).max
    return gradient.clamp(-bound, bound)
