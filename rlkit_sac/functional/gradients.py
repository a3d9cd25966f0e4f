"""Gradients in place of those of automatic differentiation."""

import torch
from torch import Tensor


def with_gradient(value: Tensor, variable: Tensor, gradient: Tensor) -> Tensor:
    """The same values, with a prescribed gradient with respect to one variable only.

    Args:
        value: ``[*]``.
        variable: ``[*, ...]``, part of a graph; finite.
        gradient: of each value with respect to its own entries of ``variable``, of its shape.

    Returns:
        ``[*]``.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = with_gradient(torch.tensor(7.0), x, torch.tensor([3.0, 4.0]))
    >>> y.backward()
    >>> y.item(), x.grad
    (7.0, tensor([3., 4.]))
    """
    step = gradient.detach() * (variable - variable.detach())
    return value.detach() + step.flatten(value.ndim).sum(-1)


def clip_action_gradient(value: Tensor, action: Tensor, bound: float | Tensor | None) -> Tensor:
    r"""The same values, with a clamped gradient with respect to each sample's action.

    .. math:: g = \operatorname{clip}(\partial V / \partial a,\, -x,\, x)

    element by element, before any averaging over the batch, so the bound does not depend on the
    batch size, on the importance weights or on the reduction. The result has the numerical value
    of ``value`` and the gradient ``g`` with respect to ``action``, and no other.

    Args:
        value: ``[*]``, computed from ``action``; each sample from its own action alone.
        action: ``[*, ...]``, part of the graph of ``value``.
        bound: ``x`` in units of value per unit of action; ``None`` or the number ``0``
            returns ``value`` unchanged. A tensor ``[]`` must be positive.

    Returns:
        ``[*]``.

    Source: the ``dqda_clipping`` option of ALF's ``SacAlgorithm``.

    >>> action = torch.tensor([[0.1, 0.2]], requires_grad=True)
    >>> value = (action * torch.tensor([5.0, -0.5])).sum(-1)
    >>> clip_action_gradient(value, action, 1.0).sum().backward()
    >>> action.grad
    tensor([[ 1.0000, -0.5000]])
    """
    if bound is None or (not isinstance(bound, Tensor) and not bound) or not value.requires_grad:
        return value
    (gradient,) = torch.autograd.grad(value.sum(), action)
    gradient = gradient.clamp(-bound, bound)  # type: ignore[arg-type]
    return with_gradient(value, action, gradient)
