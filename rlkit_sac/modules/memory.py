"""Memories of recurrent networks: TorchRL's GRU and LSTM modules, without branches on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, cast

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import Unbounded
from torchrl.envs import TensorDictPrimer
from torchrl.modules import GRUModule, LSTMModule

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional.memory import LayerWeights, State, recurrent_step, unroll_recurrent

Memory: TypeAlias = GRUModule | LSTMModule
_REFUSED = ("bidirectional", "dropout", "proj_size")  # options of PyTorch's cells


class _OrthogonalCells(nn.RNNBase):
    """Cells whose recurrent weights are initialized as an orthogonal matrix for each gate."""

    def reset_parameters(self) -> None:
        """Initialize all weights."""
        super().reset_parameters()
        for name, weight in self.named_parameters():
            if name.startswith("weight_hh"):
                for gate in weight.detach().split(self.hidden_size):
                    nn.init.orthogonal_(gate)

    def flatten_parameters(self) -> None:
        """Do nothing: only PyTorch's fused kernel needs flat weights, and it is not called."""


class OrthogonalGRU(_OrthogonalCells, nn.GRU):
    """``torch.nn.GRU`` with orthogonal initial recurrent weights."""


class OrthogonalLSTM(_OrthogonalCells, nn.LSTM):
    """``torch.nn.LSTM`` with orthogonal initial recurrent weights."""


class _Memory(TensorDictModuleBase):
    """The differences of both memories from TorchRL's modules."""

    _new_cells: ClassVar[tuple[str, Callable[..., nn.RNNBase]]]

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        *,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> None:
        name, cell_class = self._new_cells
        if options.get(name) is None:
            options[name] = cell_class(
                input_size=input_size,
                hidden_size=hidden_size,
                num_layers=num_layers,
                bias=bias,
                batch_first=True,
                device=device,
                **{option: options.pop(option) for option in _REFUSED if option in options},
            )
        super().__init__(**options)
        check_memory(cast(Memory, self), type(self).__name__)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write output and states into ``tensordict`` and return it."""
        memory = cast(Memory, self)
        cells, input_key = get_cells(memory), memory.in_keys[0]
        inputs, is_init = tensordict.get(input_key), tensordict.get("is_init")
        shape = torch.Size([*inputs.shape[:-1], *state_shape(memory)])
        stored = (tensordict.get(key, None) for key in state_keys(memory))
        state: State = tuple(inputs.new_zeros(shape) if part is None else part for part in stored)
        layers = layer_weights(lambda name: getattr(cells, name, None), cells.num_layers)
        if memory.recurrent_mode:
            start = tuple(part[..., 0, :, :].reshape(-1, *shape[-2:]) for part in state)
            reset = is_init.reshape(-1, inputs.shape[-2]).clone()
            reset[:, 0] = False
            rows = unroll_recurrent(inputs.reshape(*reset.shape, -1), start, reset, layers)
            new_state = tuple(part.reshape(shape) for part in rows)
        else:
            state = tuple(part.masked_fill(is_init.unsqueeze(-1), 0.0) for part in state)
            new_state = recurrent_step(inputs, state, layers)
        for key, entry in zip(memory.out_keys, (new_state[0][..., -1, :], *new_state), strict=True):
            tensordict.set(key, entry)
        return tensordict


class GRUMemory(_Memory, GRUModule):
    r"""TorchRL's ``GRUModule`` that writes its state at every step and can be recorded as a graph.

    By default it takes a single step. It reads the input ``[*, I]``, the state ``[*, L, H]`` and
    ``is_init`` ``[*, 1]``, where the state becomes zero. It writes the output ``[*, H]`` and the
    state after the step ``[*, L, H]``. Without an entry for the state it starts from zero.

    In TorchRL's ``set_recurrent_mode``, which every loss sets, it reads rows ``[*, T]``. The first
    step starts from the stored state and ignores ``is_init``. Later steps start from zero where
    ``is_init`` holds. The state after **every** step is written, ``[*, T, L, H]``.

    Args:
        input_size: number I of inputs.
        hidden_size: number H of units.
        num_layers: number L of layers. Default: 1.
        bias: whether there are biases. Default: ``True``.
        in_key: the entry of the input; the state is ``recurrent_state``.
        in_keys: the entries of input and state, in place of ``in_key``.
        out_key: the entry of the output; the state is written to ``("next", "recurrent_state")``.
        out_keys: the entries of output and state, in place of ``out_key``. The entry of the state
            must be the one in ``in_keys``, under ``next``.
        device: the device of the weights.
        gru: the cells to use. Default: new cells with orthogonal recurrent weights.
        default_recurrent_mode: whether it reads rows outside ``set_recurrent_mode``.

    Raises:
        ConfigError: for cells that are bidirectional, or with dropout between layers.

    >>> from tensordict import TensorDict
    >>> memory = GRUMemory(3, 8, in_keys=["x", "state"], out_keys=["y", ("next", "state")])
    >>> step = TensorDict(x=torch.zeros(5, 3), is_init=torch.ones(5, 1).bool(), batch_size=[5])
    >>> memory(step)["y"].shape, step["next", "state"].shape
    (torch.Size([5, 8]), torch.Size([5, 1, 8]))
    """

    _new_cells = ("gru", OrthogonalGRU)


class LSTMMemory(_Memory, LSTMModule):
    """TorchRL's ``LSTMModule`` that writes its states at every step and can be recorded as a graph.

    It behaves as :class:`GRUMemory`, but has two states ``[*, L, H]``, the output and the cell. By
    default they are ``recurrent_state_h`` and ``recurrent_state_c``.

    Args:
        input_size: number I of inputs.
        hidden_size: number H of units.
        num_layers: number L of layers. Default: 1.
        bias: whether there are biases. Default: ``True``.
        in_key: the entry of the input.
        in_keys: the entries of the input and both states, in place of ``in_key``.
        out_key: the entry of the output.
        out_keys: the entries of the output and both states, in place of ``out_key``.
        device: the device of the weights.
        lstm: the cells to use. Default: new cells with orthogonal recurrent weights.
        default_recurrent_mode: whether it reads rows outside ``set_recurrent_mode``.

    Raises:
        ConfigError: for cells that are bidirectional, or with dropout between layers, or projected.

    >>> from tensordict import TensorDict
    >>> memory = LSTMMemory(3, 8, in_key="x", out_key="y")
    >>> rows = TensorDict(x=torch.zeros(5, 4, 3), is_init=torch.zeros(5, 4, 1) > 0)
    >>> from torchrl.modules import set_recurrent_mode
    >>> with set_recurrent_mode(True):
    ...     memory(rows.auto_batch_size_(2))["next", "recurrent_state_c"].shape
    torch.Size([5, 4, 1, 8])
    """

    _new_cells = ("lstm", OrthogonalLSTM)


def get_cells(memory: Memory) -> nn.RNNBase:
    """Return the module with the weights of a memory."""
    return memory.gru if isinstance(memory, GRUModule) else memory.lstm


def state_keys(memory: Memory) -> list[NestedKey]:
    """Return the entries of a memory's state, :math:`(h)` or :math:`(h, c)`.

    >>> state_keys(LSTMMemory(3, 8, in_key="x", out_key="y"))
    ['recurrent_state_h', 'recurrent_state_c']
    """
    return [unravel_key(key) for key in memory.in_keys[1 : 2 + isinstance(memory, LSTMModule)]]


def next_key(key: NestedKey) -> NestedKey:
    """Return the key of an entry after the step.

    >>> next_key("actor_state")
    ('next', 'actor_state')
    """
    return unravel_key(("next", key))


def state_shape(memory: Memory) -> torch.Size:
    """Return the shape ``[L, H]`` of each state; ``[R, L, H]`` for R stacked memories."""
    cells = get_cells(memory)
    members = cast(Tensor, cells.weight_hh_l0).shape[:-2]
    return torch.Size([*members, cells.num_layers, cells.hidden_size])


def policy_states(policy: nn.Module) -> dict[NestedKey, torch.Size]:
    """Return the states that a policy carries from step to step, with shapes for one environment.

    Args:
        policy: a module with ``in_keys`` that reads each state and writes it under ``next``.

    >>> policy_states(GRUMemory(3, 8, in_key="x", out_key="y"))
    {'recurrent_state': torch.Size([1, 8])}
    """
    in_keys = set(map(unravel_key, getattr(policy, "in_keys", [])))
    memories = [module for module in policy.modules() if isinstance(module, Memory)]
    states = ((key, state_shape(memory)) for memory in memories for key in state_keys(memory))
    return {key: shape for key, shape in states if key in in_keys}


def state_primer(policy: nn.Module) -> TensorDictPrimer:
    """Return a transform with which an environment carries a policy's states, zero at each reset.

    >>> state_primer(GRUMemory(3, 8, in_key="x", out_key="y")).primers["recurrent_state"].shape
    torch.Size([1, 8])
    """
    specs = {key: Unbounded(shape) for key, shape in policy_states(policy).items()}
    return TensorDictPrimer(specs, expand_specs=True)


def layer_weights(get: Callable[[str], Tensor | None], num_layers: int) -> list[LayerWeights]:
    """Return the weights of the layers of cells.

    Args:
        get: a function from a name in ``torch.nn.GRU`` to the tensor; ``None`` for a missing bias.
        num_layers: number of layers.
    """
    names = LayerWeights._fields
    return [LayerWeights(*(get(f"{name}_l{i}") for name in names)) for i in range(num_layers)]  # type: ignore[arg-type]


def check_memory(memory: Memory, name: str) -> None:
    """Refuse cells that the losses and collectors cannot run.

    Args:
        memory: the memory with the cells.
        name: the name of the network, for the error.

    Raises:
        ConfigError: naming the option.
    """
    cells = get_cells(memory)
    for option in _REFUSED:
        if value := getattr(cells, option):
            raise ConfigError(
                f"{name} has {option}={value}: a memory here runs forward in time, without dropout "
                "between its layers or a projection; leave the option out"
            )
