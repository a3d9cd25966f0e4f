"""Networks with a memory in losses. Memories run over rows once; heads read their outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import torch
from tensordict import NestedKey, TensorDictBase, unravel_key
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional.memory import State, recurrent_step, unroll_recurrent
from rlkit_sac.modules.ensemble import Members
from rlkit_sac.modules.memory import Memory, check_memory, get_cells, layer_weights, state_keys
from rlkit_sac.modules.structure import flatten_sequences, submodule_name
from rlkit_sac.objectives.batch import Transitions, check_flag, zero_invalid_steps

#: The entry of encoded states with the outputs of memories, by the name of the network.
ENCODED = "_encoded"

TransitionsT = TypeVar("TransitionsT", bound=Transitions)


@dataclass(frozen=True)
class MemoryRows:
    """Rows ``[*, T]`` of a batch, as memories read them.

    Attributes:
        states: the networks' inputs at s, with normalized observations.
        next_states: the networks' inputs at s', with normalized observations.
        reset: the steps of N rows before which a memory becomes zero, bool ``[N, T]``.
        stored: the states of memories that the batch holds at the first step of each row,
            ``[*, L, H]`` or ``[*, R, L, H]``, without gradient.
        burn_in: the number of first steps that only update the memories.
    """

    states: TensorDictBase
    next_states: TensorDictBase
    reset: Tensor
    stored: TensorDictBase
    burn_in: int

    @classmethod
    def read(
        cls,
        tensordict: TensorDictBase,
        transitions: Transitions,
        *,
        normalize_states: Callable[[TensorDictBase], TensorDictBase],
        done: Tensor,
        networks: Iterable[RecurrentNetwork],
        burn_in: int,
    ) -> MemoryRows:
        r"""Find the states with which memories start in a batch, and the steps that reset them.

        A memory keeps its state if :math:`\text{keep}_t = \neg\text{is\_init}_t \wedge
        \neg\text{cut}_{t-1}`, where ``cut`` holds at the end of an episode and in invalid steps. A
        row starts with the stored state, or with zero. It ignores ``is_init`` of the first step,
        which samplers overwrite.

        Args:
            tensordict: the batch ``[*, T]``, which may hold states of memories.
            transitions: the entries of the batch that the loss reads.
            normalize_states: the function that normalizes the observations of states.
            done: the ends of episodes in the batch, ``[*, T, 1]``.
            networks: the networks with a memory.
            burn_in: the number of first steps that only update the memories.

        Raises:
            BatchError: for a burn-in as long as the rows, or ``is_init`` of another shape.
        """
        length, valid = tensordict.batch_size[-1], transitions.valid
        states = normalize_states(transitions.states)
        next_states = normalize_states(transitions.next_states)
        if burn_in >= length:
            raise BatchError(
                f"burn_in is {burn_in}, but the rows of the batch have {length} steps: wanted rows "
                "that are longer"
            )
        keys = [key for network in networks for key in network.state_keys]
        stored = tensordict.select(*keys, strict=False)[..., 0].detach()
        stored = zero_invalid_steps(stored, None if valid is None else valid[..., 0])
        check_flag(tensordict, "is_init", "flag")
        is_init = states.get("is_init").bool()
        cut = done if valid is None else done | ~valid.unsqueeze(-1)
        reset = is_init.clone()
        reset[..., 0, :] = False
        reset[..., 1:, :] |= cut[..., :-1, :]
        is_init = is_init.clone()
        is_init[..., 0, :] &= _may_begin_episode(states, stored)
        states = states.copy().set("is_init", is_init)
        return cls(states, next_states, reset.reshape(-1, length), stored, burn_in)

    def encode(
        self, transitions: TransitionsT, memory_passes: Iterable[MemoryPass]
    ) -> TransitionsT:
        """Return the steps after the burn-in, with the outputs of memories.

        Args:
            transitions: the batch and its states, as the loss reads them.
            memory_passes: the passes of all memories.
        """
        steps = (..., slice(self.burn_in, None))
        states, next_states = transitions.states[steps], transitions.next_states[steps]
        states.set("is_init", self.states[steps]["is_init"])  # for priors
        for memory_pass in memory_passes:
            encoded, next_encoded = memory_pass.network.encode(self, memory_pass)
            if memory_pass.at_states:
                states.set((ENCODED, memory_pass.entry), encoded)
            if next_encoded is not None:
                next_states.set((ENCODED, memory_pass.entry), next_encoded)
        valid = None if transitions.valid is None else transitions.valid[steps]
        batch = transitions.batch[steps]
        return replace(
            transitions, batch=batch, states=states, next_states=next_states, valid=valid
        )


@dataclass(frozen=True)
class MemoryPass:
    """One run of a memory over the rows of a batch, with one set of parameters.

    Attributes:
        network: the network whose memory runs.
        entry: the name under which encoded states hold the outputs.
        members: the network with its parameters, or R networks.
        at_states: whether to encode the states.
        at_next_states: whether to encode the next states.
        grad: whether to compute gradients.
        next_grad: whether to compute gradients at the next states, too.
        states_grad: whether gradients also flow into the states, to a shared encoder.
    """

    network: RecurrentNetwork
    entry: str
    members: Members
    at_states: bool = True
    at_next_states: bool = True
    grad: bool = True
    next_grad: bool = False
    states_grad: bool = True


@dataclass(frozen=True, eq=False)
class RecurrentNetwork:
    """A network with a memory, in three parts that a loss runs separately.

    Attributes:
        network: the whole network; the parts share its modules.
        embedding: the modules that compute the inputs of the memory.
        memory: the memory; a loss uses its weights, not its ``forward``.
        cells_path: the name of the memory's cells in the network.
        head: the modules that read the output of the memory.
    """

    network: TensorDictModuleBase
    embedding: TensorDictSequential
    memory: Memory
    cells_path: str
    head: TensorDictModuleBase

    @classmethod
    def from_network(cls, network: TensorDictModuleBase, name: str) -> RecurrentNetwork:
        """Find the parts of a network with a memory.

        Args:
            network: a ``TensorDictSequential(embedding…, memory, head…)``, which may be nested.
            name: the name of the network, for the error.

        Raises:
            ConfigError: for a memory at another place, or several memories.
        """
        parts = list(flatten_sequences(network))
        memories = [any(isinstance(module, Memory) for module in part.modules()) for part in parts]
        position = memories.index(True)
        memory, head_parts = parts[position], parts[position + 1 :]
        if sum(memories) > 1 or not isinstance(memory, Memory) or not head_parts:
            raise ConfigError(
                f"{name} has its memory at another place than a loss can run it: wanted "
                "TensorDictSequential(embedding, memory, head) with one GRUMemory or LSTMMemory "
                "and a head after it"
            )
        check_memory(memory, name)
        head = head_parts[0] if len(head_parts) == 1 else TensorDictSequential(*head_parts)
        if isinstance(head_parts[-1], ProbabilisticTensorDictModule):
            head = ProbabilisticTensorDictSequential(*head_parts)
        cells_path = submodule_name(get_cells(memory), network)
        return cls(network, TensorDictSequential(*parts[:position]), memory, cells_path, head)

    @property
    def state_keys(self) -> list[NestedKey]:
        """The entries of the memory's state."""
        return state_keys(self.memory)

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that a batch must hold. The state of the memory is optional."""
        optional = self.state_keys
        return [key for key in map(unravel_key, self.network.in_keys) if key not in optional]

    def check_inputs(self, actor_keys: Collection[NestedKey], name: str) -> None:
        """Refuse a memory that reads an entry of the actor, such as the action.

        Args:
            actor_keys: the entries that the actor writes.
            name: the name of the network.

        Raises:
            ConfigError: naming the refused entries.
        """
        in_keys = TensorDictSequential(*self.embedding.module, self.memory).in_keys
        refused = [key for key in map(unravel_key, in_keys) if key in actor_keys]
        if refused:
            raise ConfigError(
                f"the memory of {name} reads {', '.join(map(repr, refused))}, which the actor "
                "writes: actions enter after a memory, in its head; let it read the observation "
                "and 'prev_action'"
            )

    def encode(
        self, rows: MemoryRows, memory_pass: MemoryPass
    ) -> tuple[TensorDictBase, TensorDictBase | None]:
        r"""Return the head's inputs at the states of rows, and at their next states.

        .. math::
            h_t &= f(\text{keep}_t\,h_{t-1}, x_t) \\
            h'_t &= f(h_t, x'_t)

        The input :math:`x_t` comes from :math:`s_t`, and :math:`x'_t` from :math:`s'_t`. Each next
        state takes one step from the memory's state :math:`h_t`, and ignores the following row.

        Args:
            rows: the rows of the batch.
            memory_pass: the parameters, and the states to encode.

        Returns:
            Entries ``[*, T', …]`` for the T' steps after the burn-in; ``[*, T', R, …]`` for an
            ensemble.
        """
        members, burn_in = memory_pass.members, rows.burn_in
        params = members.params
        weights = members.params_at(self.cells_path)
        num_layers = get_cells(self.memory).num_layers
        layers = layer_weights(lambda name: weights.get(name, None), num_layers)
        state = self._initial_state(rows, layers[0].weight_hh, members.indices)
        grad = memory_pass.grad and torch.is_grad_enabled()
        if burn_in:
            with torch.no_grad():
                inputs, _ = self._embed(rows.states[..., :burn_in], members)
                burn_in_states = unroll_recurrent(inputs, state, rows.reset[:, :burn_in], layers)
                state = tuple(part[..., -1, :, :] for part in burn_in_states)
        with torch.set_grad_enabled(grad):
            states = rows.states if memory_pass.states_grad else rows.states.detach()
            inputs, embedded = self._embed(states[..., burn_in:], members)
            memory_states = unroll_recurrent(inputs, state, rows.reset[:, burn_in:], layers)
            encoded = self._entries_for_head(memory_states[0], embedded, params)
        if not memory_pass.at_next_states:
            return encoded, None
        with torch.set_grad_enabled(grad and memory_pass.next_grad):
            inputs, embedded = self._embed(rows.next_states[..., burn_in:], members)
            flat = tuple(part.flatten(-4, -3) for part in memory_states)
            output = recurrent_step(inputs.flatten(-3, -2), flat, layers)[0]
            return encoded, self._entries_for_head(output, embedded, params)

    def head_inputs(self, states: TensorDictBase, entry: str) -> TensorDictBase:
        """Return encoded states as the head of a single network reads them.

        Args:
            states: the encoded states ``[*]``.
            entry: the name under which they hold the outputs of the network's memory.
        """
        return states.copy().update(states.get((ENCODED, entry)))

    def head_inputs_per_member(
        self, states: TensorDictBase, entry: str, *, detached: bool
    ) -> TensorDictBase:
        """Return encoded states as the heads of R networks read them, ``[R, *]``.

        Args:
            states: the encoded states ``[*]``.
            entry: the name under which they hold the outputs of the networks' memories.
            detached: whether to stop gradients to the memories.
        """
        encoded, time = states.get((ENCODED, entry)), states.ndim
        members = next(iter(encoded.values(True, True))).shape[time]
        inputs = states.select(*self.head.in_keys, strict=False)
        inputs = inputs.expand(members, *states.batch_size).copy()
        for key, value in encoded.items(True, True):
            inputs.set(key, (value.detach() if detached else value).movedim(time, 0))
        return inputs

    def _initial_state(self, rows: MemoryRows, weight: Tensor, indices: Tensor | None) -> State:
        """Return the initial states of rows, ``[N, L, H]``; ``[R, N, L, H]`` for an ensemble."""
        cells, count, ensemble = get_cells(self.memory), len(rows.reset), weight.shape[:-2]
        shape, lead = (cells.num_layers, cells.hidden_size), rows.states.batch_size[:-1]
        start = []
        for key in self.state_keys:
            state = rows.stored.get(key, None)
            if state is None:
                start.append(weight.new_zeros(*ensemble, count, *shape))
                continue
            one_per_member = state.ndim == len(lead) + 3
            if one_per_member and indices is not None:
                state = state.index_select(-3, indices)
            shapes = {(*lead, *shape), (*lead, *ensemble, *shape)}
            if tuple(state.shape) not in shapes:
                raise BatchError(
                    f"the state {key!r} has the shape {list(state.shape)} at the first step, wanted"
                    f" {' or '.join(str(list(sizes)) for sizes in sorted(shapes, key=len))}"
                )
            flat = state.reshape(count, *state.shape[len(lead) :])
            expanded = flat.expand(*ensemble, *flat.shape)
            start.append(flat.transpose(0, 1) if one_per_member else expanded)
        return tuple(start)

    def _embed(self, states: TensorDictBase, members: Members) -> tuple[Tensor, TensorDictBase]:
        """Return the memory's inputs ``[R?, N, T, I]``, and all outputs of the embedding."""
        key, params = self.memory.in_keys[0], members.params
        batch_size = torch.Size((*params.batch_size, *states.batch_size))
        tensors = chain(self.embedding.parameters(), self.embedding.buffers())
        if params.batch_size and next(tensors, None) is not None:
            embedded = members.run(self.embedding, states.expand(*batch_size))
        else:
            with params.to_module(self.network, preserve_module_state=False):
                embedded = self.embedding(states.copy())
        embedded = embedded.select(key, *self.embedding.out_keys)
        if embedded.batch_size != batch_size:
            embedded = embedded.expand(*batch_size)
        inputs = embedded.get(key)
        return inputs.reshape(*params.batch_size, -1, *inputs.shape[-2:]), embedded

    def _entries_for_head(
        self, h: Tensor, embedded: TensorDictBase, params: TensorDictBase
    ) -> TensorDictBase:
        """Return the outputs of memory and embedding; the dimension of an ensemble is last."""
        output_key = unravel_key(self.memory.out_keys[0])
        entries = embedded.copy().set(output_key, h[..., -1, :].reshape(*embedded.batch_size, -1))
        if params.batch_size:
            time = embedded.ndim - 1
            entries = entries.apply(lambda entry: entry.movedim(0, time), batch_size=[])
            entries.batch_size = embedded.batch_size[1:]
        return entries


def _may_begin_episode(states: TensorDictBase, stored: TensorDictBase) -> Tensor:
    """Return the rows without previous action and stored state, bool ``[*, 1]``."""
    previous = states.select("prev_action", strict=False)[..., 0]
    first = torch.ones(*stored.batch_size, 1, dtype=torch.bool, device=states.get("is_init").device)
    for entry in (*previous.values(True, True), *stored.values(True, True)):
        first = first & (entry.reshape(*stored.batch_size, -1) == 0).all(-1, keepdim=True)
    return first
