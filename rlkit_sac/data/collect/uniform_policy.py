"""Uniform actions, among those that masks allow."""

from __future__ import annotations

from typing import Any

from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Composite
from torchrl.envs import EnvBase
from torchrl.modules import RandomPolicy

from rlkit_sac.envs import action_mask_key


class UniformAllowed(TensorDictModuleBase):
    """Draws from the action space, the discrete action among those that a mask allows.

    A row that allows nothing, as that of an environment elsewhere, allows everything.

    Args:
        spec: the spec of all parts of the action, ``[*]``.
        mask_key: key of the mask, bool ``[*, K]``.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> from torchrl.data import Categorical
    >>> policy = UniformAllowed(Composite(action=Categorical(3)), "action_mask")
    >>> policy(TensorDict(action_mask=torch.tensor([False, True, False])))["action"]
    tensor(1)
    """

    def __init__(self, spec: Composite, mask_key: NestedKey) -> None:
        super().__init__()
        self._spec = spec.clone()
        has_parts = isinstance(self._spec["action"], Composite)
        self._discrete = self._spec["action", "discrete"] if has_parts else self._spec["action"]
        self.in_keys = [mask_key]
        self.out_keys = list(spec.keys(True, True))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action into ``tensordict`` and return it."""
        mask = tensordict.get(self.in_keys[0]).bool()
        self._discrete.update_mask(mask | ~mask.any(-1, keepdim=True))
        return tensordict.update(self._spec.rand())


def uniform_policy(env: EnvBase, spec: Composite) -> Any:
    """Return a policy for the random frames of an environment.

    Args:
        env: the environment of the frames.
        spec: the spec of its actions, or of the actions of more environments.
    """
    mask_key = action_mask_key(env)
    return RandomPolicy(spec) if mask_key is None else UniformAllowed(spec, mask_key)
