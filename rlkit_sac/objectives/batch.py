"""Checks of a batch, with one clear error for a missing or misshapen entry."""

from collections.abc import Iterable, Mapping

from tensordict import NestedKey, TensorDictBase

from rlkit_sac.errors import BatchError


def check_entries(
    batch: TensorDictBase, keys: Iterable[NestedKey], roles: Mapping[NestedKey, str]
) -> None:
    """Refuse a batch that lacks one of ``keys``.

    Args:
        batch: any batch shape.
        keys: entries that must be there.
        roles: the name under which ``set_keys`` knows a key, where it knows it.

    Raises:
        BatchError: naming the key, what the batch holds and what to do.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> check_entries(TensorDict(obs=torch.ones(1)), ["observation"], {})
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: the batch has no entry 'observation'; it holds 'obs'. \
Add it, or let the networks read what is there
    """
    missing = [key for key in keys if batch.get(key, None) is None]
    if not missing:
        return
    held = ", ".join(sorted(repr(key) for key in batch.keys(True, True))) or "nothing"
    names = ", ".join(map(repr, missing))
    role = roles.get(missing[0])
    mend = f"name it with set_keys({role}=...)" if role else "let the networks read what is there"
    raise BatchError(f"the batch has no entry {names}; it holds {held}. Add it, or {mend}")


def check_flag(batch: TensorDictBase, key: NestedKey, role: str) -> None:
    """Refuse a flag of each step whose shape is not ``[*batch, 1]``.

    Raises:
        BatchError: naming the entry, its shape and the shape wanted.
    """
    shape = batch.get(key).shape
    if shape != (*batch.batch_size, 1):
        raise BatchError(
            f"{role} {key!r} has the shape {list(shape)}, wanted {[*batch.batch_size, 1]}: the "
            "batch's shape and one trailing dimension, as TorchRL's environments write it"
        )
