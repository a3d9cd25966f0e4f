"""Value networks of states and actions."""

from collections.abc import Sequence

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.modules import MLP

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.activations import activation_class
from rlkit_sac.modules.initialization import draw_output_layer


def state_action_critic(
    observation_dim: int,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
    output_init: float | None = None,
) -> TensorDictModule:
    """A multilayer perceptron Q(s, a).

    Reads ``observation`` ``[*, observation_dim]`` and ``action`` ``[*, action_dim]``; writes
    ``state_action_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation.
        action_dim: length of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: share of the outputs of each hidden layer that training sets to zero, before they
            are normalized; see :func:`perceptron`.
        reward_dim: number of reward dimensions, one value each.
        output_init: the last layer starts uniformly drawn within this bound; ``None`` (default)
            for PyTorch's own.

    Raises:
        ConfigError: for an unknown activation, or a dropout outside of [0, 1).

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = state_action_critic(3, 1)
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=torch.zeros(5, 1), batch_size=[5])
    >>> critic(data)["state_action_value"].shape
    torch.Size([5, 1])
    """
    inputs = observation_dim + action_dim
    network = perceptron(inputs, reward_dim, num_cells, activation, layer_norm, dropout)
    draw_output_layer(network, output_init)
    return TensorDictModule(
        network, in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def state_critic(
    observation_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    reward_dim: int = 1,
    output_init: float | None = None,
) -> TensorDictModule:
    """A multilayer perceptron V(s).

    Reads ``observation`` ``[*, observation_dim]``; writes ``state_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        reward_dim: number of reward dimensions, one value each.
        output_init: the last layer starts uniformly drawn within this bound; ``None`` (default)
            for PyTorch's own.

    Raises:
        ConfigError: for an unknown activation.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> data = TensorDict(observation=torch.zeros(5, 3), batch_size=[5])
    >>> state_critic(3)(data)["state_value"].shape
    torch.Size([5, 1])
    """
    network = MLP(
        in_features=observation_dim,
        out_features=reward_dim,
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
    )
    draw_output_layer(network, output_init)
    return TensorDictModule(network, in_keys=["observation"], out_keys=["state_value"])


def action_value_critic(
    observation_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
) -> TensorDictModule:
    """A multilayer perceptron Q(s) with one output for each discrete action.

    Reads ``observation`` ``[*, observation_dim]``; writes ``action_value`` ``[*, num_actions]``,
    ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: share of the outputs of each hidden layer that training sets to zero, before they
            are normalized; see :func:`perceptron`.
        reward_dim: number of reward dimensions, one value each.

    Raises:
        ConfigError: for an unknown activation, or a dropout outside of [0, 1).

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = action_value_critic(3, 2)
    >>> critic(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    outputs = _outputs(num_actions, reward_dim)
    network = perceptron(observation_dim, outputs, num_cells, activation, layer_norm, dropout)
    return TensorDictModule(network, in_keys=["observation"], out_keys=["action_value"])


def hybrid_critic(
    observation_dim: int,
    action_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
) -> TensorDictModule:
    """A multilayer perceptron Q(s, c) with one output for each discrete action.

    Reads ``observation`` ``[*, observation_dim]`` and ``("action", "continuous")``
    ``[*, action_dim]``; writes ``action_value`` ``[*, num_actions]``,
    ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation.
        action_dim: length D of the continuous action.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: share of the outputs of each hidden layer that training sets to zero, before they
            are normalized; see :func:`perceptron`.
        reward_dim: number of reward dimensions, one value each.

    Raises:
        ConfigError: for an unknown activation, or a dropout outside of [0, 1).

    >>> import torch
    >>> from tensordict import TensorDict
    >>> action = TensorDict(continuous=torch.zeros(5, 1), batch_size=[5])
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=action, batch_size=[5])
    >>> hybrid_critic(3, 1, 2)(data)["action_value"].shape
    torch.Size([5, 2])
    """
    inputs, outputs = observation_dim + action_dim, _outputs(num_actions, reward_dim)
    network = perceptron(inputs, outputs, num_cells, activation, layer_norm, dropout)
    return TensorDictModule(
        network, in_keys=["observation", ("action", "continuous")], out_keys=["action_value"]
    )


def perceptron(
    inputs: int,
    outputs: int | torch.Size,
    num_cells: Sequence[int],
    activation: str,
    layer_norm: bool,
    dropout: float,
) -> MLP:
    """The network of a critic, each hidden layer as linear map, dropout, layer norm, activation.

    The order is that of Hiraoka et al. 2022 (arXiv:2110.02034), figure 1.

    Args:
        inputs: number of inputs.
        outputs: number, or shape, of outputs.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        layer_norm: whether there are layer norms.
        dropout: probability, 0 for no such layers.

    Raises:
        ConfigError: for an unknown activation, or a dropout outside of [0, 1).

    >>> perceptron(3, 1, [8], "relu", True, 0.01)
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
    return MLP(
        in_features=inputs,
        out_features=outputs,
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
        dropout=dropout or None,
        norm_class=nn.LayerNorm if layer_norm else None,
        norm_kwargs=norms if layer_norm else None,
    )


def _outputs(num_actions: int, reward_dim: int) -> int | torch.Size:
    return num_actions if reward_dim == 1 else torch.Size([num_actions, reward_dim])
