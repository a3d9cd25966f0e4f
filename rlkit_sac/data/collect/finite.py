"""Refusing NaN and infinity before they reach replay."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensordict import NestedKey, TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.data.collect.policy_entries import next_key, state_keys
from rlkit_sac.errors import RunError

# In the order of a step; all other entries are from before it.
_SOURCES = {"action": 1, "behavior": 1, "next": 2}


def check_finite(
    batch: TensorDictBase,
    *,
    frames: int | None,
    states: Sequence[NestedKey] = (),
    first_index: int = 0,
    workers: int = 1,
) -> None:
    """Refuse collected frames that hold NaN or infinity; one would make all parameters NaN.

    Args:
        batch: frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        frames: frames of the run before this batch; ``None`` where they are not those of a run, to
            name the frame of the episode, by ``step_count``.
        states: entries under ``"next"`` that the policy writes, not the environment.
        first_index: of the environments.
        workers: that step as many environments each at the same time.

    Raises:
        RunError: naming the entry, the environment and the frame.

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
    of_policy = [next_key(key) for key in states]
    for key, value in batch.items(True, True):
        if not value.is_floating_point() or bool(value.isfinite().all()):
            continue
        bad = ~value.isfinite().reshape(-1, batch.shape[-1], *value.shape[batch.ndim :])
        env, t, *_ = min(bad.nonzero().tolist(), key=lambda index: index[1])
        number = value.reshape(bad.shape)[env, t][bad[env, t]].flatten()[0].item()
        source = _SOURCES["action"]
        if key not in of_policy:
            source = _SOURCES.get(key if isinstance(key, str) else key[0], 0)
        found.append((t, source, key, number, env))
    if not found:
        return
    # The cause comes first: what was observed, the action upon it, what the step returned.
    t, source, key, number, env = min(found, key=lambda each: each[:2])
    frames_of_all = batch.reshape(-1, batch.shape[-1])
    step, name = frames_of_all[env, t], first_index + env
    if frames is None:
        when = f"frame {int(step['step_count']) + 1} of its episode in environment {name}."
    else:
        frame = frames + (t + 1) * len(frames_of_all) * workers
        when = f"frame {frame} in environment {name}. It was not stored."
    why = "The environment returned it: correct it there"
    if source == _SOURCES["action"]:
        why = (
            "The policy computed it: its parameters are no longer finite; lower the learning "
            "rates, or limit the gradients"
        )
    elif source == 0 and step.get("is_init", False):
        why = "The environment returned it in the reset before that frame: correct it there"
    raise RunError(f"{key!r} is {number} at {when} {why}")


def check_frames(
    batch: TensorDictBase, env: EnvBase, policy: object, *, frames: int | None, **place: int
) -> None:
    """As :func:`check_finite`, for what comes from an environment and its policy.

    Args:
        batch: frames that the policy collected in the environment.
        env: of the frames.
        policy: whose ``in_keys`` are checked, and the state of its memory after each step.
        frames: as for `check_finite`.
        place: ``first_index`` and ``workers``, as for `check_finite`.
    """
    states = state_keys(policy)
    read = dict.fromkeys([*env.observation_keys, *getattr(policy, "in_keys", ())])
    after = [next_key(key) for key in (*env.reward_keys, *read)]
    kept = batch.select(*read, *env.action_keys, "behavior", *after, strict=False)
    # The state before a step is that after the last one, or zero.
    check_finite(kept.exclude(*states), frames=frames, states=states, **place)
