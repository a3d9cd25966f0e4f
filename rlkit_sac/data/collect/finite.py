"""Refusing NaN and infinity before they reach replay."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import NestedKey, TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.data.collect.policy_entries import next_key, state_keys
from rlkit_sac.errors import RunError


def check_finite(
    batch: TensorDictBase, *, states: Sequence[NestedKey] = (), first_index: int = 0
) -> None:
    """Refuse collected frames that hold NaN or infinity; one would make all parameters NaN.

    Args:
        batch: frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        states: entries under ``"next"`` that the policy writes, not the environment.
        first_index: of the environments.

    Raises:
        RunError: naming the first entry of the earliest frame, the environment and the frame: that
            of the episode, by ``step_count``, or else that of the batch.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> batch = TensorDict(reward=torch.tensor([[1.0], [torch.nan]]), batch_size=[2])
    >>> check_finite(batch)
    Traceback (most recent call last):
    rlkit_sac.errors.RunError: 'reward' is nan at frame 2 of the batch in environment 0. ...
    """
    steps = batch.shape[-1]
    floats = [(key, value) for key, value in batch.items(True, True) if value.is_floating_point()]
    # A GPU is waited for once.
    if not floats or torch.stack([value.isfinite().all() for _, value in floats]).all():
        return
    found = []
    for key, value in floats:
        values = value.reshape(batch.numel() // steps, steps, -1)
        if bad := (~values.isfinite()).nonzero().tolist():
            index = min(bad, key=lambda index: index[1])
            found.append((index, key, values[tuple(index)].item()))
    (env, step, _), key, number = min(found, key=lambda each: each[0][1])
    frame = f"frame {step + 1} of the batch"
    if (counts := batch.get("step_count", None)) is not None:
        frame = f"frame {int(counts.reshape(-1, steps)[env, step]) + 1} of its episode"
    of_policy = key[0] in ("action", "behavior") or key in ("action", *map(next_key, states))
    why = "The environment returned it: correct it there"
    if of_policy:
        why = (
            "The policy computed it: its parameters are no longer finite; lower the learning "
            "rates, or limit the gradients"
        )
    raise RunError(f"{key!r} is {number} at {frame} in environment {first_index + env}. {why}")


def check_frames(
    batch: TensorDictBase, env: EnvBase, policy: object, *, first_index: int = 0
) -> None:
    """As :func:`check_finite`, for what comes from an environment and its policy.

    Args:
        batch: frames that the policy collected in the environment.
        env: of the frames.
        policy: whose ``in_keys`` are checked, and the state of its memory after each step.
        first_index: of the environments.
    """
    states = state_keys(policy)
    read = dict.fromkeys([*env.observation_keys, *getattr(policy, "in_keys", ())])
    after = [next_key(key) for key in (*env.reward_keys, *read)]
    # In the order of a step: what was observed, the action upon it, what the step returned.
    kept = batch.select(*read, *env.action_keys, "behavior", *after, strict=False)
    # The state before a step is that after the last one, or zero.
    check_finite(kept.exclude(*states), states=states, first_index=first_index)
