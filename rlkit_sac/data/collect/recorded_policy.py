"""A policy without the Python around its tensor operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type

from rlkit_sac.graph import Fingerprint, FlatGraph, NotRecordable, preserve_state, record

Entries = dict[NestedKey, Tensor]

_MOST_RECORDINGS = 50


class RecordedPolicy:
    """Carries out the operations that a policy was seen to do, on its live parameters.

    Modules, TensorDicts and distributions cost several times what the operations of a small network
    do for one observation. The operations are those of the policy itself, in their order, so they
    give the same bits and draw the same random numbers. They are recorded anew when the entries
    have other shapes, when a number, flag or tensor that the policy holds is exchanged, or when the
    exploration type is another. A policy that cannot be recorded acts as it is.

    Args:
        policy: the acting module.
        batch_size: of the entries it reads.
        exploration_type: in which the policy acts; None for that of the moment.

    >>> from torchrl.modules import Actor
    >>> policy = RecordedPolicy(Actor(torch.nn.Linear(3, 1)), [2])
    >>> policy({"observation": torch.zeros(2, 3)})["action"].shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        policy: TensorDictModuleBase,
        batch_size: Sequence[int],
        *,
        exploration_type: ExplorationType | None = None,
    ) -> None:
        self.in_keys: tuple[NestedKey, ...] = tuple(policy.in_keys)
        self._policy = policy
        self._batch_size = torch.Size(batch_size)
        self._exploration_type = exploration_type
        self._kind: object = None
        self._fingerprint = Fingerprint(policy)
        self._made = 0
        self._run: Callable[[Sequence[Tensor]], Entries] = self._as_it_is

    def __call__(self, entries: Mapping[NestedKey, Tensor], *, unchanged: bool = False) -> Entries:
        """Act.

        Args:
            entries: at least those of ``in_keys``, each with the batch size in front.
            unchanged: whether nothing but values of parameters can be another since the last call.

        Returns:
            What the policy writes; it may share memory with the entries.
        """
        inputs = [entries[key] for key in self.in_keys]
        if unchanged:
            return self._run(inputs)
        mode = self._exploration_type or exploration_type()
        kind = (mode, *((value.shape, value.dtype) for value in inputs))
        if kind != self._kind or self._fingerprint.change() is not None:
            self._made += 1
            self._mode = mode
            may = self._made <= _MOST_RECORDINGS
            self._run = self._recorded(inputs) if may else self._as_it_is
            self._kind, self._fingerprint = kind, Fingerprint(self._policy)
        return self._run(inputs)

    def _as_it_is(self, inputs: Sequence[Tensor]) -> Entries:
        entries = dict(zip(self.in_keys, inputs, strict=True))
        with torch.no_grad(), set_exploration_type(self._mode):
            out = self._policy(TensorDict(entries, batch_size=self._batch_size))
        return {key: value for key, value in out.items(True, True) if value is not entries.get(key)}

    def _recorded(self, inputs: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Entries]:
        written: list[NestedKey] = []

        def act() -> list[Tensor]:
            out = self._as_it_is(inputs)
            written.extend(out)
            return list(out.values())

        state = [*self._policy.parameters(), *self._policy.buffers()]
        before = Fingerprint(self._policy)
        try:
            with preserve_state(self._policy, inputs):
                recording = record(act, [*inputs, *state])
                if before.change() is not None:  # as of a counter, which a graph would not move
                    return self._as_it_is
        except NotRecordable:
            return self._as_it_is
        line = FlatGraph(recording, inputs)

        def run(values: Sequence[Tensor]) -> Entries:
            return dict(zip(written, line(*values), strict=True))

        # Values that leave PyTorch unseen would be those of the recorded entries: try others.
        others = [value * 0.9 + 0.1 if value.is_floating_point() else value for value in inputs]
        outcomes = []
        for way in (self._as_it_is, run):
            with preserve_state(self._policy, inputs):
                outcomes.append(way(others))
        same = all(torch.equal(value, outcomes[1][key]) for key, value in outcomes[0].items())
        return run if same else self._as_it_is
