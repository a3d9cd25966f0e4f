"""Networks with a memory in losses: rows are encoded once, and heads read what is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase, unravel_key
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor, nn
from torchrl.objectives.utils import _pseudo_vmap

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional.memory import State, recurrent_rows, recurrent_step
from rlkit_sac.modules.memory import Memory, cells_of, check_memory, layer_weights, state_keys
from rlkit_sac.objectives.checks.batch import check_flag

#: Where encoded states hold what a memory remembers, by the name of the network.
ENCODED = "_encoded"


@dataclass(frozen=True)
class Rows:
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
    stored: Mapping[NestedKey, Tensor]
    burn_in: int

    @classmethod
    def of(
        cls,
        tensordict: TensorDictBase,
        states: TensorDictBase,
        next_states: TensorDictBase,
        *,
        done: Tensor,
        valid: Tensor | None,
        networks: Iterable[RecurrentNetwork],
        burn_in: int,
    ) -> Rows:
        r"""Find where memories begin and forget.

        A memory is kept, :math:`\text{keep}_t = \neg\text{is\_init}_t \wedge \neg\text{cut}_{t-1}`,
        where ``cut`` holds at the end of an episode and in invalid steps. A row begins with the
        stored state, or zero, whatever its ``is_init``, which samplers overwrite.

        Args:
            tensordict: the batch ``[*, T]``, which may hold states of memories.
            states: inputs at s.
            next_states: inputs at s'.
            done: of the batch, ``[*, T, 1]``.
            valid: bool ``[*, T]``; ``None`` if every step is valid.
            networks: with the memories.
            burn_in: number of first steps that are only remembered.

        Raises:
            BatchError: for a burn-in as long as the rows, ``is_init`` of another shape, or a state
                that several networks read.
        """
        length = tensordict.batch_size[-1]
        if burn_in >= length:
            raise BatchError(
                f"burn_in is {burn_in}, but the rows of the batch have {length} steps: wanted rows "
                "that are longer"
            )
        stored = {}
        for key in [key for network in networks for key in network.state_keys]:
            found = tensordict.get(key, None)
            if key in stored:
                raise BatchError(
                    f"the batch holds {key!r}, which is the state of several networks: name the "
                    "states of their memories differently, by in_keys and out_keys"
                )
            if found is not None:
                start = found.detach().select(tensordict.ndim - 1, 0)
                if valid is not None:
                    first = valid[..., 0]
                    absent = ~first.reshape(*first.shape, *(1,) * (start.ndim - first.ndim))
                    start = start.masked_fill(absent, 0.0)
                stored[key] = start
        check_flag(tensordict, "is_init", "flag")
        is_init = states.get("is_init")
        cut = done if valid is None else done | ~valid.unsqueeze(-1)
        begins = torch.cat([torch.zeros_like(cut[..., :1, :]), cut[..., :-1, :]], -2) | is_init
        begins = begins.squeeze(-1).reshape(-1, length).clone()
        begins[:, 0] = False
        believed = is_init.clone()
        believed[..., 0, :] &= _at_rest(states, stored)
        return cls(states.copy().set("is_init", believed), next_states, begins, stored, burn_in)


@dataclass(frozen=True, eq=False)
class RecurrentNetwork:
    """A network in three parts, of which a loss runs each by itself.

    Attributes:
        network: the whole; the parts share its modules.
        embedding: what computes the inputs of the memory.
        memory: its cells; they are run by their weights.
        head: what reads the output of the memory.
    """

    network: TensorDictModuleBase
    embedding: TensorDictSequential
    memory: Memory
    head: TensorDictModuleBase

    @classmethod
    def of(cls, network: TensorDictModuleBase, name: str) -> RecurrentNetwork | None:
        """The parts of a network; ``None`` without a memory.

        Args:
            network: ``TensorDictSequential(embedding…, memory, head…)``, sequences in it flattened.
            name: what an error calls it.

        Raises:
            ConfigError: for a memory at another place, or several.
        """
        parts = list(_flat(network))
        found = [place for place, part in enumerate(parts) if _has_memory(part)]
        if not found:
            return None
        place = found[0]
        memory, after = parts[place], parts[place + 1 :]
        if len(found) > 1 or not isinstance(memory, Memory) or not after:
            raise ConfigError(
                f"{name} has its memory at another place than a loss can run it: wanted "
                "TensorDictSequential(embedding, memory, head) with one GRUMemory or LSTMMemory "
                "and a head after it"
            )
        check_memory(memory, name)
        head = after[0] if len(after) == 1 else TensorDictSequential(*after)
        if isinstance(after[-1], ProbabilisticTensorDictModule):
            head = ProbabilisticTensorDictSequential(*after)
        return cls(network, TensorDictSequential(*parts[:place]), memory, head)

    @property
    def state_keys(self) -> list[NestedKey]:
        """Entries of the memory's state."""
        return state_keys(self.memory)

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that a batch must hold; the state of the memory need not be there."""
        optional = self.state_keys
        return [key for key in map(unravel_key, self.network.in_keys) if key not in optional]

    def encode(
        self,
        rows: Rows,
        params: TensorDictBase,
        *,
        following: bool = True,
        following_grad: bool = False,
        members: Tensor | None = None,
        **vmap: Any,
    ) -> tuple[TensorDictBase, TensorDictBase | None]:
        r"""What the head reads of the memory, at the states of rows and at the next ones.

        .. math::
            h_t &= f(\text{keep}_t\,h_{t-1}, x_t) \\
            h'_t &= f(h_t, x'_t)

        with the inputs :math:`x_t` of :math:`s_t` and :math:`x'_t` of :math:`s'_t`: the next states
        take one step each from the state that the memory has there, whatever follows in the row.

        Args:
            rows: the batch.
            params: of the network, or of R stacked ones.
            following: whether the next states are encoded.
            following_grad: whether with gradients.
            members: which of the stored states of an ensemble belong to the networks; default all.
            **vmap: as for :meth:`run_of_each`.

        Returns:
            For the T' steps after the burn-in, entries ``[*, T', …]``, ``[*, T', R, …]`` for an
            ensemble.
        """
        cells, burn_in = cells_of(self.memory), rows.burn_in
        weights = self.params_of(cells, params)
        layers = layer_weights(lambda name: weights.get(name, None), cells.num_layers)
        state = self._start(rows, params, members)
        if burn_in:
            with torch.no_grad():
                inputs, _ = self._embed(rows.states[..., :burn_in], params, vmap)
                before = recurrent_rows(inputs, state, rows.reset[:, :burn_in], layers)
                state = tuple(each[..., -1, :, :] for each in before)
        inputs, written = self._embed(rows.states[..., burn_in:], params, vmap)
        after = recurrent_rows(inputs, state, rows.reset[:, burn_in:], layers)
        encoded = self._encoded(after[0], written, params)
        if not following:
            return encoded, None
        with torch.set_grad_enabled(following_grad and torch.is_grad_enabled()):
            inputs, written = self._embed(rows.next_states[..., burn_in:], params, vmap)
            flat = tuple(each.flatten(-4, -3) for each in after)
            output = recurrent_step(inputs.flatten(-3, -2), flat, layers)[0]
            return encoded, self._encoded(output, written, params)

    def head_inputs(self, states: TensorDictBase, entry: str) -> TensorDictBase:
        """Encoded states as the head of a single network reads them.

        Args:
            states: ``[*]``.
            entry: under which they hold what the network's memory remembers.
        """
        return states.copy().update(states.get((ENCODED, entry)))

    def head_inputs_of_each(
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
        read = states.select(*self.head.in_keys, strict=False).expand(members, *states.batch_size)
        of_each = read.copy()
        for key, value in encoded.items(True, True):
            of_each.set(key, (value.detach() if detached else value).movedim(time, 0))
        return of_each

    def params_of(self, part: nn.Module, params: TensorDictBase) -> TensorDictBase:
        """The parameters of a part among those of the whole network."""
        path = next(name for name, each in self.network.named_modules() if each is part)
        return params.get(tuple(path.split(".")))

    def run_of_each(
        self,
        part: TensorDictModuleBase,
        inputs: TensorDictBase,
        params: TensorDictBase,
        *,
        randomness: str,
        pseudo_vmap: bool,
    ) -> TensorDictBase:
        """Outputs ``[R, *]`` of a part of R networks, for inputs ``[R, *]``.

        Args:
            part: the embedding or the head.
            inputs: of each network.
            params: stacked.
            randomness: as for ``torch.vmap``.
            pseudo_vmap: whether to run one network after another.
        """

        def run(states: TensorDictBase, member: TensorDictBase) -> TensorDictBase:
            with member.to_module(self.network, preserve_module_state=False):
                return part(states)

        together = _pseudo_vmap if pseudo_vmap else torch.vmap
        out: TensorDictBase = together(run, (0, 0), randomness=randomness)(inputs.copy(), params)
        return out

    def _start(self, rows: Rows, params: TensorDictBase, members: Tensor | None) -> State:
        """The states that rows begin with, ``[N, L, H]``, ``[R, N, L, H]`` for an ensemble."""
        cells, count, ensemble = cells_of(self.memory), len(rows.reset), params.batch_size
        shape, lead = (cells.num_layers, cells.hidden_size), rows.states.batch_size[:-1]
        start = []
        for key in self.state_keys:
            found = rows.stored.get(key)
            if found is None:
                found = rows.reset.new_zeros((), dtype=_dtype(params)).expand(*lead, *shape)
            elif members is not None and found.ndim == len(lead) + 3:
                found = found.index_select(-3, members)
            wanted = {(*lead, *shape), (*lead, *ensemble, *shape)}
            if tuple(found.shape) not in wanted:
                raise BatchError(
                    f"the state {key!r} has the shape {list(found.shape)} at the first step, wanted"
                    f" {' or '.join(str(list(each)) for each in sorted(wanted, key=len))}"
                )
            if not ensemble:
                start.append(found.reshape(count, *shape))
                continue
            if found.ndim == len(lead) + 2:
                found = found.unsqueeze(-3).expand(*lead, *ensemble, *shape)
            start.append(found.reshape(count, *ensemble, *shape).transpose(0, 1))
        return tuple(start)

    def _embed(
        self, states: TensorDictBase, params: TensorDictBase, vmap: Mapping[str, Any]
    ) -> tuple[Tensor, TensorDictBase]:
        """Inputs of the memory, ``[R?, N, T, I]``, and all that the embedding writes."""
        key, each = self.memory.in_keys[0], (*params.batch_size, *states.batch_size)
        if not len(self.embedding.module):
            written = states
        elif params.batch_size and next(iter(self.embedding.parameters()), None) is not None:
            written = self.run_of_each(self.embedding, states.expand(*each), params, **vmap)
        else:
            with params.to_module(self.network, preserve_module_state=False):
                written = self.embedding(states.copy())
        written = written.select(key, *self.embedding.out_keys)
        if written.batch_size != torch.Size(each):
            written = written.expand(*each)
        inputs = written.get(key)
        return inputs.reshape(*params.batch_size, -1, *inputs.shape[-2:]), written

    def _encoded(
        self, h: Tensor, written: TensorDictBase, params: TensorDictBase
    ) -> TensorDictBase:
        """What the memory and the embedding write for the head, the networks last."""
        output = unravel_key(self.memory.out_keys[0])
        entries = written.copy().set(output, h[..., -1, :].reshape(*written.batch_size, -1))
        if params.batch_size:
            time = written.ndim - 1
            entries = entries.apply(lambda each: each.movedim(0, time), batch_size=[])
            entries.batch_size = written.batch_size[1:]
        return entries


def _flat(network: TensorDictModuleBase) -> Iterator[TensorDictModuleBase]:
    if isinstance(network, TensorDictSequential):
        for part in network.module:
            yield from _flat(part)
    else:
        yield network


def _has_memory(part: TensorDictModuleBase) -> bool:
    return any(isinstance(each, Memory) for each in part.modules())


def _dtype(params: TensorDictBase) -> torch.dtype:
    return next(iter(params.values(True, True))).dtype


def _at_rest(states: TensorDictBase, stored: Mapping[NestedKey, Tensor]) -> Tensor:
    """Where a row may begin an episode: no previous action and no stored state, ``[*, 1]``."""
    lead = states.batch_size[:-1]
    previous = states.select("prev_action", strict=False)
    entries = [value.select(len(lead), 0) for value in previous.values(True, True)]
    rest = torch.ones(*lead, 1, dtype=torch.bool, device=states.get("is_init").device)
    for entry in (*entries, *stored.values()):
        rest = rest & (entry.reshape(*lead, -1) == 0).all(-1, keepdim=True)
    return rest
