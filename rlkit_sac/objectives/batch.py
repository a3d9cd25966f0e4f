"""The entries of a batch that a loss reads, and the checks of these entries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.previous_step import is_previous_step_key, next_state_entry

try:
    from torch.fx.experimental.proxy_tensor import get_proxy_mode as _proxy_mode
except ImportError:  # it is not public; without it, losses that read values run uncompiled
    _proxy_mode: Callable[[], None] = lambda: None  # type: ignore[no-redef]  # noqa: E731


@dataclass(frozen=True)
class Transitions:
    """A batch ``[*]`` that has been checked.

    Attributes:
        batch: the entries that the losses read, with zeros in invalid steps.
        states: the inputs of networks and priors at s.
        next_states: the inputs of networks and priors at s'.
        valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.
    """

    batch: TensorDictBase
    states: TensorDictBase
    next_states: TensorDictBase
    valid: Tensor | None


class TransitionKeys:
    """The keys of the entries that a loss reads from transitions.

    Args:
        tensor_keys: the accepted keys of the loss.
        actions: the name of the accepted key of each part of the action, by the part's entry.
        networks: the entries that the networks read.
        priors: the entries that the priors read.
        outcomes: the names of the accepted keys that are read only under ``next``.
        recurrent: whether a network has a memory.

    Attributes:
        actions: the names of accepted keys, as above.
        outcomes: the name of the accepted key of each outcome, by the outcome's entry.
        states: the entries that are read at a state.
        next_states: the entries that are read under ``next``. For priors and memories, entries that
            describe the previous step are computed from the transition itself, see
            :func:`next_state_entry`.
    """

    def __init__(
        self,
        tensor_keys: Any,
        actions: Mapping[NestedKey, str],
        networks: Iterable[NestedKey],
        priors: Iterable[NestedKey] = (),
        *,
        outcomes: Iterable[str],
        recurrent: bool,
    ) -> None:
        self.actions = actions
        self.outcomes = {
            unravel_key(("next", getattr(tensor_keys, role))): role for role in outcomes
        }
        self._done = unravel_key(("next", tensor_keys.done))
        self._unchecked = 100  # the number of batches whose steps are still compared
        self._steps_to_next_obs = tensor_keys.steps_to_next_obs
        network_keys = unravel_keys(*networks)
        self.states = [key for key in unravel_keys(*network_keys, *priors) if key not in actions]
        stored = [] if recurrent else network_keys
        self.next_states = [
            key for key in self.states if key in stored or not is_previous_step_key(key)
        ]

    def in_keys(self) -> list[NestedKey]:
        """Return every entry that the loss reads."""
        next_states = (("next", key) for key in self.next_states)
        return unravel_keys(*self.actions, *self.outcomes, *self.states, *next_states)

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
            tensordict: the batch ``[*]``.
            in_keys: the entries that the loss reads.
            valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.
            sequential: the name of the part of the loss that needs sequences ``[*, T]`` of single
                steps, for errors; empty if no part does.

        Raises:
            BatchError: for a missing entry or a wrong shape.
        """
        # A one-step target has no use for `done`: only `terminated` stops the bootstrap.
        required = [key for key in in_keys if sequential or key != self._done]
        check_entries(tensordict, required, {**self.outcomes, **self.actions})
        if tensordict.get(steps := self._steps_to_next_obs, None) is not None:
            required.append(steps)
            previous = [key for key in self.states if key not in self.next_states]
            if sequential or previous:
                reader = sequential or f"a prior that reads {previous[0]!r}"
                raise BatchError(
                    f"{reader} needs transitions of one step, but the batch has {steps!r}, as "
                    "after TorchRL's MultiStepTransform: leave the transform out"
                )
        for key, role in self.outcomes.items():
            if role == "terminated" or (sequential and role == "done"):
                check_flag(tensordict, key, role)
        done = tensordict.get(self._done, None)
        if done is not None and can_read_values(done) and self._unchecked:
            self._unchecked -= 1
            if sequential:
                check_consecutive(sequential, tensordict, self.next_states, done, valid)
            elif steps in required:
                count = tensordict.get(steps).reshape(done.shape)
                if bool(((count > 1) & (count < count.max()) & ~done.bool()).any()):
                    text = "end early but are not done: give MultiStepTransform done_keys=[]"
                    warnings.warn(f"transitions of several steps {text}", stacklevel=2)
        batch = tensordict.select(*required)
        if valid is not None:
            batch = zero_invalid_steps(batch, valid)
        next_states = batch.get("next").select(*self.next_states)
        for key in self.states:
            if key not in self.next_states:
                next_states.set(key, next_state_entry(key, batch, list(self.actions)))
        return Transitions(batch, batch.select(*self.states), next_states, valid)


def detach_entries(states: TensorDictBase, keys: Collection[NestedKey]) -> TensorDictBase:
    """Return the states, without gradients of the entries with some keys."""
    return states.copy().update(states.select(*keys).detach()) if keys else states


def unravel_keys(*keys: NestedKey) -> list[NestedKey]:
    """Return the keys in TensorDict's canonical form, without duplicates.

    >>> unravel_keys("observation", ("observation",), ("next", ("reward",)))
    ['observation', ('next', 'reward')]
    """
    return list(dict.fromkeys(map(unravel_key, keys)))


_WRITERS = {
    "prev_action": "make_env does, elsewhere the transform rlkit_sac.envs.PreviousAction",
    "action_mask": "make_env does for a task that gives masks",
    "is_init": "make_env does, elsewhere TorchRL's transform InitTracker",
}


def check_entries(
    batch: TensorDictBase, keys: Iterable[NestedKey], roles: Mapping[NestedKey, str]
) -> None:
    """Refuse a batch without one of the keys.

    Args:
        batch: the batch, of any batch shape.
        keys: the required entries.
        roles: the argument of ``set_keys`` for a key, if there is one.

    Raises:
        BatchError: for a missing entry. The error lists the entries of the batch.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> check_entries(TensorDict(obs=torch.ones(1)), ["observation"], {})
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: the batch has no entry 'observation'; it holds 'obs'. \
Add it, or let the networks read what is there
    """
    present = batch.keys(include_nested=True)
    missing = [key for key in keys if key not in present]
    if not missing:
        return
    entries = ", ".join(sorted(repr(key) for key in batch.keys(True, True))) or "nothing"
    names = ", ".join(map(repr, missing))
    role = roles.get(missing[0])
    advice = f"name it with set_keys({role}=...)" if role else "let the networks read what is there"
    path = (missing[0],) if isinstance(missing[0], str) else missing[0]
    root = path[path[0] == "next"]
    if root in _WRITERS:
        advice = f"let the environment write it: {_WRITERS[root]}"
    raise BatchError(f"the batch has no entry {names}; it holds {entries}. Add it, or {advice}")


def find_sequence_ends(done: Tensor, valid: Tensor | None) -> Tensor:
    """Return the steps ``[*, T, 1]`` that the next step of their row does not continue."""
    if valid is None:
        return done
    last, invalid = torch.zeros_like(done[..., -1:, :]), ~valid.unsqueeze(-1)
    return done | invalid | torch.cat([invalid[..., 1:, :], last], -2)


def check_consecutive(
    user: str, batch: TensorDictBase, keys: Iterable[NestedKey], done: Tensor, valid: Tensor | None
) -> None:
    """Refuse rows whose steps are not consecutive.

    Two steps are consecutive if the next state of the first is the state of the second. A buffer's
    transforms may stack or shift observations when they are sampled. So if ``index``, the position
    in the storage, advances by the same number in a third of the steps, one equal number that a
    step changes is enough. Rows ``[*, T]`` without ``index`` in which no two steps are consecutive,
    such as random numbers, only cause a warning.

    Args:
        user: the name of the part of the loss that needs consecutive steps, for the error.
        batch: the batch ``[*, T]``.
        keys: the entries of the states.
        done: the ends of episodes, ``[*, T, 1]``; the next step is then not compared.
        valid: the valid steps, bool ``[*, T]``; ``None`` if every step is valid.

    Raises:
        BatchError: for rows that are not consecutive. The error names the first such step.

    >>> from tensordict import TensorDict
    >>> following = TensorDict(position=torch.tensor([[6, 7, 9]]), batch_size=[1, 3])
    >>> batch = TensorDict(position=torch.tensor([[5, 6, 8]]), next=following, batch_size=[1, 3])
    >>> check_consecutive("TD(lambda)", batch, ["position"], torch.zeros(1, 3, 1), None)
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: TD(lambda) needs rows [*, T] of consecutive steps, but step 2 ...
    """
    follows, index = ~find_sequence_ends(done.bool(), valid)[..., :-1, 0], batch.get("index", None)
    next_batch = batch["next"]
    # Masks and flags are not compared: two different states often have the same flags.
    compared = [key for key in keys if batch.get(key).dtype != torch.bool]
    compared = [key for key in compared if batch.get(key).shape == next_batch.get(key).shape]
    if not compared or not bool(follows.any()):
        return

    def numbers(steps: TensorDictBase) -> Tensor:
        entries = (steps.get(key).reshape(*follows.shape, -1) for key in compared)
        return torch.cat([*entries], -1)[follows]

    states, next_states, later_states = (
        numbers(steps) for steps in (batch[..., :-1], next_batch[..., :-1], batch[..., 1:])
    )
    moves = None if index is None else index.reshape(*done.shape[:-1], -1)[..., 0].diff()[follows]
    moves_evenly = moves is not None and bool((moves == moves.median()).float().mean() > 0.3)
    broken = ((next_states != later_states) & ~next_states.isnan()).any(-1)
    agree = (next_states == later_states) & (next_states != states)
    if not bool(broken.any()) or (moves_evenly and bool(agree.any())):
        return
    *row, step = follows.nonzero()[broken][0].tolist()
    text = (
        f"{user} needs rows [*, T] of consecutive steps, but step {step + 1} of row {row} does "
        f"not follow step {step}: draw slices or segments, and reshape them to [B, T]"
    )
    if index is not None or batch.ndim == 1 or not bool(broken.all()):
        raise BatchError(text)
    warnings.warn(text, stacklevel=2)


def check_flag(batch: TensorDictBase, key: NestedKey, role: str) -> None:
    """Refuse a flag whose shape is not ``[*batch, 1]``.

    Raises:
        BatchError: naming the entry, its shape and the expected shape.
    """
    shape = batch.get(key).shape
    if shape != (*batch.batch_size, 1):
        raise BatchError(
            f"{role} {key!r} has the shape {list(shape)}, wanted {[*batch.batch_size, 1]}: the "
            "batch's shape and one trailing dimension, as TorchRL's environments write it"
        )


def check_action(action: Tensor, sampled: Tensor, key: NestedKey) -> None:
    """Refuse actions whose shape differs from the policy's actions.

    Args:
        action: the actions of the batch.
        sampled: the actions of the policy at the same states.
        key: the key of the action in the batch.

    Raises:
        BatchError: naming both shapes.
    """
    if action.shape != sampled.shape:
        raise BatchError(
            f"action {key!r} has the shape {list(action.shape)}, but the actor's actions have "
            f"{list(sampled.shape)}"
        )


def check_index(action: Tensor, num_actions: int, batch_size: torch.Size, key: NestedKey) -> None:
    """Refuse discrete actions that are not one index for each step.

    The values of the indices are checked on the CPU only, since reading them from another device
    would synchronize with it, and not while a graph is compiled.

    Args:
        action: the actions of the batch.
        num_actions: the number of values that the critics write.
        batch_size: the batch size of the batch.
        key: the key of the discrete action in the batch.

    Raises:
        BatchError: naming the shape, the dtype or the index, and what to do.

    >>> check_index(torch.eye(3, dtype=torch.int64), 3, torch.Size([3]), "action")
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: action 'action' has the shape [3, 3], which looks one-hot: ...
    """
    got = f"action {key!r} has the shape {list(action.shape)}"
    wanted = f"wanted an index of the shape {list(batch_size)}"
    if action.shape != batch_size:
        if action.shape == (*batch_size, num_actions):
            raise BatchError(
                f"{got}, which looks one-hot: {wanted}. Take its argmax(-1), or make the "
                "environment write indices (GymEnv(..., categorical_action_encoding=True))"
            )
        raise BatchError(f"{got}, {wanted}")
    if action.is_floating_point() or action.is_complex():
        raise BatchError(
            f"action {key!r} is of dtype {action.dtype}: {wanted} and an integer dtype, from 0 to "
            f"{num_actions - 1}"
        )
    if not can_read_values(action):
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(action.long()))
    if lowest < 0 or highest >= num_actions:
        raise BatchError(
            f"action {key!r} holds the index {lowest if lowest < 0 else highest}: wanted indices "
            f"from 0 to {num_actions - 1}, one for each value that the critic writes"
        )


def can_read_values(entry: Tensor) -> bool:
    """Return whether a tensor's values may be read: it is on the CPU, and nothing is traced."""
    traced = torch.compiler.is_compiling() or _proxy_mode() is not None
    return entry.device.type == "cpu" and not traced and bool(entry.numel())


def check_reward(reward: Tensor, reward_weights: Tensor | None, batch: TensorDictBase) -> None:
    """Refuse rewards and reward weights whose shapes do not match.

    Args:
        reward: the reward, which must be ``[*batch, M]``.
        reward_weights: the weights, which must be ``[M]`` with M > 1, or ``None``.
        batch: the batch of the reward.

    Raises:
        BatchError: naming both shapes.
    """
    dimensions = reward.shape[-1] if reward.ndim == batch.ndim + 1 else None
    if dimensions is None or reward.shape[:-1] != batch.batch_size:
        raise BatchError(
            f"reward has the shape {list(reward.shape)}, wanted {[*batch.batch_size]} and one "
            "trailing dimension: 1 for a scalar reward, M for a vector one"
        )
    if reward_weights is not None and dimensions == 1:
        raise BatchError("reward_weights are for vector rewards, but the reward is a scalar")
    if reward_weights is not None and reward_weights.shape != (dimensions,):
        raise BatchError(
            f"reward_weights has the shape {list(reward_weights.shape)}, but the reward has "
            f"{dimensions} dimensions: wanted [{dimensions}]"
        )


def check_critic_values(
    values: Tensor, shape: Sequence[int], reward_dim: int, network: str = "qvalue_network"
) -> None:
    """Refuse values of critics whose shape does not match the rewards.

    Args:
        values: the values ``[R, ...]`` of R critics.
        shape: the shape that one critic's values must have.
        reward_dim: the number M of reward dimensions.
        network: the name of the network, for the error.

    Raises:
        BatchError: naming both shapes.
    """
    if values.shape[1:] != torch.Size(shape):
        raise BatchError(
            f"{network} wrote values of the shape {list(values.shape[1:])}, wanted "
            f"{list(shape)} for rewards of {reward_dim} dimensions: a critic needs one output "
            "for each reward dimension"
        )


def zero_invalid_steps(batch: TensorDictBase, valid: Tensor | None) -> TensorDictBase:
    """Return the batch with zeros in its invalid steps.

    To mask only the losses is not enough: a NaN in a padded observation reaches the gradients of
    the weights as ``0 * NaN``.
    """
    if valid is None:
        return batch

    def fill(entry: Tensor) -> Tensor:
        mask = valid.reshape(*valid.shape, *(1,) * (entry.ndim - valid.ndim))
        return torch.where(mask, entry, torch.zeros_like(entry))

    return batch.apply(fill)
