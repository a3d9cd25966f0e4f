"""Values with a prescribed gradient."""

from torch import Tensor


def with_gradient(value: Tensor, variable: Tensor, gradient: Tensor) -> Tensor:
    """The same values, with a prescribed gradient with respect to one variable only.

    Args:
        value: ``[*]``.
        variable: ``[*, ...]``, part of a graph; finite.
        gradient: of each value with respect to its own entries of ``variable``, of its shape.

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
