"""Categorical distributions: divergence, entropy, and gradients in their parameter spaces.

The loss of a categorical actor of soft actor-critic is in :mod:`~rlkit_sac.functional.sac`.
"""

from typing import Literal

import torch
from torch import Tensor

CategoricalSpace = Literal["logits", "log_probs", "probs"]


def categorical_entropy(log_prob: Tensor) -> Tensor:
    r"""Return the entropy :math:`-\sum_a \pi(a)\log\pi(a)`.

    Args:
        log_prob: finite log-probabilities ``[*, A]``, see :func:`normalized_log_prob`.

    Returns:
        The entropy ``[*]`` in nats.

    >>> categorical_entropy(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    return -(log_prob.exp() * log_prob).sum(-1)


def categorical_kl(log_prob: Tensor, other_log_prob: Tensor) -> Tensor:
    r"""Return the divergence :math:`D(p \Vert q) = \sum_a p(a) (\log p(a) - \log q(a))`.

    Args:
        log_prob: :math:`\log p`, finite, ``[*, A]``.
        other_log_prob: :math:`\log q`, finite, ``[*, A]``.

    Returns:
        The divergence ``[*]`` in nats.

    >>> categorical_kl(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.9, 0.1]).log())
    tensor(0.5108)
    """
    return (log_prob.exp() * (log_prob - other_log_prob)).sum(-1)


def categorical_parameters(log_prob: Tensor, space: CategoricalSpace) -> Tensor:
    r"""Return the parameters :math:`\phi` of a categorical distribution in a space.

    For ``"logits"`` they are the normalized logits. A network's raw output differs from them by a
    constant. It does not change the gradients of :func:`categorical_gradient` in that space.

    Args:
        log_prob: normalized logits, ``[*, A]``; may be minus infinity.
        space: ``"logits"``, ``"log_probs"`` or ``"probs"``.

    Returns:
        The parameters ``[*, A]``, finite.

    >>> categorical_parameters(torch.tensor([0.0, -torch.inf]), "probs")
    tensor([1., 0.])
    """
    if space == "probs":
        return log_prob.exp()
    return log_prob.clamp_min(torch.finfo(log_prob.dtype).min)


def categorical_gradient(log_prob_grad: Tensor, prob: Tensor, space: CategoricalSpace) -> Tensor:
    r"""Convert a gradient with respect to log-probabilities to one with respect to parameters.

    With :math:`h = \partial f / \partial \log\pi`, where log-probabilities count as independent,

    .. math::
        \text{logits } x:\quad & \partial f/\partial x_a = h_a - \pi(a) \textstyle\sum_b h_b \\
        \text{log-probabilities}:\quad & \partial f/\partial \log\pi(a) = h_a \\
        \text{probabilities}:\quad & \partial f/\partial \pi(a) = h_a / \pi(a)

    For :math:`f = \log\pi(a)`, h is the unit vector of a; for :math:`f = -D(\bar\pi \Vert \pi)` it
    is :math:`\bar\pi`. Probabilities below the square root of the dtype's smallest normal number
    are clamped to it.

    Args:
        log_prob_grad: the gradient h, ``[*, A]``.
        prob: the probabilities :math:`\pi`, ``[*, A]``.
        space: the space of the parameters: ``"logits"``, ``"log_probs"`` or ``"probs"``.

    Returns:
        The gradient with respect to the parameters, ``[*, A]``.

    >>> unit, prob = torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.75])
    >>> categorical_gradient(unit, prob, "logits")
    tensor([ 0.7500, -0.7500])
    >>> categorical_gradient(unit, prob, "probs")
    tensor([4., 0.])
    """
    if space == "log_probs":
        return log_prob_grad
    if space == "logits":
        return log_prob_grad - prob * log_prob_grad.sum(-1, keepdim=True)
    return log_prob_grad / prob.clamp_min(torch.finfo(prob.dtype).tiny ** 0.5)
