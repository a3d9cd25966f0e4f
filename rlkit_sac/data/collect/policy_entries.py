"""The entries that a policy writes, and those that it carries from step to step."""

from __future__ import annotations

from typing import cast

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor, nn

from rlkit_sac.graph import preserve_state


def next_key(key: NestedKey) -> tuple[str, ...]:
    """Return the key of an entry after the step.

    >>> next_key("observation"), next_key(("prev_action", "discrete"))
    (('next', 'observation'), ('next', 'prev_action', 'discrete'))
    """
    return ("next", key) if isinstance(key, str) else ("next", *key)


def state_keys(policy: object) -> list[NestedKey]:
    """Return the keys of a policy's memory, which it reads and also writes under ``"next"``.

    Args:
        policy: the policy; without ``in_keys`` and ``out_keys`` it has no memory.

    >>> from rlkit_sac.modules.memory import GRUMemory
    >>> state_keys(GRUMemory(3, 8, in_key="observation", out_key="memory"))
    ['recurrent_state']
    """
    written = [unravel_key(key) for key in getattr(policy, "out_keys", ())]
    read = map(unravel_key, getattr(policy, "in_keys", ()))
    return [key for key in read if next_key(key) in written]


def written_entries(policy: TensorDictModuleBase, frame: TensorDictBase) -> dict[NestedKey, Tensor]:
    """Return the entries that a policy writes, without changing it, its input or random generators.

    Args:
        policy: the policy, which is called once, with a state of zeros if it has memory.
        frame: the other entries that it reads.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.memory import GRUMemory
    >>> memory = GRUMemory(3, 8, in_key="observation", out_key="memory")
    >>> frame = TensorDict(observation=torch.zeros(3), is_init=torch.tensor([True]))
    >>> {key: list(value.shape) for key, value in written_entries(memory, frame).items()}
    {'memory': [8], ('next', 'recurrent_state'): [1, 8]}
    """
    states = state_keys(policy)
    read = [key for key in map(unravel_key, policy.in_keys) if key not in states]
    with preserve_state(cast(nn.Module, policy)), torch.no_grad():
        written = policy(frame.select(*read))
    return {key: value for key, value in written.items(True, True) if key not in read}
