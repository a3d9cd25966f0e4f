"""Prescribed gradients, which replace those of automatic differentiation."""

import torch
from torch import Tensor


def replace_gradient(value: Tensor, variable: Tensor, gradient: Tensor) -> Tensor:
    """Return the same values, with a prescribed gradient with respect to one variable only.

    Args:
        value: the values ``[*]``.
        variable: a finite tensor ``[*, ...]`` that is part of a graph.
        gradient: the gradient of each value with respect to its own entries of ``variable``, of the
            shape of ``variable``.

    Returns:
        The values ``[*]``.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = replace_gradient(torch.tensor(7.0), x, torch.tensor([3.0, 4.0]))
    >>> y.backward()
    >>> y.item(), x.grad
    (7.0, tensor([3., 4.]))
    """
    step = gradient.detach() * (variable - variable.detach())
    return value.detach() + step.flatten(value.ndim).sum(-1)


def clip_action_gradient(value: Tensor, action: Tensor, bound: float | Tensor | None) -> Tensor:
    r"""Return the same values, with a clamped gradient with respect to each sample's action.

    .. math:: g = \operatorname{clip}(\partial V / \partial a,\, -x,\, x)

    The gradient is clamped element by element before the batch is averaged. So the bound does not
    depend on the batch size, the importance weights or the reduction. The result has the numbers of
    ``value``, the gradient ``g`` with respect to ``action``, and no other gradient.

    Args:
        value: the values ``[*]``, each computed from the action of its own sample alone.
        action: the actions ``[*, ...]``, part of the graph of ``value``.
        bound: the bound ``x`` in units of value per unit of action; ``None`` or the number ``0``
            returns ``value`` unchanged. A tensor ``[]`` must be positive.

    Returns:
        The values ``[*]``.

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
    return replace_gradient(value, action, gradient)
