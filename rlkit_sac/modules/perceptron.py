"""The multilayer perceptrons of actors and critics, and the head of a Gaussian."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torchrl.modules import MLP

from rlkit_sac.errors import ConfigError

#: The activations that a configuration can name.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}

LogStdMode = Literal["clipped_exp", "tanh"]


def perceptron(
    inputs: int,
    outputs: int | torch.Size,
    num_cells: Sequence[int],
    activation: str,
    *,
    layer_norm: bool = False,
    dropout: float = 0.0,
    output_init: float | None = None,
    activate_last_layer: bool = False,
) -> MLP:
    """A perceptron whose hidden layers are linear map, dropout, layer norm, activation.

    The order is that of Hiraoka et al. 2022 (arXiv:2110.02034), figure 1.

    Args:
        inputs: number of inputs.
        outputs: number, or shape, of outputs.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        layer_norm: whether there are layer norms.
        dropout: probability, 0 for no such layers.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` for PyTorch's initialization.
        activate_last_layer: whether the outputs are activated too.

    >>> perceptron(3, 1, [8], "relu", layer_norm=True, dropout=0.01)
    MLP(
      (0): Linear(in_features=3, out_features=8, bias=True)
      (1): Dropout(p=0.01, inplace=False)
      (2): LayerNorm((8,), eps=1e-05, elementwise_affine=True...)
      (3): ReLU()
      (4): Linear(in_features=8, out_features=1, bias=True)
    )
    """
    widths = [*num_cells, outputs] if activate_last_layer else num_cells
    norms = [{"normalized_shape": width} for width in widths]
    network = MLP(
        in_features=inputs,
        out_features=outputs,
        num_cells=list(num_cells),
        activation_class=ACTIVATIONS[activation],
        dropout=dropout or None,
        norm_class=nn.LayerNorm if layer_norm else None,
        norm_kwargs=norms if layer_norm else None,
        activate_last_layer=activate_last_layer,
    )
    if output_init is not None:
        with torch.no_grad():
            for parameter in network[-1].parameters():
                parameter.uniform_(-output_init, output_init)
    return network


class GaussianHead(nn.Module):
    r"""Splits a network's output into the mean and the standard deviation of a Gaussian.

    ``"clipped_exp"`` clamps :math:`\log\sigma` to ``[log_std_min, log_std_max]``; ``"tanh"``
    rescales :math:`\tanh` of the output to that interval, which keeps a gradient everywhere.

    Args:
        log_std_mode: ``"clipped_exp"`` or ``"tanh"``.
        log_std_min: smallest :math:`\log\sigma`.
        log_std_max: largest :math:`\log\sigma`.
        tanh_loc: keep the mean in [-1, 1] by a tanh of its own.

    Raises:
        ConfigError: for an unknown mode.

    >>> loc, scale = GaussianHead()(torch.tensor([0.5, 7.0]))
    >>> loc, scale.log()
    (tensor([0.5000]), tensor([2.]))
    """

    def __init__(
        self,
        log_std_mode: LogStdMode = "clipped_exp",
        log_std_min: float = -20.0,
        log_std_max: float = 2.0,
        *,
        tanh_loc: bool = False,
    ) -> None:
        super().__init__()
        if log_std_mode not in ("clipped_exp", "tanh"):
            raise ConfigError(f"log_std_mode {log_std_mode!r} is not 'clipped_exp' or 'tanh'")
        self.log_std_mode = log_std_mode
        self.log_std_min, self.log_std_max = log_std_min, log_std_max
        self.tanh_loc = tanh_loc

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``[*, 2 D]`` to the mean and the standard deviation, ``[*, D]`` each."""
        loc, log_std = features.chunk(2, -1)
        if self.log_std_mode == "tanh":
            middle = 0.5 * (self.log_std_max + self.log_std_min)
            log_std = middle + 0.5 * (self.log_std_max - self.log_std_min) * log_std.tanh()
        elif torch.is_grad_enabled():  # the gradient passes at a bound, in every version of PyTorch
            least, most = self.log_std_min, self.log_std_max
            log_std = torch.where(
                log_std > most, most, torch.where(log_std < least, least, log_std)
            )
        else:
            log_std = log_std.clamp(self.log_std_min, self.log_std_max)
        return loc.tanh() if self.tanh_loc else loc, log_std.exp()
