"""The example transition that determines what replay stores."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.data.collect.policy_entries import next_key, state_keys, written_entries
from rlkit_sac.valid_steps import TRAJECTORY


def example_transition(
    env: EnvBase,
    keys: Iterable[NestedKey],
    *,
    policy: TensorDictModuleBase | None = None,
    random_policy: TensorDictModuleBase | None = None,
) -> TensorDictBase:
    """One transition with the entries that replay will store, and arbitrary values.

    Args:
        env: the environment frames come from, batched or not.
        keys: entries to keep, such as a loss's ``in_keys``.
        policy: acts in the environment. What it writes can be kept, and the state of its memory
            before the step.
        random_policy: writes entries that are not the environment's, see
            :func:`~rlkit_sac.data.make_collector`. Neither of them draws random numbers here.

    Returns:
        A TensorDict without batch dimensions.

    >>> from rlkit_sac.envs import make_env
    >>> example_transition(make_env("Pendulum-v1"), ["observation"])["observation"].shape
    torch.Size([3])
    """
    frame = env.fake_tensordict()
    for each in (policy, random_policy):
        if each is not None:
            frame.update(written_entries(each, frame))
    for key in state_keys(policy):
        frame.set(key, torch.zeros_like(frame[next_key(key)]))
    frame.set(TRAJECTORY, torch.zeros(frame.shape, dtype=torch.int64))
    return frame.select(*keys)[(0,) * frame.ndim]
