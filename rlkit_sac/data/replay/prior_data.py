"""Transitions from before the run: in the buffer at first, or in a share of each batch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import Transform

from rlkit_sac.errors import ConfigError


class PriorShare(Transform):
    """Lets a replay buffer complete its batches by transitions that it does not hold.

    Its state is a checksum of them, which are not stored again.

    Args:
        prior: a buffer of these, whose batches come after those of the buffer itself, without
            ``index``.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.data import make_replay_buffer
    >>> prior = TensorDict(observation=torch.ones(9, 3), batch_size=[9])
    >>> buffer = make_replay_buffer(prior[0], capacity=100, batch_size=4, prior_data=prior,
    ...                             prior_share=0.5)
    >>> _ = buffer.extend(TensorDict(observation=torch.zeros(20, 3), batch_size=[20]))
    >>> buffer.sample()["observation"][:, 0]
    tensor([0., 0., 1., 1.])
    """

    inexact_reasons: list[str]

    def __init__(self, prior: TensorDictReplayBuffer) -> None:
        super().__init__()
        self._prior, self.inexact_reasons = prior, []

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A batch, with those of the prior data at its end."""
        return torch.cat([tensordict.exclude("index"), self._prior.sample().exclude("index")])

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The checksum of the transitions."""
        rows, digest = self._prior.storage[:].cpu(), hashlib.sha256()
        for key in sorted(rows.keys(True, True), key=str):
            digest.update(rows.get(key).contiguous().numpy())
        return {"sha256": digest.hexdigest()}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Compare the transitions with those of the run before it was stopped."""
        if state_dict["sha256"] != self.state_dict()["sha256"]:
            self.inexact_reasons = ["replay.prior_data holds other transitions than before"]


def fitting(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Transitions with the entries that replay stores.

    Args:
        data: ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: if an entry is missing or of another shape or type.

    >>> from tensordict import TensorDict
    >>> fitting(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
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
    return rows.select(*example.keys(True, True))
