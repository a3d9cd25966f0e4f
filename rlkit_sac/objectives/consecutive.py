"""Which steps of a row follow each other."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.errors import BatchError


def cut_steps(done: Tensor, valid: Tensor | None) -> Tensor:
    """Return the steps ``[*, T, 1]`` after which the trajectory does not go on in the row."""
    if valid is None:
        return done
    last, invalid = torch.zeros_like(done[..., -1:, :]), ~valid.unsqueeze(-1)
    return done | invalid | torch.cat([invalid[..., 1:, :], last], -2)


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

    >>> from tensordict import TensorDict
    >>> following = TensorDict(position=torch.tensor([[6, 7, 9]]), batch_size=[1, 3])
    >>> batch = TensorDict(position=torch.tensor([[5, 6, 8]]), next=following, batch_size=[1, 3])
    >>> check_consecutive("TD(lambda)", batch, ["position"], torch.zeros(1, 3, 1), None)
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: TD(lambda) needs rows [*, T] of consecutive steps, but step 2 ...
    """
    follows, index = ~cut_steps(done.bool(), valid)[..., :-1, 0], batch.get("index", None)
    pairs = [(batch["next"][..., :-1].get(key), batch[..., 1:].get(key)) for key in keys]
    # Masks and flags are not compared: they tell little of a state.
    pairs = [(a, b) for a, b in pairs if a.shape == b.shape and a.dtype != torch.bool]
    changed = [(a != b) & ~a.isnan() for a, b in pairs]
    if not changed or not bool(follows.any()):
        return
    moves = None if index is None else index.reshape(*done.shape[:-1], -1)[..., 0].diff()[follows]
    moves_alike = moves is not None and bool((moves == moves.median()).float().mean() > 0.3)
    differs = torch.cat([change.reshape(*follows.shape, -1) for change in changed], -1)[follows]
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
