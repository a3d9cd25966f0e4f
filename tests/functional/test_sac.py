import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_zero_weight_keeps_the_gradient_of_the_minimum() -> None:
    q = Q.clone().requires_grad_()
    reduce_critics(q, torch.zeros(3)).sum().backward()
    assert torch.equal(q.grad, (Q.min(0).values == Q).double())


def test_one_critic_is_left_as_it_is() -> None:
    assert torch.equal(reduce_critics(Q[:1], torch.tensor([1.0, -1.0, 0.0])), Q[0])


@given(
    seed=st.integers(0, 10_000),
    critics=st.integers(1, 5),
    weights=st.lists(st.floats(-3, 3), min_size=1, max_size=4),
)
def test_the_reduced_value_is_the_worst_case_of_the_weighted_one(
    seed: int, critics: int, weights: list[float]
) -> None:
    torch.manual_seed(seed)
    q = torch.randn(critics, 6, len(weights), dtype=torch.float64)
    w = torch.tensor(weights, dtype=torch.float64)
    contribution = reduce_critics(q, w) * w
    assert torch.equal(contribution, (q * w).min(0).values)
    assert torch.equal(weigh_rewards(reduce_critics(q, w), w), contribution.sum(-1))


def test_weighed_rewards() -> None:
    value = torch.tensor([[1.0, 3.0, -2.0], [0.0, 0.5, 4.0]])
    assert weigh_rewards(value).tolist() == [2.0, 4.5]
    assert weigh_rewards(value, torch.tensor([2.0, 0.0, -0.5])).tolist() == [3.0, -2.0]
