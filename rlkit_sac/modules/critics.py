"""Value networks of states and actions."""

from collections.abc import Sequence

import torch
from tensordict.nn import TensorDictModule
from torchrl.modules import MLP

from rlkit_sac.modules.activations import activation_class
from rlkit_sac.modules.initialization import draw_output_layer


def state_action_critic(
    observation_dim: int,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
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
        reward_dim: number of reward dimensions, one value each.
        output_init: the last layer starts uniformly drawn within this bound; ``None`` (default)
            for PyTorch's own.

    Raises:
        ConfigError: for an unknown activation.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = state_action_critic(3, 1)
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=torch.zeros(5, 1), batch_size=[5])
    >>> critic(data)["state_action_value"].shape
    torch.Size([5, 1])
    """
    network = MLP(
        in_features=observation_dim + action_dim,
        out_features=reward_dim,
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
    )
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
        reward_dim: number of reward dimensions, one value each.

    Raises:
        ConfigError: for an unknown activation.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = action_value_critic(3, 2)
    >>> critic(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    network = _perceptron(observation_dim, num_actions, num_cells, activation, reward_dim)
    return TensorDictModule(network, in_keys=["observation"], out_keys=["action_value"])


def hybrid_critic(
    observation_dim: int,
    action_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
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
        reward_dim: number of reward dimensions, one value each.

    Raises:
        ConfigError: for an unknown activation.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> action = TensorDict(continuous=torch.zeros(5, 1), batch_size=[5])
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=action, batch_size=[5])
    >>> hybrid_critic(3, 1, 2)(data)["action_value"].shape
    torch.Size([5, 2])
    """
    network = _perceptron(
        observation_dim + action_dim, num_actions, num_cells, activation, reward_dim
    )
    return TensorDictModule(
        network, in_keys=["observation", ("action", "continuous")], out_keys=["action_value"]
    )


def _perceptron(
    inputs: int, num_actions: int, num_cells: Sequence[int], activation: str, reward_dim: int
) -> MLP:
    return MLP(
        in_features=inputs,
        out_features=num_actions if reward_dim == 1 else torch.Size([num_actions, reward_dim]),
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
    )
