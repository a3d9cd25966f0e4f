"""Checks of a batch, with one clear error for a missing or misshapen entry."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.errors import BatchError

try:
    from torch.fx.experimental.proxy_tensor import get_proxy_mode as _proxy_mode
except ImportError:  # it is not public; without it, losses that read values run uncompiled
    _proxy_mode: Callable[[], None] = lambda: None  # type: ignore[no-redef]  # noqa: E731

_WRITERS = {
    "prev_action": "make_env does, elsewhere the transform rlkit_sac.envs.PreviousAction",
    "action_mask": "make_env does for a task that gives masks",
    "is_init": "make_env does, elsewhere TorchRL's transform InitTracker",
}


def check_entries(
    batch: TensorDictBase, keys: Iterable[NestedKey], roles: Mapping[NestedKey, str]
) -> None:
    """Refuse a batch in which one of the keys is missing.

    Args:
        batch: any batch shape.
        keys: required entries.
        roles: the argument of ``set_keys`` for a key, if there is one.

    Raises:
        BatchError: naming the key, the entries of the batch and what to do.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> check_entries(TensorDict(obs=torch.ones(1)), ["observation"], {})
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: the batch has no entry 'observation'; it holds 'obs'. \
Add it, or let the networks read what is there
    """
    missing = [key for key in keys if not _holds(batch, key)]
    if not missing:
        return
    held = ", ".join(sorted(repr(key) for key in batch.keys(True, True))) or "nothing"
    names = ", ".join(map(repr, missing))
    role = roles.get(missing[0])
    mend = f"name it with set_keys({role}=...)" if role else "let the networks read what is there"
    root = missing[0] if isinstance(missing[0], str) else missing[0][0]
    if root in _WRITERS:
        mend = f"let the environment write it: {_WRITERS[root]}"
    raise BatchError(f"the batch has no entry {names}; it holds {held}. Add it, or {mend}")


def _holds(batch: TensorDictBase, key: NestedKey) -> bool:
    try:
        return batch.get(key, None) is not None
    except ValueError:  # a part of an entry that has none
        return False


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
    """Refuse actions whose shape differs from that of the policy's actions.

    Args:
        action: of the batch.
        sampled: of the policy, at the same states.
        key: of the action in the batch.

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
        action: of the batch.
        num_actions: number of values that the critics write.
        batch_size: of the batch.
        key: of the discrete action in the batch.

    Raises:
        BatchError: naming the shape, the dtype or the index, and what to do.

    >>> check_index(torch.eye(3, dtype=torch.int64), 3, torch.Size([3]), "action")
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: action 'action' has the shape [3, 3], which looks one-hot: ...
    """
    came = f"action {key!r} has the shape {list(action.shape)}"
    wanted = f"wanted an index of the shape {list(batch_size)}"
    if action.shape != batch_size:
        if action.shape == (*batch_size, num_actions):
            raise BatchError(
                f"{came}, which looks one-hot: {wanted}. Take its argmax(-1), or make the "
                "environment write indices (GymEnv(..., categorical_action_encoding=True))"
            )
        raise BatchError(f"{came}, {wanted}")
    if action.is_floating_point() or action.is_complex():
        raise BatchError(
            f"action {key!r} is of dtype {action.dtype}: {wanted} and an integer dtype, from 0 to "
            f"{num_actions - 1}"
        )
    if not can_read(action):
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(action.long()))
    if lowest < 0 or highest >= num_actions:
        raise BatchError(
            f"action {key!r} holds the index {lowest if lowest < 0 else highest}: wanted indices "
            f"from 0 to {num_actions - 1}, one for each value that the critic writes"
        )


def can_read(entry: Tensor) -> bool:
    """Whether values may be read: of a non-empty tensor on the CPU, while nothing is traced."""
    traced = torch.compiler.is_compiling() or _proxy_mode() is not None
    return entry.device.type == "cpu" and not traced and bool(entry.numel())


def check_reward(reward: Tensor, reward_weights: Tensor | None, batch: TensorDictBase) -> None:
    """Refuse rewards and reward weights whose shapes do not match.

    Args:
        reward: expected ``[*batch, M]``.
        reward_weights: expected ``[M]`` with M > 1, or ``None``.
        batch: the batch of the reward.

    Raises:
        BatchError: naming the given and the expected shape.
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


def check_values(
    values: Tensor, wanted: Sequence[int], reward_dim: int, network: str = "qvalue_network"
) -> None:
    """Refuse values of critics whose shape does not match the rewards.

    Args:
        values: ``[R, ...]`` of R critics.
        wanted: the expected shape of one critic's values.
        reward_dim: number M of reward dimensions.
        network: name of the network in the error.

    Raises:
        BatchError: naming both shapes.
    """
    if values.shape[1:] != torch.Size(wanted):
        raise BatchError(
            f"{network} wrote values of the shape {list(values.shape[1:])}, wanted "
            f"{list(wanted)} for rewards of {reward_dim} dimensions: a critic needs one output "
            "for each reward dimension"
        )
