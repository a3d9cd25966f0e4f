"""Draws in proportion to weights, against sums taken one after another."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit_sac.data.replay.sum_tree import SumTree, _find_by_mass


def filled(weights: torch.Tensor) -> SumTree:
    tree = SumTree(len(weights))
    tree.set(torch.arange(len(weights)), weights)
    return tree


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_draws_are_those_of_a_search_among_all_sums(data) -> None:
    """Whole numbers, whose sums are exact in whatever order they are added."""
    capacity = data.draw(st.sampled_from([1, 5, 32, 33, 1024, 1025, 5000]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    tree, plain = SumTree(capacity), np.zeros(capacity)
    for _ in range(data.draw(st.integers(1, 4))):
        places = rng.choice(capacity, rng.integers(1, capacity + 1), replace=False)
        plain[places] = rng.integers(0, 100, len(places))
        tree.set(torch.from_numpy(places), torch.from_numpy(plain[places]))
    plain[places[0]] = 7.0
    tree.set(torch.from_numpy(places[:1]), torch.tensor([7.0]))
    assert tree._top.sum() == plain.sum()
    torch.manual_seed(seed)
    found, probabilities = tree.draw(64)
    torch.manual_seed(seed)
    mass = torch.rand(64, dtype=torch.float64).numpy() * plain.sum()
    np.testing.assert_array_equal(found, np.searchsorted(plain.cumsum(), mass, side="right"))
    np.testing.assert_allclose(probabilities, plain[found] / plain.sum(), rtol=1e-14)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-30, 1e-9, 0.1, 1 / 3, 7.0, 1e20]), min_size=1, max_size=99)
)
def test_a_weight_of_zero_is_never_drawn(weights: list[float]) -> None:
    values = torch.tensor(weights, dtype=torch.float64).repeat(40)
    values[len(values) // 2] = 0.1
    drawn = values[filled(values).draw(2000)[0]]
    assert (drawn > 0).all()


def test_the_ends_of_a_row_are_not_passed_by_rounding() -> None:
    """Masses next to the total, where 0.1 added up ten times is not 1."""
    values = torch.zeros(2048, dtype=torch.float64)
    values[:10] = 0.1
    rows, mass = values[:32].unsqueeze(0), torch.tensor([[0.0, 1.0 - 1e-16, 1.0, 1.5]]).double()
    found, weight, rest = _find_by_mass(rows, rows.cumsum(1), mass)
    assert found.tolist() == [[0, 9, 9, 9]]
    assert (weight == 0.1).all()
    assert (rest >= 0).all()


def test_the_largest_weight_counts_where_a_place_is_repeated() -> None:
    tree = filled(torch.ones(10))
    tree.set(torch.tensor([3, 3, 3]), torch.tensor([0.5, 2.0, 0.25]))
    assert tree._weights[2:4].tolist() == [1.0, 2.0]
    assert tree._top.sum() == 11.0


def test_a_state_comes_back() -> None:
    tree = filled(torch.rand(1500))
    other = filled(torch.rand(1500))
    other.load_state_dict(tree.state_dict(700))
    cut = filled(torch.where(torch.arange(1500) < 700, tree._weights[:1500], 0.0))
    assert other._top.sum() == cut._top.sum()
    assert torch.equal(other._weights, cut._weights)
