"""Straight-line code against the function that was recorded."""

import pytest
import torch
from torch import Tensor, nn

from rlkit_sac.graph import FlatGraph, record


def recorded(function, given: Tensor, *state: Tensor) -> FlatGraph:
    return FlatGraph(record(lambda: function(given), [given, *state]), [given])


@pytest.mark.parametrize("shape", [[3], [5, 3], [2, 5, 3]], ids=str)
def test_it_is_the_function_bit_for_bit(shape: list[int]) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 4), nn.ELU())

    def function(given: Tensor) -> list[Tensor]:
        loc, scale = network(given).chunk(2, -1)
        noise = torch.randn_like(loc)
        return [loc, (loc + scale.exp() * noise).clamp(-1.0, 1.0), given[..., 0]]

    line = recorded(function, torch.randn(shape), *network.parameters())
    for seed in range(3):
        given = torch.randn(shape)
        torch.manual_seed(seed)
        wanted, after = function(given), torch.get_rng_state()
        torch.manual_seed(seed)
        found = line(given)
        assert torch.equal(torch.get_rng_state(), after)
        assert not any(value.requires_grad for value in found)
        torch.testing.assert_close(list(found), wanted, rtol=0, atol=0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))


def test_parameters_that_move_in_memory_are_followed() -> None:
    layer = nn.Linear(3, 3)
    given = torch.randn(2, 3)
    line = recorded(lambda value: [layer(value)], given, *layer.parameters())
    for data in (torch.randn(3, 3), torch.randn(3, 3).t()):
        layer.weight.data = data
        assert torch.equal(line(given)[0], layer(given))
    layer.weight.data = layer.weight.data.t()  # other strides in the same memory
    assert torch.equal(line(given)[0], layer(given))
