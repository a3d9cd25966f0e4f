"""Refusing NaN and infinity before they reach replay."""

from __future__ import annotations

import math

from tensordict import TensorDictBase

from rlkit_sac.errors import RunError


def check_finite(batch: TensorDictBase, *, frames: int) -> None:
    """Refuse collected frames that hold NaN or infinity; one would make all parameters NaN.

    Args:
        batch: frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        frames: frames of the run before this batch.

    Raises:
        RunError: naming the entry, the environment and the frame of the run.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> batch = TensorDict(reward=torch.tensor([[1.0], [torch.nan]]), batch_size=[2])
    >>> check_finite(batch, frames=10)
    Traceback (most recent call last):
    rlkit_sac.errors.RunError: 'reward' is nan at frame 12 in environment 0. ...
    """
    values = [value for value in batch.values(True, True) if value.is_floating_point()]
    # A sum with NaN or infinity is not finite; nor, rarely, is one of finite numbers.
    total = sum(value.sum() for value in values)
    if math.isfinite(total):
        return
    found = []
    for key, value in batch.items(True, True):
        if not value.is_floating_point() or bool(value.isfinite().all()):
            continue
        bad = ~value.isfinite().reshape(-1, batch.shape[-1], *value.shape[batch.ndim :])
        env, t, *_ = min(bad.nonzero().tolist(), key=lambda index: index[1])
        number = value.reshape(bad.shape)[env, t][bad[env, t]].flatten()[0].item()
        frame = frames + (t + 1) * bad.shape[0]
        found.append((frame, key, number, env))
    if found:
        frame, key, number, env = min(found, key=lambda each: each[0])  # the cause comes first
        of_policy = (key if isinstance(key, str) else key[0]) in ("action", "behavior")
        raise RunError(
            f"{key!r} is {number} at frame {frame} in environment {env}. It was not stored. "
            + (
                "The policy computed it: its parameters are no longer finite; lower the learning "
                "rates, or limit the gradients"
                if of_policy
                else "The environment returned it: correct it there"
            )
        )
