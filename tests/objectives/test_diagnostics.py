import pytest
import torch
from torch import Tensor

from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics, diagnostic_keys, masked_mean
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss

# Two critics at three states with one reward dimension; their means are 1, 2 and 4.
VALUES = torch.tensor([[[0.0], [2.0], [5.0]], [[2.0], [2.0], [3.0]]], dtype=torch.float64)
TARGET = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
LOSSES = (VALUES - TARGET).square().mean(-1)
TD_ERROR = LOSSES.sum(0).sqrt()  # sqrt 2, 0 and 2

BY_HAND = {
    "q0_loss": 5 / 3,
    "q0_mean": 7 / 3,
    "q0_min": 0.0,
    "q0_max": 5.0,
    "q1_loss": 1 / 3,
    "q1_mean": 7 / 3,
    "q1_min": 2.0,
    "q1_max": 3.0,
    "target_mean": 2.0,
    "td_error_mean": (2**0.5 + 2) / 3,
    # Residuals 0, 0 and -1 vary by 1/3 - 1/9, the targets by 2/3.
    "explained_variance": 2 / 3,
}


def numbers(scalars: dict[str, Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in scalars.items()}


def test_by_hand() -> None:
    found = numbers(critic_diagnostics(VALUES, TARGET, LOSSES, TD_ERROR, None))
    assert found == pytest.approx(BY_HAND, abs=1e-12)
    assert list(found) == diagnostic_keys(2)


@pytest.mark.parametrize("garbage", [1e9, -1e9, torch.nan, torch.inf])
def test_invalid_steps_do_not_count(garbage: float) -> None:
    valid = torch.tensor([False, True, True, False, True])

    def pad(x: Tensor, dim: int) -> Tensor:
        shape = list(x.shape)
        shape[dim] = 5
        return torch.full(shape, garbage).double().index_copy(dim, valid.nonzero().flatten(), x)

    found = critic_diagnostics(
        pad(VALUES, 1), pad(TARGET, 0), pad(LOSSES, 1), pad(TD_ERROR, 0), valid
    )
    assert numbers(found) == pytest.approx(BY_HAND, abs=1e-12)


def explained_variance(values: Tensor, target: Tensor) -> float:
    losses = (values - target).square().mean(-1)
    scalars = critic_diagnostics(values, target, losses, losses.sum(0).sqrt(), None)
    return scalars["explained_variance"].item()


def test_explained_variance_at_its_marks() -> None:
    torch.manual_seed(0)
    target = torch.randn(50, 1).double()
    exact = target.expand(2, 50, 1)
    assert explained_variance(exact, target) == pytest.approx(1.0, abs=1e-12)
    assert explained_variance(exact + 7.0, target) == pytest.approx(1.0, abs=1e-12)  # but for bias
    constant = torch.full((2, 50, 1), 3.0).double()
    assert explained_variance(constant, target) == pytest.approx(0.0, abs=1e-12)
    assert explained_variance(-exact, target) == pytest.approx(-3.0, abs=1e-12)
    # It is the mean of the critics that is judged: their errors cancel.
    noise = torch.randn(50, 1).double()
    pair = torch.stack([target + noise, target - noise])
    assert explained_variance(pair, target) == pytest.approx(1.0, abs=1e-12)


def test_masked_mean() -> None:
    x = torch.tensor([1.0, torch.nan, 4.0])
    assert masked_mean(x, torch.tensor([True, False, True])).item() == 2.5
    assert masked_mean(x, torch.zeros(3, dtype=torch.bool)).item() == 0.0
    assert masked_mean(x[::2], None).item() == 2.5


def test_the_loss_reports_what_the_critics_say() -> None:
    torch.manual_seed(0)
    loss = make_loss(critics=3, diagnostics=True)
    data = make_data(9)
    NoisyTanhGaussian.queue = [*torch.randn(2, 9, ACTION_DIM).double()]
    out = loss(data)
    assert set(loss.out_keys) == set(out.keys())
    for i in range(3):
        net = loss.qvalue_network_params[("module", "net")][i]
        x = torch.cat([data["observation"], data["action"]], -1)
        hidden = torch.tanh(x @ net["0", "weight"].T + net["0", "bias"])
        q = hidden @ net["2", "weight"].T + net["2", "bias"]
        for name, value in (("mean", q.mean()), ("min", q.min()), ("max", q.max())):
            torch.testing.assert_close(out[f"q{i}_{name}"], value.detach(), rtol=1e-12, atol=1e-12)
    total = out["q0_loss"] + out["q1_loss"] + out["q2_loss"]
    torch.testing.assert_close(total, out["loss_qvalue"].detach(), rtol=1e-12, atol=1e-12)
    assert not any(out[name].requires_grad for name in diagnostic_keys(3))
