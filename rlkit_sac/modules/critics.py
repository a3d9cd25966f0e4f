"""Value networks of states and actions."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, TypeVar

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.notes import noted
from rlkit_sac.modules.perceptron import perceptron
from rlkit_sac.modules.recurrent import MemoryOptions, state_inputs

ModuleT = TypeVar("ModuleT", bound=nn.Module)


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
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """A multilayer perceptron Q(s, a).

    Reads ``observation`` ``[*, observation_dim]`` and ``action`` ``[*, action_dim]``; writes
    ``state_action_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation.
        action_dim: length of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.perceptron.perceptron`.
        reward_dim: number of reward dimensions, one value each.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        memory: lets it remember earlier steps, see
            :class:`~rlkit_sac.modules.recurrent.MemoryOptions`. Default none.

    Raises:
        ValueError: PyTorch's, for a dropout outside of [0, 1].

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = state_action_critic(3, 1)
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=torch.zeros(5, 1), batch_size=[5])
    >>> critic(data)["state_action_value"].shape
    torch.Size([5, 1])
    """
    state = state_inputs(observation_dim, memory, "critic")
    network = perceptron(
        state.size + action_dim,
        reward_dim,
        num_cells,
        activation,
        layer_norm=layer_norm,
        dropout=dropout,
        output_init=output_init,
    )
    head = TensorDictModule(network, [*state.keys, "action"], ["state_action_value"])
    return state.before(head)


def state_critic(
    observation_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    reward_dim: int = 1,
    output_init: float | None = None,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """A multilayer perceptron V(s).

    Reads ``observation`` ``[*, observation_dim]``; writes ``state_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        reward_dim: number of reward dimensions, one value each.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        memory: lets it remember earlier steps, see
            :class:`~rlkit_sac.modules.recurrent.MemoryOptions`. Default none.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> data = TensorDict(observation=torch.zeros(5, 3), batch_size=[5])
    >>> state_critic(3)(data)["state_value"].shape
    torch.Size([5, 1])
    """
    state = state_inputs(observation_dim, memory, "value")
    network = perceptron(state.size, reward_dim, num_cells, activation, output_init=output_init)
    return state.before(TensorDictModule(network, state.keys, ["state_value"]))


@noted
def action_value_critic(
    observation_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """A multilayer perceptron Q(s) with one output for each discrete action.

    Reads ``observation`` ``[*, observation_dim]``; writes ``action_value`` ``[*, num_actions]``,
    ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.perceptron.perceptron`.
        reward_dim: number of reward dimensions, one value each.
        memory: lets it remember earlier steps, see
            :class:`~rlkit_sac.modules.recurrent.MemoryOptions`. Default none.

    Raises:
        ValueError: PyTorch's, for a dropout outside of [0, 1].

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = action_value_critic(3, 2)
    >>> critic(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    state = state_inputs(observation_dim, memory, "critic")
    outputs = _outputs(num_actions, reward_dim)
    network = perceptron(
        state.size, outputs, num_cells, activation, layer_norm=layer_norm, dropout=dropout
    )
    return state.before(TensorDictModule(network, state.keys, ["action_value"]))


@noted
def hybrid_critic(
    observation_dim: int,
    action_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    action_layer: Literal["first", "last"] = "first",
    reward_dim: int = 1,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """A multilayer perceptron Q(s, c) with one output for each discrete action.

    Reads ``observation`` ``[*, observation_dim]`` and ``("action", "continuous")``
    ``[*, action_dim]``; writes ``action_value`` ``[*, num_actions]``,
    ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation.
        action_dim: length D of the continuous action.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.perceptron.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.perceptron.perceptron`.
        action_layer: the hidden layer that reads the continuous action: the ``"first"`` (default)
            or the ``"last"``. What comes before the last one is computed once for a state, however
            many actions are evaluated there, as they are with a mask, see
            :class:`~rlkit_sac.modules.MaskedCritic`.
        reward_dim: number of reward dimensions, one value each.
        memory: lets it remember earlier steps, see
            :class:`~rlkit_sac.modules.recurrent.MemoryOptions`. Default none.

    Raises:
        ConfigError: for an unknown action layer.
        ValueError: PyTorch's, for a dropout outside of [0, 1].

    >>> import torch
    >>> from tensordict import TensorDict
    >>> action = TensorDict(continuous=torch.zeros(5, 1), batch_size=[5])
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=action, batch_size=[5])
    >>> hybrid_critic(3, 1, 2)(data)["action_value"].shape
    torch.Size([5, 2])
    """
    state = state_inputs(observation_dim, memory, "critic")
    if action_layer not in ("first", "last"):
        raise ConfigError(f"action_layer {action_layer!r} is not 'first' or 'last'")
    options: dict[str, Any] = {"layer_norm": layer_norm, "dropout": dropout}
    outputs, action = _outputs(num_actions, reward_dim), ("action", "continuous")
    if action_layer == "first" or len(num_cells) < 2:
        network = perceptron(state.size + action_dim, outputs, num_cells, activation, **options)
        return state.before(TensorDictModule(network, [*state.keys, action], ["action_value"]))
    *hidden, features, last = num_cells
    of_state = perceptron(
        state.size, features, hidden, activation, activate_last_layer=True, **options
    )
    head = perceptron(features + action_dim, outputs, [last], activation, **options)
    return TensorDictSequential(
        *state.modules,
        TensorDictModule(of_state, state.keys, ["state_features"]),
        TensorDictModule(head, ["state_features", action], ["action_value"]),
    )


def stack_critics(critics: Sequence[ModuleT]) -> ModuleT:
    """One module with the weights of several, each with a first dimension for the critics.

    It is not a critic by itself: evaluate it once with the weights of each member.

    Args:
        critics: modules of one structure, which are copied.

    >>> stack_critics([nn.Linear(3, 1), nn.Linear(3, 1)]).weight.shape
    torch.Size([2, 1, 3])
    """
    stacked = deepcopy(critics[0])
    weights = TensorDict.from_modules(*deepcopy(list(critics)), as_module=True)
    weights.to_module(stacked, preserve_module_state=False)
    return stacked


def _outputs(num_actions: int, reward_dim: int) -> int | torch.Size:
    return num_actions if reward_dim == 1 else torch.Size([num_actions, reward_dim])
