import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from rlkit_sac.objectives import DiscreteSACLoss

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


def test_without_a_valid_step_all_means_are_zero() -> None:
    none = diagnostics(VALUES, TARGET, torch.zeros(3, dtype=torch.bool))
    assert none["target_mean"] == none["td_error_mean"] == 0.0
