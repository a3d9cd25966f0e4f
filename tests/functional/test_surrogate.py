import torch

from rlkit_sac.functional import with_gradient


def test_value_and_gradient_are_the_given_ones() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    value = torch.randn(3, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    out = with_gradient(value, 2 * x, gradient)
    assert torch.equal(out, value)
    found = torch.autograd.grad(
        (out * torch.arange(3)).sum(), [x, value, gradient], allow_unused=True
    )
    torch.testing.assert_close(found[0], 2 * torch.arange(3).unsqueeze(-1) * gradient.detach())
    assert found[1] is None
    assert found[2] is None
