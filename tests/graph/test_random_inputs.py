"""Random numbers that a graph takes as inputs are those that the function would have drawn."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rlkit_sac.graph import lift_random_inputs, record

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))

DRAWS = {
    "randn": lambda: [torch.randn(4), torch.rand(2, 3), torch.randn(4).exp()],
    "like": lambda: [X + torch.randn_like(X), torch.rand_like(X)],
    "in place": lambda: [torch.empty(6).uniform_(-1, 1), X.new_empty(5).exponential_()],
    "bernoulli": lambda: [torch.empty(50).bernoulli_(0.3)],
    "randint": lambda: [torch.randint(0, 1000, (7,)), torch.randperm(9)],
    "dropout": lambda: [F.dropout(X, 0.5), F.dropout(X.square(), 0.1)],
    "normal": lambda: [torch.normal(1.0, 2.0, (8,)), torch.empty(3).normal_(1.0, 0.1)],
    "rsample": lambda: [torch.distributions.Normal(X, X.exp()).rsample()],
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_lifted_numbers_are_those_of_the_function(draw) -> None:
    recording = record(draw, [X])
    random = lift_random_inputs(recording.graph)
    assert len(random) > 0
    for seed in range(3):
        torch.manual_seed(seed)
        found = recording.graph(*recording.inputs, *(draw() for draw in random))
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        wanted = draw()
        assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
        assert torch.equal(after, torch.get_rng_state())


def drawn_from_what_is_computed() -> list[Tensor]:
    index = torch.multinomial(X.softmax(-1), 1)
    return [index, torch.randn(3), torch.bernoulli(X.sigmoid())]


def test_what_depends_on_values_stays_in_the_graph() -> None:
    recording = record(drawn_from_what_is_computed, [X])
    assert len(lift_random_inputs(recording.graph)) == 0
    torch.manual_seed(0)
    found = recording.graph(*recording.inputs)
    torch.manual_seed(0)
    wanted = drawn_from_what_is_computed()
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
