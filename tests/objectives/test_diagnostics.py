import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss

# Two critics at three states with one reward dimension; their means are 1, 2 and 4.
VALUES = torch.tensor([[[0.0], [2.0], [5.0]], [[2.0], [2.0], [3.0]]], dtype=torch.float64)
TARGET = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)

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
    "td_error_mean": (2**0.5 + 2) / 3,  # sqrt 2, 0 and 2
    # Residuals 0, 0 and -1 vary by 1/3 - 1/9, the targets by 2/3.
    "explained_variance": 2 / 3,
}


class Table(nn.Module):
    """A critic of one action that answers the row of its table that the observation names."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows.clone())

    def forward(self, observation: Tensor) -> Tensor:
        return self.rows[observation.squeeze(-1).long()]


def diagnostics(values: Tensor, target: Tensor, valid: Tensor | None = None) -> dict[str, float]:
    """What a loss reports of critics with these values at some states, and of these targets."""
    critics = [TensorDictModule(Table(rows), ["observation"], ["action_value"]) for rows in values]
    loss = DiscreteSACLoss(critics, diagnostics=True)
    number = len(target)
    ends = torch.ones(number, 1, dtype=torch.bool)
    places = torch.arange(number).double().unsqueeze(-1)
    data = TensorDict(
        observation=places,
        action=torch.zeros(number, dtype=torch.int64),
        next=TensorDict(observation=places, reward=target, done=ends, terminated=ends),
        batch_size=[number],
    )
    if valid is not None:
        data["collector", "mask"] = valid
    out = loss(data)
    policy = ("loss_qvalue", "loss_alpha", "alpha", "entropy")
    return {name: out[name].item() for name in loss.out_keys if name not in policy}


def test_by_hand() -> None:
    found = diagnostics(VALUES, TARGET)
    assert found == pytest.approx(BY_HAND, abs=1e-12)
    assert list(found) == list(BY_HAND)


@pytest.mark.parametrize("garbage", [1e9, -1e9, torch.nan, torch.inf])
def test_invalid_steps_do_not_count(garbage: float) -> None:
    valid = torch.tensor([False, True, True, False, True])

    def pad(x: Tensor, dim: int) -> Tensor:
        shape = list(x.shape)
        shape[dim] = 5
        return torch.full(shape, garbage).double().index_copy(dim, valid.nonzero().flatten(), x)

    found = diagnostics(pad(VALUES, 1), pad(TARGET, 0), valid)
    assert found == pytest.approx(BY_HAND, abs=1e-12)


def explained_variance(values: Tensor, target: Tensor) -> float:
    return diagnostics(values, target)["explained_variance"]


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


def test_means_are_over_the_valid_steps() -> None:
    target = torch.tensor([[1.0], [torch.nan], [4.0]], dtype=torch.float64)
    values = torch.zeros(2, 3, 1).double()
    assert diagnostics(values, target, torch.tensor([True, False, True]))["target_mean"] == 2.5
    none = diagnostics(values, target, torch.zeros(3, dtype=torch.bool))
    assert none["target_mean"] == none["td_error_mean"] == 0.0
    assert diagnostics(values[:, ::2], target[::2])["target_mean"] == 2.5


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
    scalars = [name for name in loss.out_keys if not name.startswith("loss")]
    assert not any(out[name].requires_grad for name in scalars)
