import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from rlkit_sac.functional import (
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_gradient,
    gaussian_log_prob,
    gaussian_parameters,
    gaussian_score,
)

SPACES = ["loc_var", "loc_scale"]


def draw(seed: int, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    loc, log_scale = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    return loc, log_scale.exp()


@given(seed=st.integers(0, 1000))
def test_densities_are_those_of_torch(seed: int) -> None:
    (loc, scale), (other_loc, other_scale) = draw(seed, 4, 3), draw(seed + 1, 4, 3)
    p, q = Normal(loc, scale), Normal(other_loc, other_scale)
    x = other_loc + 1
    torch.testing.assert_close(gaussian_log_prob(x, loc, scale), p.log_prob(x).sum(-1))
    torch.testing.assert_close(gaussian_entropy(scale), p.entropy().sum(-1))
    found = gaussian_kl(loc, scale, other_loc, other_scale)
    torch.testing.assert_close(found, kl_divergence(p, q).sum(-1))


@pytest.mark.parametrize("space", SPACES)
@given(seed=st.integers(0, 1000))
def test_gradients_are_those_of_autograd(space: str, seed: int) -> None:
    (loc, scale), average = draw(seed, 4, 3), draw(seed + 1, 4, 3)
    x = average[0] - 1
    phi = gaussian_parameters(loc, scale, space).requires_grad_()
    own_loc, second = phi.chunk(2, -1)
    policy = Normal(own_loc, second.sqrt() if space == "loc_var" else second)
    (score,) = torch.autograd.grad(policy.log_prob(x).sum(), phi, retain_graph=True)
    torch.testing.assert_close(gaussian_score(x, loc, scale, space), score, rtol=1e-10, atol=1e-10)
    kl = kl_divergence(Normal(*average), policy).sum()
    (wanted,) = torch.autograd.grad(-kl, phi)
    found = gaussian_kl_gradient(*average, loc, scale, space)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1.0, 1e6, 1e10])
def test_narrow_policies(space: str, dtype: torch.dtype, distance: float) -> None:
    loc, x = torch.zeros(1, dtype=dtype), torch.full((1,), distance, dtype=dtype)
    narrow, wide = torch.full_like(loc, 1e-6), torch.ones_like(loc)
    assert gaussian_score(x, loc, narrow, space).isfinite().all()
    assert gaussian_kl_gradient(x, wide, loc, narrow, space).isfinite().all()
    assert gaussian_log_prob(x, loc, narrow).isfinite()
    assert gaussian_kl(x, wide, loc, narrow).isfinite()
