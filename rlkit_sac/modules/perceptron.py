"""The multilayer perceptrons of actors and critics."""

from collections.abc import Sequence

import torch
from torch import nn
from torchrl.modules import MLP

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.activations import activation_class


def perceptron(
    inputs: int,
    outputs: int | torch.Size,
    num_cells: Sequence[int],
    activation: str,
    *,
    layer_norm: bool = False,
    dropout: float = 0.0,
    output_init: float | None = None,
) -> MLP:
    """A perceptron whose hidden layers are linear map, dropout, layer norm, activation.

    The order is that of Hiraoka et al. 2022 (arXiv:2110.02034), figure 1.

    Args:
        inputs: number of inputs.
        outputs: number, or shape, of outputs.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        layer_norm: whether there are layer norms.
        dropout: probability, 0 for no such layers.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` for PyTorch's initialization.

    Raises:
        ConfigError: for an unknown activation, or a dropout outside of [0, 1).

    >>> perceptron(3, 1, [8], "relu", layer_norm=True, dropout=0.01)
    MLP(
      (0): Linear(in_features=3, out_features=8, bias=True)
      (1): Dropout(p=0.01, inplace=False)
      (2): LayerNorm((8,), eps=1e-05, elementwise_affine=True...)
      (3): ReLU()
      (4): Linear(in_features=8, out_features=1, bias=True)
    )
    """
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be at least 0 and below 1, not {dropout}")
    norms = [{"normalized_shape": width} for width in num_cells]
    network = MLP(
        in_features=inputs,
        out_features=outputs,
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
        dropout=dropout or None,
        norm_class=nn.LayerNorm if layer_norm else None,
        norm_kwargs=norms if layer_norm else None,
    )
    if output_init is not None:
        with torch.no_grad():
            for parameter in network[-1].parameters():
                parameter.uniform_(-output_init, output_init)
    return network
