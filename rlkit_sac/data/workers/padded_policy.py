"""A policy that acts for the environments of all workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, unravel_key
from tensordict.nn import TensorDictModuleBase
from torch import Tensor


class PaddedPolicy(TensorDictModuleBase):
    """Acts for all of N environments, of which only some are here, and keeps what is for those.

    So it draws the random numbers, and computes each row by the same operations, as a policy that
    acts for N environments in one process. The entries of environments elsewhere are zeros.

    Args:
        policy: acts on entries ``[N, …]``.
        batch_size: of the environments that are here, ``[n]``, or ``[]`` for a single one.
        first: row of the first of them.
        count: number N.

    >>> from torchrl.modules import Actor
    >>> policy = PaddedPolicy(Actor(torch.nn.Linear(3, 1)), torch.Size([]), first=1, count=2)
    >>> policy(TensorDict(observation=torch.ones(3)))["action"].shape
    torch.Size([1])
    """

    def __init__(
        self, policy: Callable[..., Any], batch_size: torch.Size, *, first: int, count: int
    ) -> None:
        super().__init__()
        self.in_keys = [unravel_key(key) for key in getattr(policy, "in_keys", ())]
        self.out_keys = list(getattr(policy, "out_keys", ()))
        self.policy = policy
        self._before, self._after = first, count - first - batch_size.numel()
        self._count = count
        self._rows = slice(first, first + batch_size.numel()) if batch_size else first

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write what the policy writes into ``tensordict`` and return it."""
        # The state of a memory may be missing, which begins with zeros then.
        here = tensordict.select(*self.in_keys, strict=False)
        read = {key: self._pad(value) for key, value in here.items(True, True)}
        entries = TensorDict(read, batch_size=[self._count])
        for key, value in self.policy(entries).items(True, True):
            if value is not read.get(key):
                tensordict.set(key, value[self._rows])
        return tensordict

    def _pad(self, value: Tensor) -> Tensor:
        if not isinstance(self._rows, slice):
            value = value.unsqueeze(0)
        shape = value.shape[1:]
        before, after = (value.new_zeros(rows, *shape) for rows in (self._before, self._after))
        return torch.cat([before, value, after])
