"""Parts of actors and critics: inputs from a state, perceptrons, the head of a Gaussian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypedDict

import torch
from tensordict import NestedKey
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.modules import MLP

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.encoders import EncoderOptions, is_single_vector, observation_encoder
from rlkit_sac.modules.memory import GRUMemory, LSTMMemory, next_key

#: The activations that a configuration can name.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}

LogStdMode = Literal["clipped_exp", "tanh"]


class MemoryOptions(TypedDict, total=False):
    """Options of a network's memory, an argument of every builder of networks.

    The memory reads the observation and the previous action.

    Attributes:
        kind: ``"gru"`` or ``"lstm"``.
        size: number H of units. Default: 64.
        layers: number L of layers. Default: 1.
        action_dim: length of the continuous part of the previous action. Default: 0, no such part.
        num_actions: number of values of its discrete part. Default: 0, no such part.

    >>> options: MemoryOptions = {"kind": "gru", "action_dim": 1}
    """

    kind: Literal["gru", "lstm"]
    size: int
    layers: int
    action_dim: int
    num_actions: int


class StateInputs(NamedTuple):
    """The inputs of a network's head.

    Attributes:
        size: number of features.
        keys: the entries with the features, in order.
        modules: the modules that compute these entries; none for the observation itself.
    """

    size: int
    keys: list[NestedKey]
    modules: list[TensorDictModuleBase]

    def precede(self, *heads: TensorDictModule) -> TensorDictModule | TensorDictSequential:
        """Put these modules before the modules of a head, and return one module."""
        whole = [*self.modules, *heads]
        return TensorDictSequential(*whole) if len(whole) > 1 else heads[0]


class PreviousStep(nn.Module):
    """A layer that joins the observation and the previous action.

    An index becomes a one-hot vector. In the first step of an episode, where ``is_init`` holds, the
    previous action is zero.

    Args:
        num_actions: number of values of the action's discrete part, which comes last; 0 for none.

    >>> join = PreviousStep(2)
    >>> join(torch.tensor([0.5]), torch.tensor([False]), torch.tensor(1))
    tensor([0.5000, 0.0000, 1.0000])
    """

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions

    def forward(self, observation: Tensor, is_init: Tensor, *action: Tensor) -> Tensor:
        """Return the joined vector ``[*, D]``."""
        parts = list(action)
        if self.num_actions:
            # PyTorch's one_hot reads values, which a recorded graph cannot do.
            values = torch.arange(self.num_actions, device=observation.device)
            parts[-1] = (parts[-1].unsqueeze(-1) == values).to(observation.dtype)
        return torch.cat([observation, *(part.masked_fill(is_init, 0.0) for part in parts)], -1)


class JoinedInputs(nn.Sequential):
    """Layers in sequence. The first layer reads the concatenated inputs.

    >>> JoinedInputs(nn.Identity())(torch.zeros(1), torch.ones(1))
    tensor([0., 1.])
    """

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return the output of the last layer."""
        return super().forward(torch.cat(inputs, -1))


def state_inputs(
    observation: int | EncoderOptions, memory: MemoryOptions | None, owner: str
) -> StateInputs:
    """Return the inputs of a network's head.

    They are the observation, or the output of a memory, the observation and the previous action.

    Args:
        observation: the length of the observation, or the options of an encoder. The features of
            the encoder take the place of the observation.
        memory: the options of the memory, or ``None``.
        owner: the name of the network, for the keys of the memory's state: ``actor_state`` for a
            GRU, ``actor_state_h`` and ``actor_state_c`` for an LSTM of the owner ``"actor"``.

    >>> state_inputs(3, {"kind": "gru", "size": 8, "action_dim": 1}, "actor")[:2]
    (12, ['memory', 'memory_input'])
    """
    observation_key, encoders = "observation", []
    if not isinstance(observation, dict):
        observation_dim = observation
    elif is_single_vector(observation["layout"]):
        (vector,) = observation["layout"]
        observation_key, observation_dim = vector["key"], vector["shape"][0]
    else:
        encoder = observation_encoder(**observation)
        observation_key, encoders = "features", [encoder]
        observation_dim = encoder.module.num_features
    if memory is None:
        return StateInputs(observation_dim, [observation_key], encoders)
    kind, size, layers = memory["kind"], memory.get("size", 64), memory.get("layers", 1)
    action_dim, num_actions = memory.get("action_dim", 0), memory.get("num_actions", 0)
    cells: dict[str, type[GRUMemory | LSTMMemory]] = {"gru": GRUMemory, "lstm": LSTMMemory}
    states = [f"{owner}_state{suffix}" for suffix in ([""] if kind == "gru" else ["_h", "_c"])]
    parts = [
        ("prev_action", name) if action_dim and num_actions else "prev_action"
        for name, length in (("continuous", action_dim), ("discrete", num_actions))
        if length
    ]
    width = int(observation_dim + action_dim + num_actions)  # a GRU refuses NumPy's integers
    embedding = TensorDictModule(
        PreviousStep(num_actions), [observation_key, "is_init", *parts], ["memory_input"]
    )
    memory_module = cells[kind](
        width,
        int(size),
        int(layers),
        in_keys=["memory_input", *states],
        out_keys=["memory", *map(next_key, states)],
    )
    modules = [*encoders, embedding, memory_module]
    return StateInputs(size + width, ["memory", "memory_input"], modules)


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
    """Build a perceptron. A hidden layer is a linear map, dropout, layer norm and activation.

    The order is from Hiraoka et al. 2022 (arXiv:2110.02034), figure 1.

    Args:
        inputs: number of inputs.
        outputs: number or shape of the outputs.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        layer_norm: whether there are layer norms.
        dropout: probability of dropout; 0 for no dropout layers.
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
    r"""A layer that splits its input into the mean and the standard deviation of a Gaussian.

    ``"clipped_exp"`` clamps :math:`\log\sigma` to ``[log_std_min, log_std_max]``; ``"tanh"``
    rescales :math:`\tanh` of the input to that interval, which keeps a gradient everywhere.

    Args:
        log_std_mode: ``"clipped_exp"`` or ``"tanh"``.
        log_std_min: smallest :math:`\log\sigma`.
        log_std_max: largest :math:`\log\sigma`.
        tanh_loc: whether to apply tanh to the mean, too, which keeps it in [-1, 1].

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
        """Split features ``[*, 2 D]`` into mean and standard deviation, ``[*, D]`` each."""
        loc, log_std = features.chunk(2, -1)
        if self.log_std_mode == "tanh":
            middle = 0.5 * (self.log_std_max + self.log_std_min)
            log_std = middle + 0.5 * (self.log_std_max - self.log_std_min) * log_std.tanh()
        elif torch.is_grad_enabled():  # the gradient passes at a bound, in every version of PyTorch
            low, high = self.log_std_min, self.log_std_max
            log_std = torch.where(log_std > high, high, torch.where(log_std < low, low, log_std))
        else:
            log_std = log_std.clamp(self.log_std_min, self.log_std_max)
        return loc.tanh() if self.tanh_loc else loc, log_std.exp()
