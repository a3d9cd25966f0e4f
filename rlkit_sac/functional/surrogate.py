"""Values with a given gradient."""

from torch import Tensor


def with_gradient(value: Tensor, variable: Tensor, gradient: Tensor) -> Tensor:
    """The same values, with a given gradient with respect to one variable and no other.

    Args:
        value: ``[*]``.
        variable: ``[*, ...]``, part of a graph; finite.
        gradient: of each value with respect to its own variables, like ``variable``.

    Returns:
        ``[*]``.

    >>> import torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = with_gradient(torch.tensor(7.0), x, torch.tensor([3.0, 4.0]))
    >>> y.backward()
    >>> y.item(), x.grad
    (7.0, tensor([3., 4.]))
    """
    step = gradient.detach() * (variable - variable.detach())
    return value.detach() + step.flatten(value.ndim).sum(-1)
