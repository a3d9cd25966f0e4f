import math

import pytest
import torch
from torch import Tensor

from rlkit_sac.functional import temperature_loss
from rlkit_sac.modules.temperature import DIRECT_ALPHA_FLOOR, Temperature

MODES = ["log", "exp", "direct"]
NEG_LOG_PROB = torch.tensor([1.0, -0.5, 2.5], dtype=torch.float64)  # mean 1


def parameter(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def stands_for(mode: str, alpha: float) -> float:
    """The parameter that holds ``alpha``."""
    return alpha if mode == "direct" else math.log(alpha)


def gradient(temperature: Temperature, at: Tensor, target_entropy: float) -> float:
    (found,) = torch.autograd.grad(
        temperature_loss(temperature.multiplier(at), NEG_LOG_PROB, target_entropy).mean(), at
    )
    return found.item()


@pytest.mark.parametrize(
    ("mode", "factor", "slope"),
    [("log", math.log(0.2), 1.0), ("exp", 0.2, 0.2), ("direct", 0.2, 1.0)],
)
def test_values_and_gradients(mode: str, factor: float, slope: float) -> None:
    # With a target of -1 the excess entropies are 2, .5 and 3.5, their mean 2.
    temperature, at = Temperature(mode), parameter(stands_for(mode, 0.2))
    assert temperature.alpha(at).item() == pytest.approx(0.2, abs=1e-15)
    assert not temperature.alpha(at).requires_grad
    loss = temperature_loss(temperature.multiplier(at), NEG_LOG_PROB, -1.0)
    assert loss.tolist() == pytest.approx([2 * factor, 0.5 * factor, 3.5 * factor], abs=1e-12)
    assert gradient(temperature, at, -1.0) == pytest.approx(2 * slope, abs=1e-12)
    assert gradient(temperature, at, 3.0) == pytest.approx(-2 * slope, abs=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("bounds", "below", "inside", "above"),
    [
        ({"minimum": 0.1}, 0.1, 0.5, 9.0),
        ({"maximum": 2.0}, 0.01, 0.5, 2.0),
        ({"minimum": 0.1, "maximum": 2.0}, 0.1, 0.5, 2.0),
        ({}, 0.01, 0.5, 9.0),
    ],
)
def test_the_bounds_work_alone_and_together(
    mode: str, bounds: dict[str, float], below: float, inside: float, above: float
) -> None:
    temperature = Temperature(mode, **bounds)
    for alpha, wanted in ((0.01, below), (0.5, inside), (9.0, above)):
        at = parameter(stands_for(mode, alpha))
        assert temperature.alpha(at).item() == pytest.approx(wanted, abs=1e-12)
        factor = math.log(wanted) if mode == "log" else wanted
        assert temperature_loss(
            temperature.multiplier(at), torch.ones(1).double(), 0.0
        ).item() == pytest.approx(factor, abs=1e-12)
        assert at.item() == stands_for(mode, alpha)  # reading changes nothing
        temperature.project_(at)
        assert at.item() == pytest.approx(stands_for(mode, wanted), abs=1e-12)
        start = temperature.initial_parameter(alpha)
        assert start == pytest.approx(stands_for(mode, wanted), abs=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_outside_the_bounds_only_a_gradient_that_leads_back_passes(mode: str) -> None:
    temperature = Temperature(mode, 0.1, 2.0)
    too_much_entropy, too_little_entropy = -1.0, 3.0  # descent lowers alpha, or raises it
    high, low = parameter(stands_for(mode, 3.0)), parameter(stands_for(mode, 0.05))
    # exp is read at the bound, so is its slope.
    slope = {"exp": (2.0, 0.1)}.get(mode, (1.0, 1.0))
    assert gradient(temperature, high, too_much_entropy) == pytest.approx(2 * slope[0], abs=1e-12)
    assert gradient(temperature, high, too_little_entropy) == 0
    assert gradient(temperature, low, too_little_entropy) == pytest.approx(-2 * slope[1], abs=1e-12)
    assert gradient(temperature, low, too_much_entropy) == 0


def test_direct_never_reaches_zero() -> None:
    temperature, at = Temperature("direct"), parameter(-5.0)
    assert temperature.alpha(at).item() == DIRECT_ALPHA_FLOOR > 0
    assert gradient(temperature, at, 3.0) == pytest.approx(-2.0, abs=1e-12)
    temperature.project_(at)
    assert at.item() == DIRECT_ALPHA_FLOOR
    assert at.requires_grad
