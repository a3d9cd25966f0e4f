"""What a policy with memory takes from one step to the next."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from gymnasium.spaces import Box, Dict, Space
from numpy.typing import NDArray
from tensordict import NestedKey
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.modules.memory import next_key, policy_states


class Carried(NamedTuple):
    """An entry that a policy reads, and writes for its next step.

    Attributes:
        read: its key.
        written: the key of its next value.
        space: of one value; float32 stands for the type of the policy.
    """

    read: NestedKey
    written: NestedKey
    space: Space[Any]

    def zeros(self, front: tuple[int, ...]) -> NDArray[Any]:
        """What an episode begins with, with a batch size in front."""
        return np.zeros((*front, *(self.space.shape or ())), self.space.dtype)

    def reset(self, value: Tensor, is_init: Tensor) -> Tensor:
        """The value, zero where an episode begins."""
        added = value.ndim - is_init.ndim
        return value.masked_fill(is_init.reshape((*is_init.shape, *(1,) * added)), 0)


def carried_entries(policy: TensorDictModuleBase, actions: Space[Any]) -> dict[str, Carried]:
    """The previous action, where a policy with memory reads it, and the states of its memory.

    Args:
        policy: any acting module; without memory it carries nothing.
        actions: the space of its actions, of
            :meth:`~rlkit_sac.envs.actions.ActionConversion.agent_space`.

    Returns:
        The entries by name, nested keys joined by dots.

    >>> from gymnasium.spaces import Discrete
    >>> from rlkit_sac.modules import categorical_actor
    >>> actor = categorical_actor(3, 2, memory={"kind": "gru", "num_actions": 2})
    >>> list(carried_entries(actor, Discrete(2)))
    ['prev_action', 'actor_state']
    """
    states = policy_states(policy)
    entries: dict[NestedKey, tuple[NestedKey, Space[Any]]] = {"prev_action": ("action", actions)}
    if isinstance(actions, Dict):
        parts = cast(Dict, actions["action"]).spaces
        entries = {("prev_action", name): (("action", name), parts[name]) for name in parts}
    entries |= {key: (next_key(key), Box(-np.inf, np.inf, shape)) for key, shape in states.items()}
    return {
        key if isinstance(key, str) else ".".join(key): Carried(key, *entries[key])
        for key in map(unravel_key, policy.in_keys if states else ())
        if key in entries
    }
