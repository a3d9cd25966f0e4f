"""Value networks of states and actions, and the weights of vector rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal, TypeVar

import torch
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import mean_over_atoms
from rlkit_sac.modules.blueprints import record_arguments
from rlkit_sac.modules.encoders import EncoderOptions
from rlkit_sac.modules.layers import MemoryOptions, perceptron, state_inputs

#: The entry for the logits of critics that describe a value by a distribution.
VALUE_LOGITS = "value_logits"

ModuleT = TypeVar("ModuleT", bound=nn.Module)


@record_arguments
def state_action_critic(
    observation_dim: int | EncoderOptions,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
    atoms: int | None = None,
    output_init: float | None = None,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """Build a multilayer perceptron Q(s, a).

    It reads ``observation`` ``[*, observation_dim]`` and ``action`` ``[*, action_dim]`` and writes
    ``state_action_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        action_dim: length of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.layers.perceptron`.
        reward_dim: number of reward dimensions, one value each.
        atoms: number N of logits that describe the value. The critic also writes these logits, as
            ``value_logits`` ``[*, N]``, see :mod:`~rlkit_sac.functional.value_distribution`.
            Default: the value alone.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for fewer than two atoms, or atoms of vector rewards.
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
        _output_shape(None, reward_dim, atoms),
        num_cells,
        activation,
        layer_norm=layer_norm,
        dropout=dropout,
        output_init=output_init,
    )
    return state.precede(*_heads(network, [*state.keys, "action"], "state_action_value", atoms))


@record_arguments
def state_critic(
    observation_dim: int | EncoderOptions,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    reward_dim: int = 1,
    output_init: float | None = None,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """Build a multilayer perceptron V(s).

    It reads ``observation`` ``[*, observation_dim]`` and writes ``state_value``
    ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        reward_dim: number of reward dimensions, one value each.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> data = TensorDict(observation=torch.zeros(5, 3), batch_size=[5])
    >>> state_critic(3)(data)["state_value"].shape
    torch.Size([5, 1])
    """
    state = state_inputs(observation_dim, memory, "value")
    layers: dict[str, Any] = {"layer_norm": layer_norm, "output_init": output_init}
    network = perceptron(state.size, reward_dim, num_cells, activation, **layers)
    return state.precede(TensorDictModule(network, state.keys, ["state_value"]))


@record_arguments
def action_value_critic(
    observation_dim: int | EncoderOptions,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    reward_dim: int = 1,
    atoms: int | None = None,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """Build a multilayer perceptron Q(s) with one output for each discrete action.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``action_value``
    ``[*, num_actions]``, ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.layers.perceptron`.
        reward_dim: number of reward dimensions, one value each.
        atoms: number N of logits that describe each value, which the critic then writes as well, as
            ``value_logits`` ``[*, num_actions, N]``, see
            :mod:`~rlkit_sac.functional.value_distribution`. Default: values alone.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for fewer than two atoms, or atoms of vector rewards.
        ValueError: PyTorch's, for a dropout outside of [0, 1].

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = action_value_critic(3, 2)
    >>> critic(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    state = state_inputs(observation_dim, memory, "critic")
    outputs = _output_shape(num_actions, reward_dim, atoms)
    network = perceptron(
        state.size, outputs, num_cells, activation, layer_norm=layer_norm, dropout=dropout
    )
    return state.precede(*_heads(network, state.keys, "action_value", atoms))


@record_arguments
def hybrid_critic(
    observation_dim: int | EncoderOptions,
    action_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    layer_norm: bool = False,
    dropout: float = 0.0,
    action_layer: Literal["first", "last"] = "first",
    reward_dim: int = 1,
    atoms: int | None = None,
    memory: MemoryOptions | None = None,
) -> TensorDictModule | TensorDictSequential:
    """Build a multilayer perceptron Q(s, c) with one output for each discrete action.

    It reads ``observation`` ``[*, observation_dim]`` and ``("action", "continuous")``
    ``[*, action_dim]`` and writes ``action_value`` ``[*, num_actions]``,
    ``[*, num_actions, reward_dim]`` for vector rewards.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        action_dim: length D of the continuous action.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        layer_norm: normalize the outputs of each hidden layer, before the activation.
        dropout: probability with which outputs of the hidden layers are set to zero in training,
            before they are normalized; see :func:`~rlkit_sac.modules.layers.perceptron`.
        action_layer: the hidden layer that reads the continuous action: the ``"first"`` (default)
            or the ``"last"``. With ``"last"`` the layers before it are computed once for each
            state, even if a mask makes the critic evaluate several actions there, see
            :class:`~rlkit_sac.modules.MaskedCritic`.
        reward_dim: number of reward dimensions, one value each.
        atoms: number N of logits that describe each value, which the critic then writes as well, as
            ``value_logits`` ``[*, num_actions, N]``, see
            :mod:`~rlkit_sac.functional.value_distribution`. Default: values alone.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for an unknown action layer, or atoms of vector rewards.
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
    outputs, action = _output_shape(num_actions, reward_dim, atoms), ("action", "continuous")
    if action_layer == "first" or len(num_cells) < 2:
        network = perceptron(state.size + action_dim, outputs, num_cells, activation, **options)
        return state.precede(*_heads(network, [*state.keys, action], "action_value", atoms))
    *hidden, features, last = num_cells
    state_network = perceptron(
        state.size, features, hidden, activation, activate_last_layer=True, **options
    )
    head = perceptron(features + action_dim, outputs, [last], activation, **options)
    return TensorDictSequential(
        *state.modules,
        TensorDictModule(state_network, state.keys, ["state_features"]),
        *_heads(head, ["state_features", action], "action_value", atoms),
    )


def stack_critics(critics: Sequence[ModuleT]) -> ModuleT:
    """Return one module with the weights of several critics, stacked in a first dimension.

    The result is not a critic by itself: evaluate it once with the weights of each critic.

    Args:
        critics: the critics, modules of one structure; they are copied.

    >>> stack_critics([nn.Linear(3, 1), nn.Linear(3, 1)]).weight.shape
    torch.Size([2, 1, 3])
    """
    stacked = deepcopy(critics[0])
    weights = TensorDict.from_modules(*deepcopy(list(critics)), as_module=True)
    weights.to_module(stacked, preserve_module_state=False)
    return stacked


def _output_shape(num_actions: int | None, reward_dim: int, atoms: int | None) -> int | torch.Size:
    if atoms is not None and (atoms < 2 or reward_dim > 1):
        raise ConfigError(
            "critic_atoms must be null for vector rewards, and two or more for others: got "
            f"{atoms} for {reward_dim} reward dimensions"
        )
    outputs_per_value = reward_dim if atoms is None else atoms
    if num_actions is None:
        return outputs_per_value
    return num_actions if outputs_per_value == 1 else torch.Size([num_actions, outputs_per_value])


def _heads(
    network: nn.Module, in_keys: Sequence[NestedKey], value_key: str, atoms: int | None
) -> list[TensorDictModule]:
    """Return the network as a module; with atoms also a module from its logits to the value."""
    if atoms is None:
        return [TensorDictModule(network, in_keys, [value_key])]
    mean = ValueOfLogits(per_action=value_key == "action_value")
    logits = TensorDictModule(network, in_keys, [VALUE_LOGITS])
    return [logits, TensorDictModule(mean, [VALUE_LOGITS], [value_key])]


class ValueOfLogits(nn.Module):
    """A layer from logits ``[*, N]`` to the value ``[*, 1]`` that they describe.

    With ``per_action`` it goes from ``[*, K, N]`` to ``[*, K]``.

    >>> ValueOfLogits(per_action=True)(torch.zeros(2, 5))
    tensor([0., 0.])
    """

    def __init__(self, *, per_action: bool) -> None:
        super().__init__()
        self.per_action = per_action

    def forward(self, logits: Tensor) -> Tensor:
        """Return the mean over the atoms."""
        value = mean_over_atoms(logits)
        return value.squeeze(-1) if self.per_action else value


class RewardWeights(nn.Module):
    """A buffer with the weights ``[M]`` of a vector reward, or ``None`` for ones.

    A loss and its policies share one object, so weights that are assigned during a run reach all of
    them. Only the state dict of a policy holds the weights. A cast starts from the assigned
    numbers, so a cast to a higher precision loses nothing.

    >>> weights = RewardWeights()
    >>> weights.assign([1.0, -0.5], torch.zeros(()))
    >>> weights.value
    tensor([ 1.0000, -0.5000])
    """

    value: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", None, persistent=False)
        self._assigned: list[float] = []

    def assign(self, weights: Tensor | Sequence[float] | None, reference: Tensor) -> None:
        """Change the weights.

        Args:
            weights: the new weights ``[M]``, or ``None``.
            reference: a tensor with the dtype and the device that the weights get.
        """
        if weights is None:
            self.value = None
            return
        self._assigned = [float(weight) for weight in weights]
        value = torch.tensor(self._assigned, dtype=reference.dtype, device=reference.device)
        if self.value is not None and self.value.shape == value.shape:
            self.value.copy_(value)  # a compiled update holds this tensor
        else:
            self.value = value

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RewardWeights:
        super()._apply(fn, recurse)
        if self.value is not None:
            self.assign(self._assigned, self.value)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        weights = state_dict.get(f"{prefix}value")
        if weights is not None:  # whether or not there were weights before
            self.assign(weights, weights if self.value is None else self.value)
