import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlkit_sac.modules import TanhGaussian

BOXES = [(-1.0, 1.0), (-2.0, 2.0), (0.1, 0.3), (-1e-3, 1e4), (-7.5, -0.25)]
SHAPES = [(0.0, 0.5), (0.7, 0.3), (-0.4, 0.8)]


class FixedNoise(TanhGaussian):
    """Draws the noise it is given."""

    noise: Tensor

    def rsample_and_log_prob(self, sample_shape=()):
        original, torch.randn = torch.randn, lambda *args, **kwargs: self.noise
        try:
            return super().rsample_and_log_prob(sample_shape)
        finally:
            torch.randn = original


def box(low: float, high: float, dimensions: int, dtype=torch.float64) -> dict[str, Tensor]:
    """Bounds as an actor passes them, plain numbers for the unit box."""
    if (low, high) == (-1.0, 1.0):
        return {}
    bounds = {"low": low, "high": high}
    return {name: torch.full((dimensions,), x, dtype=dtype) for name, x in bounds.items()}


def make(loc: float, scale: float, low: float = -1.0, high: float = 1.0, dtype=torch.float64):
    return TanhGaussian(
        torch.tensor([loc], dtype=dtype),
        torch.tensor([scale], dtype=dtype),
        **box(low, high, 1, dtype),
    )


def quadrature(low: float, high: float, nodes: int = 400) -> tuple[Tensor, Tensor]:
    """Points ``[nodes, 1]`` in the box and their Gauss-Legendre weights."""
    points, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(nodes))
    half = (high - low) / 2
    return ((low + high) / 2 + half * points).unsqueeze(-1), half * weights


@pytest.mark.parametrize(("low", "high"), BOXES)
@pytest.mark.parametrize(("loc", "scale"), SHAPES)
def test_the_density_integrates_to_one_over_the_box(low, high, loc, scale) -> None:
    points, weights = quadrature(low, high)
    density = make(loc, scale, low, high).log_prob(points).exp()
    assert (density * weights).sum().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("low", "high"), BOXES)
def test_samples_follow_the_density(low: float, high: float) -> None:
    torch.manual_seed(0)
    dist, number = make(0.7, 0.3, low, high), 200_000
    points, weights = quadrature(low, high)
    density = dist.log_prob(points).exp() * weights
    unit = (2 * points.squeeze() - low - high) / (high - low)
    sample = (2 * dist.sample((number,)).squeeze() - low - high) / (high - low)
    for power in (1, 2, 3):
        wanted = (density * unit**power).sum().item()
        deviation = (density * unit ** (2 * power)).sum().item() - wanted**2
        found = (sample**power).mean().item()
        assert found == pytest.approx(wanted, abs=5 * math.sqrt(deviation / number))


@pytest.mark.parametrize(("low", "high"), BOXES)
def test_a_sample_is_scored_as_log_prob_scores_it(low: float, high: float) -> None:
    torch.manual_seed(0)
    loc = torch.randn(500, 3).double()
    dist = TanhGaussian(loc, torch.rand(500, 3).double() + 0.1, **box(low, high, 3))
    action, log_prob = dist.rsample_and_log_prob()
    assert action.shape == (500, 3)
    assert log_prob.shape == (500,)
    torch.testing.assert_close(dist.log_prob(action), log_prob, rtol=0, atol=1e-6)


def reference(loc, scale, noise, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Action and log-density of one dimension in float64, with the slope as 1 / cosh squared."""
    u = loc + scale * noise
    normal = -0.5 * noise**2 - scale.log() - 0.5 * math.log(2 * math.pi)
    log_cosh = u.abs() + torch.log1p(torch.exp(-2 * u.abs())) - math.log(2)
    half = (high - low) / 2
    action = (high + low) / 2 + half * torch.tanh(u)
    return action, (normal + 2 * log_cosh - math.log(half)).squeeze(-1)


@pytest.mark.parametrize(("low", "high"), BOXES)
@given(
    loc=st.floats(-20, 20, width=32),
    scale=st.floats(2**-10, 7, width=32),
    noise=st.floats(-5, 5, width=32),
)
def test_saturated_samples_in_float32_are_scored_as_in_float64(
    low: float, high: float, loc: float, scale: float, noise: float
) -> None:
    dist = FixedNoise(
        torch.tensor([loc]), torch.tensor([scale]), **box(low, high, 1, torch.float32)
    )
    dist.noise = torch.tensor([noise])
    action, log_prob = dist.rsample_and_log_prob()
    wanted = reference(*(x.double() for x in (dist.loc, dist.scale, dist.noise)), low, high)
    torch.testing.assert_close(log_prob.double(), wanted[1], rtol=0, atol=1e-3)
    torch.testing.assert_close(action.double(), wanted[0], rtol=0, atol=1e-6 * max(high - low, 1))


@pytest.mark.parametrize("draw", ["sample", "rsample"])
@given(loc=st.floats(-20, 20, width=32), scale=st.floats(2**-10, 7, width=32))
def test_what_was_drawn_is_scored_by_its_value_before_tanh(
    draw: str, loc: float, scale: float
) -> None:
    parameters = [torch.tensor([each]).requires_grad_() for each in (loc, scale)]
    dist = FixedNoise(*parameters)
    dist.noise = torch.tensor([1.5])
    action = getattr(dist, draw)()
    log_prob = dist.log_prob(action)
    exact = [each.detach().double() for each in parameters]
    wanted = reference(*exact, torch.tensor([1.5]).double(), -1, 1)[1]
    torch.testing.assert_close(log_prob.double(), wanted, rtol=0, atol=2e-3)
    if draw == "sample":  # the gradient of the score, at an action that does not move
        (slope,) = torch.autograd.grad(log_prob, parameters[0])
        torch.testing.assert_close(slope.item(), 1.5 / scale, rtol=1e-2, atol=1e-4)
    dist.log_prob(action.clone())  # which has lost it
    with torch.no_grad():
        action.mul_(0.5)  # another action by now
    own = dist.log_prob(action.detach())
    torch.testing.assert_close(dist.log_prob(action), own, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("low", "high"), [*BOXES, (-1 / 3, 0.7), (1e-7, 2e-7)])
def test_no_sample_leaves_the_box(low: float, high: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    loc = torch.linspace(-30, 30, 4001, dtype=dtype).unsqueeze(-1)
    dist = TanhGaussian(loc, torch.full_like(loc, 3.0), **box(low, high, 1, dtype))
    lowest, highest = torch.tensor([low, high], dtype=dtype)
    for action in (dist.rsample((20,)), dist.deterministic_sample):
        assert lowest <= action.min() <= lowest + 1e-6 * (highest - lowest)
        assert highest - 1e-6 * (highest - lowest) <= action.max() <= highest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("low", "high"), BOXES)
def test_the_bounds_have_a_finite_density(low: float, high: float, dtype: torch.dtype) -> None:
    dist = make(0.5, 1.0, low, high, dtype)
    action = torch.tensor([[low], [high]], dtype=dtype)
    assert dist.log_prob(action).isfinite().all()


@pytest.mark.parametrize(("low", "high"), BOXES[:3])
def test_gradients_equal_finite_differences(low: float, high: float) -> None:
    torch.manual_seed(0)
    noise = torch.randn(4, 2).double()

    def draw(loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        dist = FixedNoise(loc, scale, **box(low, high, 2))
        dist.noise = noise
        return dist.rsample_and_log_prob()

    loc = torch.randn(4, 2).double().requires_grad_()
    scale = (torch.rand(4, 2).double() + 0.2).requires_grad_()
    torch.autograd.gradcheck(draw, (loc, scale))

    def score(loc: Tensor, scale: Tensor) -> Tensor:
        action = low + (high - low) * torch.tensor([0.2, 0.9]).double()
        return TanhGaussian(loc, scale, **box(low, high, 2)).log_prob(action)

    torch.autograd.gradcheck(score, (loc, scale))


def test_densities_of_each_dimension_add_up_to_that_of_the_action() -> None:
    loc, scale = torch.randn(5, 3).double(), torch.rand(5, 3).double() + 0.1
    dist = TanhGaussian(loc, scale, -2.0, 1.0)
    torch.manual_seed(0)
    action, log_probs = dist.rsample_and_log_probs()
    torch.manual_seed(0)
    same, log_prob = dist.rsample_and_log_prob()
    assert torch.equal(action, same)
    assert torch.equal(log_probs.sum(-1), log_prob)
    for j in range(3):
        alone = TanhGaussian(loc[:, j : j + 1], scale[:, j : j + 1], -2.0, 1.0)
        torch.testing.assert_close(log_probs[:, j], alone.log_prob(action[:, j : j + 1]))
