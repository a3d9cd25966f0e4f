"""Transitions from before the run."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlkit_sac.data.replay.n_steps import STEPS
from rlkit_sac.errors import ConfigError
from rlkit_sac.valid_steps import drop_invalid


def fitting(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Transitions with the entries that replay stores, without steps that are not valid.

    Args:
        data: ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: if there are none, or an entry is missing, of another shape or type, or not
            finite; or if they are of several steps, but the example is of one.

    >>> from tensordict import TensorDict
    >>> fitting(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
    if not data.batch_size.numel():
        raise ConfigError(f"the prior data have no transition, but the shape {list(data.shape)}")
    rows = drop_invalid(data).reshape(-1)
    steps = rows.get(STEPS, torch.ones(len(rows), dtype=torch.int64))
    if example.get(STEPS, None) is not None:
        rows = rows.copy().set(STEPS, steps)
    elif (steps > 1).any():
        raise ConfigError(f"the prior data are of {steps.max()} steps: set n_steps above 1")
    entries = dict(rows.items(True, True))
    for key, wanted in example.items(True, True):
        found = entries.get(key)
        there = "missing" if found is None else f"{found.dtype} {list(found.shape[1:])}"
        here = f"{wanted.dtype} {list(wanted.shape)}"
        if there != here:
            raise ConfigError(
                f"the prior data do not fit the task: {key!r} is {there} there and {here} here"
            )
        if not entries[key].isfinite().all():
            raise ConfigError(f"the prior data have NaN or infinity in {key!r}: leave these out")
    return rows.select(*example.keys(True, True))
