import pytest
import torch
from torch import Tensor

from rlkit_sac.functional import clip_action_gradient, replace_gradient


def curved(action: Tensor) -> Tensor:
    """A value ``[*]`` with the gradient ``3 a^2 - 2`` in each element."""
    return (action**3 - 2 * action).flatten(2).sum(-1)


ACTION = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(2, 3, 2, 2)


def test_the_value_stays_and_the_gradient_is_clamped_element_by_element() -> None:
    action = ACTION.clone().requires_grad_()
    clipped = clip_action_gradient(curved(action), action, 1.5)
    assert torch.equal(clipped.detach(), curved(ACTION))
    clipped.sum().backward()
    slope = 3 * ACTION**2 - 2
    torch.testing.assert_close(action.grad, slope.clamp(-1.5, 1.5), rtol=1e-12, atol=1e-12)
    assert slope.min() < -1.5  # both sides of the clamp were at work
    assert slope.max() > 1.5


@pytest.mark.parametrize("off", [None, 0, 0.0])
def test_it_is_off_without_a_bound(off: float | None) -> None:
    action = ACTION.clone().requires_grad_()
    value = curved(action)
    assert clip_action_gradient(value, action, off) is value


def test_value_and_gradient_are_the_given_ones() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    value = torch.randn(3, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    out = replace_gradient(value, 2 * x, gradient)
    assert torch.equal(out, value)
    found = torch.autograd.grad(
        (out * torch.arange(3)).sum(), [x, value, gradient], allow_unused=True
    )
    torch.testing.assert_close(found[0], 2 * torch.arange(3).unsqueeze(-1) * gradient.detach())
    assert found[1] is None
    assert found[2] is None
