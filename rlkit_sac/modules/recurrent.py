"""What comes before the heads of networks: the observation, or a memory of it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

import torch
from tensordict import NestedKey
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn

from rlkit_sac.modules.encoders import EncoderOptions, is_vector, observation_encoder
from rlkit_sac.modules.memory import GRUMemory, LSTMMemory, next_key


class MemoryOptions(TypedDict, total=False):
    """The memory of a network, an argument of every builder of networks.

    Attributes:
        kind: ``"gru"`` or ``"lstm"``.
        size: number H of units. Default 64.
        layers: number L of layers. Default 1.
        action_dim: length of the continuous part of the previous action, which the memory reads
            beside the observation. Default 0, for none.
        num_actions: number of values of its discrete part. Default 0, for none.

    >>> options: MemoryOptions = {"kind": "gru", "action_dim": 1}
    """

    kind: Literal["gru", "lstm"]
    size: int
    layers: int
    action_dim: int
    num_actions: int


class StateInputs(NamedTuple):
    """What a head reads of a state.

    Attributes:
        size: number of features.
        keys: entries that hold them, in order.
        modules: what computes these entries; none for the observation itself.
    """

    size: int
    keys: list[NestedKey]
    modules: list[TensorDictModuleBase]

    def before(self, *heads: TensorDictModule) -> TensorDictModule | TensorDictSequential:
        """The head, or what it is made of, after the modules."""
        whole = [*self.modules, *heads]
        return TensorDictSequential(*whole) if len(whole) > 1 else heads[0]


class PreviousStep(nn.Module):
    """The observation, followed by the previous action, an index as a one-hot vector.

    In the first step of an episode, where ``is_init`` holds, the previous action is zero.

    Args:
        num_actions: number of values of its discrete part, which comes last; 0 for none.

    >>> join = PreviousStep(2)
    >>> join(torch.tensor([0.5]), torch.tensor([False]), torch.tensor(1))
    tensor([0.5000, 0.0000, 1.0000])
    """

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions

    def forward(self, observation: Tensor, is_init: Tensor, *action: Tensor) -> Tensor:
        """``[*, D]`` of the observation ``[*, O]``, the flag ``[*, 1]`` and the action's parts."""
        parts = list(action)
        if self.num_actions:
            # PyTorch's one_hot reads the values, which no recorded graph can.
            values = torch.arange(self.num_actions, device=observation.device)
            parts[-1] = (parts[-1].unsqueeze(-1) == values).to(observation.dtype)
        return torch.cat([observation, *(part.masked_fill(is_init, 0.0) for part in parts)], -1)


class JoinedInputs(nn.Sequential):
    """Layers in sequence, the first of which reads all inputs joined.

    >>> JoinedInputs(nn.Identity())(torch.zeros(1), torch.ones(1))
    tensor([0., 1.])
    """

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The output of the last layer."""
        return super().forward(torch.cat(inputs, -1))


def state_inputs(
    observation: int | EncoderOptions, memory: MemoryOptions | None, owner: str
) -> StateInputs:
    """The observation alone, or a memory's output and the observation with the previous action.

    Args:
        observation: its length, or the encoder whose features then take its place.
        memory: options of the memory, or ``None``.
        owner: names the state of the memory, ``"actor"`` for ``actor_state``, of an LSTM
            ``actor_state_h`` and ``actor_state_c``.

    >>> state_inputs(3, {"kind": "gru", "size": 8, "action_dim": 1}, "actor")[:2]
    (12, ['memory', 'memory_input'])
    """
    read, before = "observation", []
    if not isinstance(observation, dict):
        observation_dim = observation
    elif is_vector(observation["layout"]):
        (vector,) = observation["layout"]
        read, observation_dim = vector["key"], vector["shape"][0]
    else:
        encoder = observation_encoder(**observation)
        read, before = "features", [encoder]
        observation_dim = encoder.module.num_features
    if memory is None:
        return StateInputs(observation_dim, [read], before)
    kind, size, layers = memory["kind"], memory.get("size", 64), memory.get("layers", 1)
    action_dim, num_actions = memory.get("action_dim", 0), memory.get("num_actions", 0)
    cells: dict[str, type[GRUMemory | LSTMMemory]] = {"gru": GRUMemory, "lstm": LSTMMemory}
    states = [f"{owner}_state{suffix}" for suffix in ([""] if kind == "gru" else ["_h", "_c"])]
    parts = [
        ("prev_action", name) if action_dim and num_actions else "prev_action"
        for name, length in (("continuous", action_dim), ("discrete", num_actions))
        if length
    ]
    width = int(observation_dim + action_dim + num_actions)  # NumPy's integers are none of GRU's
    embedding = TensorDictModule(
        PreviousStep(num_actions), [read, "is_init", *parts], ["memory_input"]
    )
    remember = cells[kind](
        width,
        int(size),
        int(layers),
        in_keys=["memory_input", *states],
        out_keys=["memory", *map(next_key, states)],
    )
    return StateInputs(size + width, ["memory", "memory_input"], [*before, embedding, remember])
