"""Perceptrons evaluated together against each of them by itself, values and gradients."""

import pytest
import torch
from torch import nn
from torchrl.modules import MLP

from rlkit_sac.modules.critics import stack_critics
from rlkit_sac.modules.ensemble import evaluate_perceptrons, perceptron_layers


def normed() -> nn.Module:
    layers = [nn.Linear(5, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 3, bias=False)]
    return nn.Sequential(*layers, nn.LayerNorm(3, elementwise_affine=False), nn.Tanh())


NETWORKS = {
    "perceptron": lambda: MLP(in_features=5, out_features=1, num_cells=[8, 7]),
    "one layer": lambda: MLP(in_features=5, out_features=2, num_cells=[]),
    "matrix": lambda: MLP(in_features=5, out_features=torch.Size([3, 2]), num_cells=[4]),
    "normed": normed,
}


@pytest.mark.parametrize("shape", [(), (1,), (9,), (4, 3)], ids=str)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_each_member_is_evaluated_as_by_itself(make, count: int, shape: tuple[int, ...]) -> None:
    members = [make().double() for _ in range(count)]
    for parameter in (each for member in members for each in member.parameters()):
        nn.init.normal_(parameter)  # layer norms begin alike
    stack = stack_critics(members)
    layers, shape = perceptron_layers(members[0])
    weights = dict(stack.named_parameters())
    x = torch.randn(*shape, 5, dtype=torch.float64, requires_grad=True)
    found = evaluate_perceptrons(layers, weights, x, shape)
    wanted = torch.stack([member(x) for member in members])
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    factor = torch.randn_like(wanted)
    stacked = list(weights.values())
    gradients = torch.autograd.grad((found * factor).sum(), [x, *stacked])
    own = [each for member in members for each in member.parameters()]
    plain = torch.autograd.grad((wanted * factor).sum(), [x, *own])
    torch.testing.assert_close(gradients[0], plain[0], rtol=1e-11, atol=1e-12)
    for place, (parameter, gradient) in enumerate(zip(stacked, gradients[1:], strict=True)):
        of_members = torch.stack(plain[1 + place :: len(stacked)])
        torch.testing.assert_close(gradient, of_members, rtol=1e-11, atol=1e-12)
        assert gradient.stride() == parameter.stride()
