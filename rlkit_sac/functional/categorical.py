"""Categorical distributions: divergence, entropy, and gradients in their parameter spaces.

The loss of a categorical actor of soft actor-critic is in :mod:`~rlkit_sac.functional.sac`.
"""

from typing import Literal

import torch
from torch import Tensor

CategoricalSpace = Literal["logits", "log_probs", "probs"]


def categorical_entropy(log_prob: Tensor) -> Tensor:
    r"""Entropy :math:`-\sum_a \pi(a)\log\pi(a)`, nats.

    Args:
        log_prob: finite, ``[*, A]``, see :func:`normalized_log_prob`.

    Returns:
        ``[*]``.

    >>> categorical_entropy(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    return -(log_prob.exp() * log_prob).sum(-1)


def categorical_kl(log_prob: Tensor, other: Tensor) -> Tensor:
    r"""Divergence :math:`D(p \Vert q) = \sum_a p(a) (\log p(a) - \log q(a))`, nats.

    Args:
        log_prob: :math:`\log p`, finite, ``[*, A]``.
        other: :math:`\log q`, finite, ``[*, A]``.

    Returns:
        ``[*]``.

    >>> categorical_kl(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.9, 0.1]).log())
    tensor(0.5108)
    """
    return (log_prob.exp() * (log_prob - other)).sum(-1)


def categorical_parameters(log_prob: Tensor, space: CategoricalSpace) -> Tensor:
    r"""The parameters :math:`\phi` of a categorical distribution in a space.

    For ``"logits"`` they are the normalized logits: a network's raw output differs from them by a
    constant, to which the gradients of :func:`in_categorical_space` in that space are invariant.

    Args:
        log_prob: normalized logits, ``[*, A]``; may be minus infinity.
        space: ``"logits"``, ``"log_probs"`` or ``"probs"``.

    Returns:
        finite, ``[*, A]``.

    >>> categorical_parameters(torch.tensor([0.0, -torch.inf]), "probs")
    tensor([1., 0.])
    """
    if space == "probs":
        return log_prob.exp()
    return log_prob.clamp_min(torch.finfo(log_prob.dtype).min)


def in_categorical_space(gradient: Tensor, prob: Tensor, space: CategoricalSpace) -> Tensor:
    r"""A gradient with respect to log-probabilities as one with respect to other parameters.

    With :math:`h = \partial f / \partial \log\pi`, treating log-probabilities as independent,

    .. math::
        \text{logits } x:\quad & \partial f/\partial x_a = h_a - \pi(a) \textstyle\sum_b h_b \\
        \text{log-probabilities}:\quad & \partial f/\partial \log\pi(a) = h_a \\
        \text{probabilities}:\quad & \partial f/\partial \pi(a) = h_a / \pi(a)

    For :math:`f = \log\pi(a)`, h is the unit vector of a; for :math:`f = -D(\bar\pi \Vert \pi)` it
    is :math:`\bar\pi`. Probabilities below the square root of the dtype's smallest normal number
    are clamped to it.

    Args:
        gradient: h, ``[*, A]``.
        prob: :math:`\pi`, ``[*, A]``.
        space: ``"logits"``, ``"log_probs"`` or ``"probs"``.

    Returns:
        ``[*, A]``.

    >>> unit, prob = torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.75])
    >>> in_categorical_space(unit, prob, "logits")
    tensor([ 0.7500, -0.7500])
    >>> in_categorical_space(unit, prob, "probs")
    tensor([4., 0.])
    """
    if space == "log_probs":
        return gradient
    if space == "logits":
        return gradient - prob * gradient.sum(-1, keepdim=True)
    return gradient / prob.clamp_min(torch.finfo(prob.dtype).tiny ** 0.5)
