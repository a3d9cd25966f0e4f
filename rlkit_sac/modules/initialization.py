"""How the last layer of a network starts."""

import torch
from torch import nn


def draw_output_layer(network: nn.Sequential, bound: float | None) -> None:
    """Draw weights and biases of the last layer uniformly within a bound.

    Args:
        network: ends in a linear layer.
        bound: b of the interval [-b, b]; ``None`` leaves the layer as it is.

    >>> network = nn.Sequential(nn.Linear(2, 1))
    >>> draw_output_layer(network, 0.003)
    >>> bool(network[0].weight.abs().max() <= 0.003)
    True
    """
    if bound is None:
        return
    with torch.no_grad():
        for parameter in network[-1].parameters():
            parameter.uniform_(-bound, bound)
