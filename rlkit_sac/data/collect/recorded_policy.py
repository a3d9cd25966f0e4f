"""A policy whose tensor operations are recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type

from rlkit_sac.graph import Fingerprint, FlatGraph, NotRecordable, preserve_state, record

Entries = dict[NestedKey, Tensor]

_MAX_RECORDINGS = 50


@dataclass(eq=False, repr=False)
class RecordedPolicy:
    """Replays the tensor operations of a policy, recorded once, on its live parameters.

    For a single observation, the Python of modules, TensorDicts and distributions takes several
    times as long as the operations of a small network. The recorded operations are those of the
    policy, in the same order: results and random numbers are bit for bit the same. They are
    recorded anew when shapes or types of the entries, the exploration type, or a number, flag or
    tensor of the policy change. A policy that cannot be recorded is called instead.

    Args:
        policy: the acting module.
        batch_size: batch size of the entries that it reads.
        exploration_type: exploration type of the policy; None for the type set at each call.

    >>> from torchrl.modules import Actor
    >>> policy = RecordedPolicy(Actor(torch.nn.Linear(3, 1)), [2])
    >>> policy({"observation": torch.zeros(2, 3)})["action"].shape
    torch.Size([2, 1])
    """

    policy: TensorDictModuleBase
    batch_size: Sequence[int]
    _: KW_ONLY
    exploration_type: ExplorationType | None = None

    def __post_init__(self) -> None:
        self.in_keys: tuple[NestedKey, ...] = tuple(self.policy.in_keys)
        self._kind: object = None
        self._fingerprint = Fingerprint(self.policy)
        self._made = 0
        self._run: Callable[[Sequence[Tensor]], Entries] = self._run_eager

    def __call__(self, entries: Mapping[NestedKey, Tensor], *, unchanged: bool = False) -> Entries:
        """Return the entries that the policy writes.

        Args:
            entries: the entries of ``in_keys`` or more, each with the batch size in front.
            unchanged: if true, only values of parameters can have changed since the last call.

        Returns:
            What the policy writes; it may share memory with the entries.
        """
        inputs = [entries[key] for key in self.in_keys]
        if unchanged:
            return self._run(inputs)
        mode = self.exploration_type or exploration_type()
        kind = (mode, *((value.shape, value.dtype) for value in inputs))
        if kind != self._kind or self._fingerprint.first_changed_attribute() is not None:
            self._made += 1
            self._mode = mode
            may = self._made <= _MAX_RECORDINGS
            self._run = self._record(inputs) if may else self._run_eager
            self._kind, self._fingerprint = kind, Fingerprint(self.policy)
        return self._run(inputs)

    def _run_eager(self, inputs: Sequence[Tensor]) -> Entries:
        entries = dict(zip(self.in_keys, inputs, strict=True))
        with torch.no_grad(), set_exploration_type(self._mode):
            out = self.policy(TensorDict(entries, batch_size=torch.Size(self.batch_size)))
        return {key: value for key, value in out.items(True, True) if value is not entries.get(key)}

    def _record(self, inputs: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Entries]:
        written: list[NestedKey] = []

        def act() -> list[Tensor]:
            out = self._run_eager(inputs)
            written.extend(out)
            return list(out.values())

        state = [*self.policy.parameters(), *self.policy.buffers()]
        before = Fingerprint(self.policy)
        try:
            with preserve_state(self.policy):
                recording = record(act, [*inputs, *state])
                # Such as a counter, which a graph would not advance.
                if before.first_changed_attribute() is not None:
                    return self._run_eager
            line = FlatGraph(recording, inputs)
        except (NotRecordable, AttributeError):  # the latter for graphs of another PyTorch
            return self._run_eager

        def run(values: Sequence[Tensor]) -> Entries:
            return dict(zip(written, line(*values), strict=True))

        # Values that left PyTorch would be constants of the recording: compare on other entries.
        others = [value * 0.9 + 0.1 if value.is_floating_point() else value for value in inputs]
        outcomes = []
        for way in (self._run_eager, run):
            with preserve_state(self.policy):
                outcomes.append(way(others))
        same = all(torch.equal(value, outcomes[1][key]) for key, value in outcomes[0].items())
        return run if same else self._run_eager
