"""Networks with a memory in losses: rows are encoded once, and heads read what is remembered."""

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
from rlkit_sac.functional.memory import State, recurrent_rows, recurrent_step
from rlkit_sac.modules.ensemble import Members
from rlkit_sac.modules.memory import Memory, check_memory, get_cells, layer_weights, state_keys
from rlkit_sac.modules.structure import find_path, flat_parts
from rlkit_sac.objectives.batch import Transitions, check_flag, fill_invalid

#: Where encoded states hold what a memory remembers, by the name of the network.
ENCODED = "_encoded"

TransitionsT = TypeVar("TransitionsT", bound=Transitions)


@dataclass(frozen=True)
class MemoryRows:
    """Rows ``[*, T]`` of a batch, as memories read them.

    Attributes:
        states: the networks' inputs at s, observations normalized.
        next_states: the same at s'.
        reset: bool ``[N, T]`` of N rows, the steps before which a memory forgets.
        stored: the states of memories that the batch holds at the first step of each row,
            ``[*, L, H]`` or ``[*, R, L, H]``, without gradient.
        burn_in: number of first steps that are only remembered.
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
        r"""Find where in a batch memories begin and forget.

        A memory is kept, :math:`\text{keep}_t = \neg\text{is\_init}_t \wedge \neg\text{cut}_{t-1}`,
        where ``cut`` holds at the end of an episode and in invalid steps. A row begins with the
        stored state, or zero, whatever its ``is_init``, which samplers overwrite.

        Args:
            tensordict: the batch ``[*, T]``, which may hold states of memories.
            transitions: what the loss reads of it.
            normalize_states: the function that normalizes the observations of states.
            done: where episodes of the batch end, ``[*, T, 1]``.
            networks: those with a memory.
            burn_in: number of first steps that are only remembered.

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
        held = tensordict.select(*keys, strict=False)
        stored = fill_invalid(held[..., 0].detach(), None if valid is None else valid[..., 0])
        check_flag(tensordict, "is_init", "flag")
        is_init = states.get("is_init").bool()
        cut = done if valid is None else done | ~valid.unsqueeze(-1)
        begins, believed = is_init.clone(), is_init.clone()
        begins[..., 0, :] = False
        begins[..., 1:, :] |= cut[..., :-1, :]
        believed[..., 0, :] &= _may_begin_episode(states, stored)
        states = states.copy().set("is_init", believed)
        return cls(states, next_states, begins.reshape(-1, length), stored, burn_in)

    def encode(
        self, transitions: TransitionsT, memory_passes: Iterable[MemoryPass]
    ) -> TransitionsT:
        """Return the steps after the burn-in, with what memories remember there.

        Args:
            transitions: the batch and its states, as the loss reads them.
            memory_passes: the passes of all memories.
        """
        after = (..., slice(self.burn_in, None))
        states, next_states = transitions.states[after], transitions.next_states[after]
        for memory_pass in memory_passes:
            encoded, next_encoded = memory_pass.network.encode(self, memory_pass)
            if memory_pass.at_states:
                states.set((ENCODED, memory_pass.entry), encoded)
            if next_encoded is not None:
                next_states.set((ENCODED, memory_pass.entry), next_encoded)
        valid = None if transitions.valid is None else transitions.valid[after]
        batch = transitions.batch[after]
        return replace(
            transitions, batch=batch, states=states, next_states=next_states, valid=valid
        )


@dataclass(frozen=True)
class MemoryPass:
    """One run of a memory over the rows of a batch, with one set of parameters.

    Attributes:
        network: whose memory runs.
        entry: under which encoded states hold what it remembers.
        members: the network with its parameters, or R of them.
        at_states: whether states are encoded.
        at_next_states: whether next states are.
        grad: whether with gradients.
        next_grad: whether at the next states, too.
        states_grad: whether gradients also flow into the states, where a loss has encoded them.
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
    """A network in three parts, of which a loss runs each by itself.

    Attributes:
        network: the whole; the parts share its modules.
        embedding: what computes the inputs of the memory.
        memory: its cells; they are run by their weights.
        cells_path: where in the network the cells are.
        head: what reads the output of the memory.
    """

    network: TensorDictModuleBase
    embedding: TensorDictSequential
    memory: Memory
    cells_path: str
    head: TensorDictModuleBase

    @classmethod
    def find(cls, network: TensorDictModuleBase, name: str) -> RecurrentNetwork:
        """Find the parts of a network with a memory.

        Args:
            network: ``TensorDictSequential(embedding…, memory, head…)``, sequences in it flattened.
            name: what an error calls it.

        Raises:
            ConfigError: for a memory at another place, or several.
        """
        parts = list(flat_parts(network))
        memories = [any(isinstance(module, Memory) for module in part.modules()) for part in parts]
        places = [place for place, has_memory in enumerate(memories) if has_memory]
        place = places[0]
        memory, after = parts[place], parts[place + 1 :]
        if len(places) > 1 or not isinstance(memory, Memory) or not after:
            raise ConfigError(
                f"{name} has its memory at another place than a loss can run it: wanted "
                "TensorDictSequential(embedding, memory, head) with one GRUMemory or LSTMMemory "
                "and a head after it"
            )
        check_memory(memory, name)
        head = after[0] if len(after) == 1 else TensorDictSequential(*after)
        if isinstance(after[-1], ProbabilisticTensorDictModule):
            head = ProbabilisticTensorDictSequential(*after)
        cells_path = find_path(get_cells(memory), network)
        return cls(network, TensorDictSequential(*parts[:place]), memory, cells_path, head)

    @property
    def state_keys(self) -> list[NestedKey]:
        """Entries of the memory's state."""
        return state_keys(self.memory)

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that a batch must hold; the state of the memory need not be there."""
        optional = self.state_keys
        return [key for key in map(unravel_key, self.network.in_keys) if key not in optional]

    def check_inputs(self, written: Collection[NestedKey], name: str) -> None:
        """Refuse a memory that reads what the actor writes, such as the action.

        Args:
            written: these entries.
            name: of the network.

        Raises:
            ConfigError: naming them.
        """
        in_keys = TensorDictSequential(*self.embedding.module, self.memory).in_keys
        refused = [key for key in map(unravel_key, in_keys) if key in written]
        if refused:
            raise ConfigError(
                f"the memory of {name} reads {', '.join(map(repr, refused))}, which the actor "
                "writes: actions enter after a memory, in its head; let it read the observation "
                "and 'prev_action'"
            )

    def encode(
        self, rows: MemoryRows, memory_pass: MemoryPass
    ) -> tuple[TensorDictBase, TensorDictBase | None]:
        r"""Return what the head reads of the memory, at the states of rows and at the next ones.

        .. math::
            h_t &= f(\text{keep}_t\,h_{t-1}, x_t) \\
            h'_t &= f(h_t, x'_t)

        with the inputs :math:`x_t` of :math:`s_t` and :math:`x'_t` of :math:`s'_t`: the next states
        take one step each from the state that the memory has there, whatever follows in the row.

        Args:
            rows: the batch.
            memory_pass: the parameters, and what is encoded.

        Returns:
            For the T' steps after the burn-in, entries ``[*, T', …]``, ``[*, T', R, …]`` for an
            ensemble.
        """
        members, burn_in = memory_pass.members, rows.burn_in
        params = members.params
        weights = members.params_at(self.cells_path)
        num_layers = get_cells(self.memory).num_layers
        layers = layer_weights(lambda name: weights.get(name, None), num_layers)
        state = self._start(rows, layers[0].weight_hh, members.indices)
        grad = memory_pass.grad and torch.is_grad_enabled()
        if burn_in:
            with torch.no_grad():
                inputs, _ = self._embed(rows.states[..., :burn_in], members)
                before = recurrent_rows(inputs, state, rows.reset[:, :burn_in], layers)
                state = tuple(part[..., -1, :, :] for part in before)
        with torch.set_grad_enabled(grad):
            states = rows.states if memory_pass.states_grad else rows.states.detach()
            inputs, written = self._embed(states[..., burn_in:], members)
            after = recurrent_rows(inputs, state, rows.reset[:, burn_in:], layers)
            encoded = self._entries_for_head(after[0], written, params)
        if not memory_pass.at_next_states:
            return encoded, None
        with torch.set_grad_enabled(grad and memory_pass.next_grad):
            inputs, written = self._embed(rows.next_states[..., burn_in:], members)
            flat = tuple(part.flatten(-4, -3) for part in after)
            output = recurrent_step(inputs.flatten(-3, -2), flat, layers)[0]
            return encoded, self._entries_for_head(output, written, params)

    def head_inputs(self, states: TensorDictBase, entry: str) -> TensorDictBase:
        """Encoded states as the head of a single network reads them.

        Args:
            states: ``[*]``.
            entry: under which they hold what the network's memory remembers.
        """
        return states.copy().update(states.get((ENCODED, entry)))

    def head_inputs_per_member(
        self, states: TensorDictBase, entry: str, *, detached: bool
    ) -> TensorDictBase:
        """Encoded states as the heads of R networks read them, ``[R, *]``.

        Args:
            states: ``[*]``.
            entry: under which they hold what the networks' memories remember.
            detached: whether no gradient flows into the memories.
        """
        encoded, time = states.get((ENCODED, entry)), states.ndim
        members = next(iter(encoded.values(True, True))).shape[time]
        inputs = states.select(*self.head.in_keys, strict=False)
        inputs = inputs.expand(members, *states.batch_size).copy()
        for key, value in encoded.items(True, True):
            inputs.set(key, (value.detach() if detached else value).movedim(time, 0))
        return inputs

    def _start(self, rows: MemoryRows, weight: Tensor, indices: Tensor | None) -> State:
        """The states that rows begin with, ``[N, L, H]``, ``[R, N, L, H]`` for an ensemble."""
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
            wanted = {(*lead, *shape), (*lead, *ensemble, *shape)}
            if tuple(state.shape) not in wanted:
                raise BatchError(
                    f"the state {key!r} has the shape {list(state.shape)} at the first step, wanted"
                    f" {' or '.join(str(list(sizes)) for sizes in sorted(wanted, key=len))}"
                )
            flat = state.reshape(count, *state.shape[len(lead) :])
            expanded = flat.expand(*ensemble, *flat.shape)
            start.append(flat.transpose(0, 1) if one_per_member else expanded)
        return tuple(start)

    def _embed(self, states: TensorDictBase, members: Members) -> tuple[Tensor, TensorDictBase]:
        """Inputs of the memory, ``[R?, N, T, I]``, and all that the embedding writes."""
        key, params = self.memory.in_keys[0], members.params
        batch_size = torch.Size((*params.batch_size, *states.batch_size))
        tensors = chain(self.embedding.parameters(), self.embedding.buffers())
        if params.batch_size and next(tensors, None) is not None:
            written = members.run(self.embedding, states.expand(*batch_size))
        else:
            with params.to_module(self.network, preserve_module_state=False):
                written = self.embedding(states.copy())
        written = written.select(key, *self.embedding.out_keys)
        if written.batch_size != batch_size:
            written = written.expand(*batch_size)
        inputs = written.get(key)
        return inputs.reshape(*params.batch_size, -1, *inputs.shape[-2:]), written

    def _entries_for_head(
        self, h: Tensor, written: TensorDictBase, params: TensorDictBase
    ) -> TensorDictBase:
        """What the memory and the embedding write for the head, the networks last."""
        output = unravel_key(self.memory.out_keys[0])
        entries = written.copy().set(output, h[..., -1, :].reshape(*written.batch_size, -1))
        if params.batch_size:
            time = written.ndim - 1
            entries = entries.apply(lambda entry: entry.movedim(0, time), batch_size=[])
            entries.batch_size = written.batch_size[1:]
        return entries


def _may_begin_episode(states: TensorDictBase, stored: TensorDictBase) -> Tensor:
    """Where a row may begin an episode: no previous action and no stored state, ``[*, 1]``."""
    previous = states.select("prev_action", strict=False)[..., 0]
    rest = torch.ones(*stored.batch_size, 1, dtype=torch.bool, device=states.get("is_init").device)
    for entry in (*previous.values(True, True), *stored.values(True, True)):
        rest = rest & (entry.reshape(*stored.batch_size, -1) == 0).all(-1, keepdim=True)
    return rest
