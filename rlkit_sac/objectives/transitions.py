"""The entries of a batch that a loss reads."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.checks import can_read, check_entries, check_flag, cut_steps, fill_invalid

#: At the next state they tell of the step of the batch.
PREVIOUS_ACTION, IS_INIT = "prev_action", "is_init"


@dataclass(frozen=True)
class Transitions:
    """A batch ``[*]`` that has been checked.

    Attributes:
        batch: the entries that the losses read, with zeros in invalid steps.
        states: the inputs of networks and priors at s.
        next_states: the same at s'.
        valid: bool ``[*]``; ``None`` if every step is valid.
    """

    batch: TensorDictBase
    states: TensorDictBase
    next_states: TensorDictBase
    valid: Tensor | None


class TransitionKeys:
    """The keys of the entries that a loss reads from transitions.

    Args:
        tensor_keys: of the loss.
        actions: the accepted key of each part of the action, by the entry that holds it.
        networks: entries that the networks read.
        priors: entries that the priors read.
        outcomes: the accepted keys of what is read under ``next`` alone.
        recurrent: whether a network has a memory.

    Attributes:
        states: entries that are read at a state.
        next_states: those that are read under ``next``. Entries that describe the previous step
            are computed from the transition itself for priors and memories, see
            :func:`one_step_later`.
    """

    def __init__(
        self,
        tensor_keys: Any,
        actions: Mapping[NestedKey, str],
        networks: Iterable[NestedKey],
        priors: Iterable[NestedKey] = (),
        *,
        outcomes: Sequence[str],
        recurrent: bool,
    ) -> None:
        self._actions, self._tensor_keys, self._outcomes = actions, tensor_keys, outcomes
        self._unchecked = 100  # batches, which are read to compare their steps
        of_networks = unraveled(*networks)
        self.states = [key for key in unraveled(*of_networks, *priors) if key not in actions]
        stored = [] if recurrent else of_networks
        self.next_states = [
            key for key in self.states if key in stored or not is_previous_step_key(key)
        ]

    def in_keys(self) -> list[NestedKey]:
        """Every entry that the loss reads."""
        following = (("next", key) for key in self.next_states)
        return unraveled(*self._actions, *self._ends(), *self.states, *following)

    def read(
        self,
        tensordict: TensorDictBase,
        in_keys: Sequence[NestedKey],
        valid: Tensor | None,
        *,
        sequential: str,
    ) -> Transitions:
        """Check a batch and select the entries that the loss reads.

        Args:
            tensordict: ``[*]``.
            in_keys: entries that the loss reads.
            valid: bool ``[*]``, the steps that are; ``None`` where all are.
            sequential: what needs sequences ``[*, T]`` of single steps; empty if nothing does.

        Raises:
            BatchError: naming the given and the expected entry or shape.
        """
        done = unravel_key(("next", self._tensor_keys.done))
        # A one-step target has no use for `done`: only `terminated` stops the bootstrap.
        required = [key for key in in_keys if sequential or key != done]
        check_entries(tensordict, required, {**self._ends(), **self._actions})
        if tensordict.get(steps := self._tensor_keys.steps_to_next_obs, None) is not None:
            required.append(steps)
            previous = [each for each in self.states if each not in self.next_states]
            if sequential or previous:
                what = sequential or f"a prior that reads {previous[0]!r}"
                raise BatchError(
                    f"{what} needs transitions of one step, but the batch has {steps!r}, as those "
                    "of TorchRL's MultiStepTransform: leave the transform out"
                )
        for key, role in self._ends().items():
            if role == "terminated" or (sequential and role == "done"):
                check_flag(tensordict, key, role)
        flag = tensordict.get(done, None)
        if flag is not None and can_read(flag) and self._unchecked:
            self._unchecked -= 1
            if sequential:
                check_consecutive(sequential, tensordict, self.next_states, flag, valid)
            elif steps in required:
                count = tensordict.get(steps).reshape(flag.shape)
                if bool(((count > 1) & (count < count.max()) & ~flag.bool()).any()):
                    text = "end early but are not done: give MultiStepTransform done_keys=[]"
                    warnings.warn(f"transitions of several steps {text}", stacklevel=2)
        batch = fill_invalid(tensordict.select(*required), valid)
        following = batch.get("next").select(*self.next_states)
        for key in self.states:
            if key not in self.next_states:
                following.set(key, one_step_later(key, batch, list(self._actions)))
        return Transitions(batch, batch.select(*self.states), following, valid)

    def _ends(self) -> dict[NestedKey, str]:
        keys = self._tensor_keys
        return {unravel_key(("next", getattr(keys, role))): role for role in self._outcomes}


def detached(states: TensorDictBase, keys: Collection[NestedKey]) -> TensorDictBase:
    """States of which some entries have no gradient.

    Args:
        states: ``[*]``.
        keys: of these entries.
    """
    return states.copy().update(states.select(*keys).detach()) if keys else states


def unraveled(*keys: NestedKey) -> list[NestedKey]:
    """The keys in TensorDict's canonical form, without duplicates.

    >>> unraveled("observation", ("observation",), ("next", ("reward",)))
    ['observation', ('next', 'reward')]
    """
    return list(dict.fromkeys(map(unravel_key, keys)))


def is_previous_step_key(key: NestedKey) -> bool:
    """Whether an entry of a state describes the previous step.

    >>> is_previous_step_key(("prev_action", "discrete")), is_previous_step_key("observation")
    (True, False)
    """
    return (key if isinstance(key, str) else key[0]) in (PREVIOUS_ACTION, IS_INIT)


def one_step_later(
    key: NestedKey, batch: TensorDictBase, action_keys: Sequence[NestedKey]
) -> Tensor | TensorDictBase:
    """The value at the next state of an entry that describes the previous step.

    Args:
        key: ``is_init``, false there; ``prev_action``, the action of the batch; or
            ``("prev_action", part)``, that part of it.
        batch: of transitions.
        action_keys: of the parts of its action.

    Raises:
        BatchError: for a part that the action does not have.
    """
    if key == IS_INIT:
        return torch.zeros_like(batch.get(key), dtype=torch.bool)
    if not isinstance(key, tuple) and len(action_keys) == 1:
        return batch.get(action_keys[0])
    parts = {unravel_key(each)[-1]: batch.get(each) for each in action_keys}
    if not isinstance(key, tuple):
        return TensorDict(parts, batch_size=batch.batch_size)
    if key[-1] not in parts:
        raise BatchError(
            f"a prior or memory reads {key!r}, but the parts of the action are {', '.join(parts)}: "
            "call them alike"
        )
    return parts[key[-1]]


def check_consecutive(
    what: str, batch: TensorDictBase, keys: Iterable[NestedKey], done: Tensor, valid: Tensor | None
) -> None:
    """Refuse rows in which a step is not the one that follows the step before it.

    It is where the next state of the one is the state of the other. As transforms of a buffer may
    stack or shift observations at sampling, some of their numbers suffice where ``index``, the
    place in the storage, moves alike in a third of the steps. Rows ``[*, T]`` without ``index`` of
    which no step follows, such as random numbers, are warned of.

    Args:
        what: needs such rows.
        batch: ``[*, T]``.
        keys: entries of the states.
        done: ``[*, T, 1]``, where a step need not be followed by its successor.
        valid: bool ``[*, T]``, or ``None`` where every step is valid.

    Raises:
        BatchError: naming the first such row and step.

    >>> following = TensorDict(position=torch.tensor([[6, 7, 9]]), batch_size=[1, 3])
    >>> batch = TensorDict(position=torch.tensor([[5, 6, 8]]), next=following, batch_size=[1, 3])
    >>> check_consecutive("TD(lambda)", batch, ["position"], torch.zeros(1, 3, 1), None)
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: TD(lambda) needs rows [*, T] of consecutive steps, but step 2 ...
    """
    follows, index = ~cut_steps(done.bool(), valid)[..., :-1, 0], batch.get("index", None)
    pairs = [(batch["next"][..., :-1].get(key), batch[..., 1:].get(key)) for key in keys]
    changed = [(a != b) & ~a.isnan() for a, b in pairs if a.shape == b.shape]
    if not changed or not bool(follows.any()):
        return
    moves = None if index is None else index.reshape(*done.shape[:-1], -1)[..., 0].diff()[follows]
    moves_alike = moves is not None and bool((moves == moves.median()).float().mean() > 0.3)
    differs = torch.cat([each.reshape(*follows.shape, -1) for each in changed], -1)[follows]
    broken = differs.any(-1)
    if not bool(broken.any()) or (moves_alike and not bool(differs.all())):
        return
    *row, step = follows.nonzero()[broken][0].tolist()
    text = (
        f"{what} needs rows [*, T] of consecutive steps, but step {step + 1} of row {row} does "
        f"not follow step {step}: draw slices or segments, and reshape them to [B, T]"
    )
    if index is not None or batch.ndim == 1 or not bool(broken.all()):
        raise BatchError(text)
    warnings.warn(text, stacklevel=2)
