import pytest
import torch

from rlkit_sac.functional import reduce_critics, weigh_rewards

# Two critics, two states, three reward dimensions.
Q = torch.tensor(
    [[[1.0, 5.0, -2.0], [0.0, 3.0, 7.0]], [[2.0, 4.0, -3.0], [-1.0, 6.0, 7.5]]],
    dtype=torch.float64,
)


def test_without_weights_every_dimension_takes_its_own_minimum() -> None:
    # In the first state the critics disagree on which of them is the smaller.
    assert reduce_critics(Q).tolist() == [[1.0, 4.0, -3.0], [-1.0, 3.0, 7.0]]


@pytest.mark.parametrize(
    ("weights", "reduced"),
    [
        ([1.0, 1.0, 1.0], [[1.0, 4.0, -3.0], [-1.0, 3.0, 7.0]]),
        ([0.1, -9.0, 2.0], [[1.0, 5.0, -3.0], [-1.0, 6.0, 7.0]]),
        ([-1.0, -1.0, -1.0], [[2.0, 5.0, -2.0], [0.0, 6.0, 7.5]]),
        ([0.0, -1.0, 0.0], [[1.0, 5.0, -3.0], [-1.0, 6.0, 7.0]]),
    ],
)
def test_the_sign_of_a_weight_picks_minimum_or_maximum(
    weights: list[float], reduced: list[list[float]]
) -> None:
    assert reduce_critics(Q, torch.tensor(weights)).tolist() == reduced


def test_weighed_rewards() -> None:
    value = torch.tensor([[1.0, 3.0, -2.0], [0.0, 0.5, 4.0]])
    assert weigh_rewards(value).tolist() == [2.0, 4.5]
    assert weigh_rewards(value, torch.tensor([2.0, 0.0, -0.5])).tolist() == [3.0, -2.0]
