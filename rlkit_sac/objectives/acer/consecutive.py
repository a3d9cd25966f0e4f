"""A check that the steps of a row follow each other."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.checks.batch import can_read


def check_consecutive(batch: TensorDictBase, cut: Tensor, valid: Tensor | None) -> None:
    """Refuse rows that go from one trajectory to another where no episode ends.

    Trajectories are told apart by ``("collector", "traj_ids")``. Rows without these ids, on
    another device than the CPU or in compiled graphs are not checked.

    Args:
        batch: ``[*, T]``.
        cut: bool ``[*, T]``, where a step need not be followed by its successor.
        valid: bool ``[*, T]``, or ``None`` where every step is valid.

    Raises:
        BatchError: naming the first such row and step.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> batch = TensorDict({("collector", "traj_ids"): torch.tensor([[5, 6]])}, batch_size=[1, 2])
    >>> check_consecutive(batch, torch.zeros(1, 2, dtype=torch.bool), None)
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: step 1 of row [0] does not follow step 0: they are of ...
    """
    ids = batch.get(("collector", "traj_ids"), None)
    if ids is None or not can_read(cut) or not can_read(ids):
        return
    follows = ~cut[..., :-1] if valid is None else ~cut[..., :-1] & valid[..., :-1]
    broken = follows & (ids.reshape(batch.batch_size).diff() != 0)
    if not bool(broken.any()):
        return
    *row, step = broken.nonzero()[0].tolist()
    raise BatchError(
        f"step {step + 1} of row {row} does not follow step {step}: they are of different "
        "trajectories. Retrace needs consecutive steps along the last dimension: draw segments "
        "(TrajectorySampler), or slices (SliceSampler) and reshape them to [B, T]"
    )
