"""Memories of recurrent networks: TorchRL's GRU and LSTM modules without branches on values."""

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
from rlkit_sac.functional.memory import LayerWeights, State, recurrent_rows, recurrent_step

Memory: TypeAlias = GRUModule | LSTMModule
_REFUSED = ("bidirectional", "dropout", "proj_size")  # options of cells


class _OrthogonalCells(nn.RNNBase):
    """Cells whose recurrent weights are orthogonal at first, those of each gate by themselves."""

    def reset_parameters(self) -> None:
        """Initialize all weights."""
        super().reset_parameters()
        for name, weight in self.named_parameters():
            if name.startswith("weight_hh"):
                for gate in weight.detach().split(self.hidden_size):
                    nn.init.orthogonal_(gate)

    def flatten_parameters(self) -> None:
        """Leave the weights where they are: PyTorch's kernel for them together is not called."""


class OrthogonalGRU(_OrthogonalCells, nn.GRU):
    """``torch.nn.GRU`` with orthogonal recurrent weights at first."""


class OrthogonalLSTM(_OrthogonalCells, nn.LSTM):
    """``torch.nn.LSTM`` with orthogonal recurrent weights at first."""


class _Memory(TensorDictModuleBase):
    """What both memories do otherwise than TorchRL's modules."""

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
        name, kind = self._new_cells
        if options.get(name) is None:
            options[name] = kind(
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
        cells, value = get_cells(memory), memory.in_keys[0]
        inputs, is_init = tensordict.get(value), tensordict.get("is_init")
        shape = torch.Size([*inputs.shape[:-1], *state_shape(memory)])
        stored = (tensordict.get(key, None) for key in state_keys(memory))
        state: State = tuple(inputs.new_zeros(shape) if each is None else each for each in stored)
        layers = layer_weights(lambda name: getattr(cells, name, None), cells.num_layers)
        if memory.recurrent_mode:
            start = tuple(each[..., 0, :, :].reshape(-1, *shape[-2:]) for each in state)
            reset = is_init.reshape(-1, inputs.shape[-2]).clone()
            reset[:, 0] = False
            rows = recurrent_rows(inputs.reshape(*reset.shape, -1), start, reset, layers)
            after = tuple(each.reshape(shape) for each in rows)
        else:
            begins = is_init.unsqueeze(-1)
            zeroed = tuple(each.masked_fill(begins, 0.0) for each in state)
            after = recurrent_step(inputs, zeroed, layers)
        for key, entry in zip(memory.out_keys, (after[0][..., -1, :], *after), strict=True):
            tensordict.set(key, entry)
        return tensordict


class GRUMemory(_Memory, GRUModule):
    r"""TorchRL's ``GRUModule`` that writes its state at every step and can be recorded as a graph.

    Step by step (the default), it reads the input ``[*, I]``, the state ``[*, L, H]`` and
    ``is_init`` ``[*, 1]``, where the state becomes zero; it writes the output ``[*, H]`` and the
    state after the step ``[*, L, H]``. Without an entry of the state it starts from zero.

    On rows ``[*, T]`` (TorchRL's ``set_recurrent_mode``, which every loss sets), the first step
    starts from the stored state whatever its ``is_init``, later ones from zero where ``is_init``
    holds, and the state after **every** step is written, ``[*, T, L, H]``.

    Args:
        input_size: number I of inputs.
        hidden_size: number H of units.
        num_layers: number L of layers. Default 1.
        bias: whether there are biases. Default ``True``.
        in_key: entry of the input; the state is ``recurrent_state``.
        in_keys: or those of input and state.
        out_key: entry of the output; the state is written to ``("next", "recurrent_state")``.
        out_keys: or those of output and state, the latter ``("next", …)`` of that in ``in_keys``.
        device: of the weights.
        gru: cells to use, instead of new ones with orthogonal recurrent weights.
        default_recurrent_mode: whether it reads rows where no ``set_recurrent_mode`` says.

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

    As :class:`GRUMemory`, with two states ``[*, L, H]``, the output and the cell, by default
    ``recurrent_state_h`` and ``recurrent_state_c``.

    Args:
        input_size: number I of inputs.
        hidden_size: number H of units.
        num_layers: number L of layers. Default 1.
        bias: whether there are biases. Default ``True``.
        in_key: entry of the input.
        in_keys: or those of the input and both states.
        out_key: entry of the output.
        out_keys: or those of the output and both states.
        device: of the weights.
        lstm: cells to use, instead of new ones with orthogonal recurrent weights.
        default_recurrent_mode: whether it reads rows where no ``set_recurrent_mode`` says.

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
    """The module with the weights of a memory."""
    return memory.gru if isinstance(memory, GRUModule) else memory.lstm


def state_keys(memory: Memory) -> list[NestedKey]:
    """The entries of a memory's state, :math:`(h)` or :math:`(h, c)`.

    >>> state_keys(LSTMMemory(3, 8, in_key="x", out_key="y"))
    ['recurrent_state_h', 'recurrent_state_c']
    """
    return [unravel_key(key) for key in memory.in_keys[1 : 2 + isinstance(memory, LSTMModule)]]


def next_key(key: NestedKey) -> NestedKey:
    """The key of an entry after the step.

    >>> next_key("actor_state")
    ('next', 'actor_state')
    """
    return unravel_key(("next", key))


def state_shape(memory: Memory) -> torch.Size:
    """The shape ``[L, H]`` of each entry, ``[R, L, H]`` where the weights of R are stacked."""
    cells = get_cells(memory)
    members = cast(Tensor, cells.weight_hh_l0).shape[:-2]
    return torch.Size([*members, cells.num_layers, cells.hidden_size])


def policy_states(policy: nn.Module) -> dict[NestedKey, torch.Size]:
    """The entries that a policy carries from step to step, and their shapes for one environment.

    Args:
        policy: a module with ``in_keys``, which reads each such entry and writes it under ``next``.

    >>> policy_states(GRUMemory(3, 8, in_key="x", out_key="y"))
    {'recurrent_state': torch.Size([1, 8])}
    """
    read = set(map(unravel_key, getattr(policy, "in_keys", [])))
    memories = (each for each in policy.modules() if isinstance(each, Memory))
    return {key: state_shape(each) for each in memories for key in state_keys(each) if key in read}


def state_primer(policy: nn.Module) -> TensorDictPrimer:
    """The transform that lets an environment carry the states of a policy, zero at each reset.

    >>> state_primer(GRUMemory(3, 8, in_key="x", out_key="y")).primers["recurrent_state"].shape
    torch.Size([1, 8])
    """
    specs = {key: Unbounded(shape) for key, shape in policy_states(policy).items()}
    return TensorDictPrimer(specs, expand_specs=True)


def layer_weights(of: Callable[[str], Tensor | None], num_layers: int) -> list[LayerWeights]:
    """The weights of the layers of cells.

    Args:
        of: the tensor with a name of ``torch.nn.GRU``'s, ``None`` for a bias that is not there.
        num_layers: number of layers.
    """
    names = LayerWeights._fields
    return [LayerWeights(*(of(f"{name}_l{each}") for name in names)) for each in range(num_layers)]  # type: ignore[arg-type]


def check_memory(memory: Memory, name: str) -> None:
    """Refuse cells that the losses and collectors cannot run.

    Args:
        memory: with the cells.
        name: what an error calls it.

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
