"""Transitions from before the run, which must fit the task."""

from __future__ import annotations

from tensordict import TensorDictBase

from rlkit_sac.errors import ConfigError


def fitting(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Transitions with the entries that replay stores.

    Args:
        data: ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: if there are none, or an entry is missing, of another shape or type, or not
            finite.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> fitting(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
    if not data.batch_size.numel():
        raise ConfigError(f"the prior data have no transition, but the shape {list(data.shape)}")
    rows = data.reshape(-1)
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
