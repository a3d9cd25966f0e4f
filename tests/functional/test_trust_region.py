import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from rlkit_sac.functional import project_gradient


@pytest.mark.parametrize("seed", range(20))
def test_the_projection_solves_the_quadratic_program(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    g, k = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    delta = torch.rand(1, generator=generator, dtype=torch.float64).item()
    solution = minimize(
        lambda z: 0.5 * np.sum((g.numpy() - z) ** 2),
        np.zeros(6),
        jac=lambda z: z - g.numpy(),
        constraints={
            "type": "ineq",
            "fun": lambda z: delta - k.numpy() @ z,
            "jac": lambda z: -k.numpy(),
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert solution.success
    found = project_gradient(g, k, delta)
    assert found.tolist() == pytest.approx(solution.x.tolist(), abs=1e-6)


@given(seed=st.integers(0, 1000), delta=st.floats(0, 3))
def test_each_step_is_projected_by_itself(seed: int, delta: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    g, k = torch.randn(2, 4, 3, 5, generator=generator, dtype=torch.float64)
    z = project_gradient(g, k, delta)
    excess = (k * g).sum(-1) - delta
    torch.testing.assert_close(z[excess <= 0], g[excess <= 0], rtol=0, atol=0)
    reached = (k * z).sum(-1)[excess > 0]
    torch.testing.assert_close(reached, torch.full_like(reached, delta), rtol=1e-9, atol=1e-9)
    factor = excess.clamp_min(0) / k.square().sum(-1)
    torch.testing.assert_close(z, g - factor.unsqueeze(-1) * k)


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_without_a_divergence_nothing_is_projected(delta: float) -> None:
    g = torch.tensor([1.0, -2.0])
    assert torch.equal(project_gradient(g, torch.zeros(2), delta), g)


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e-20, 1e20, 1e30, 1e37])
def test_any_length_of_the_divergence_gradient(size: float) -> None:
    """Its square has no room in float32."""
    g, k = torch.tensor([3.0, 4.0]), torch.tensor([2 * size, 0.0])
    found = project_gradient(g, k, 1.0)
    wanted = min(3.0, 1 / (2 * size))
    assert found.tolist() == pytest.approx([wanted, 4.0], abs=1e-5)
