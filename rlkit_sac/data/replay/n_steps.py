"""Transitions of several steps, which a replay buffer makes of the frames that it is given."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import Transform

from rlkit_sac.data.nested import NestedEntries
from rlkit_sac.errors import ConfigError

#: Entry that tells trajectories apart, as TorchRL's collectors write it.
TRAJECTORY = ("collector", "traj_ids")
#: Entry that counts the steps of a transition, as TorchRL's losses read it.
STEPS = "steps_to_next_obs"


class NStepTransform(Transform):
    r"""Makes transitions of n steps of the frames that extend a replay buffer.

    The row of the frame t is that of the state :math:`s_t` and the action :math:`a_t`, with

    .. math:: R_t = \sum_{k=0}^{m-1} \gamma^k r_{t+k}

    as its reward, m as ``steps_to_next_obs``, int64, and all else under ``"next"`` of the last of
    these m frames: the state :math:`s_{t+m}`, ``done`` and ``terminated``. m is n, or less where
    the trajectory is done before. Unlike TorchRL's ``MultiStepTransform`` with its default
    ``done_keys``, a window that reaches a terminal state is terminated.

    Frames come in batches of any shape with time in their last dimension, and leave as ``[n]``.
    ``("collector", "traj_ids")`` tells trajectories apart, which may go on in a later batch,
    whatever comes between. A row is stored when its last frame has come; until then the frames
    are in the ``state_dict``. A batch that has ``steps_to_next_obs`` is stored as it is.

    Args:
        n_steps: n, at least 1.
        gamma: discount per frame, that of the loss.

    Source: Sutton 1988; Hessel et al. 2018 (arXiv:1710.02298), section 3.

    >>> from torchrl.data import LazyTensorStorage, ReplayBuffer
    >>> replay = ReplayBuffer(storage=LazyTensorStorage(10), transform=NStepTransform(2, 0.5))
    >>> following = {"reward": torch.ones(3, 1), "done": torch.tensor([[False], [False], [True]])}
    >>> frames = TensorDict(a=torch.arange(3), next=following, batch_size=[3])
    >>> frames["collector", "traj_ids"] = torch.zeros(3, dtype=torch.int64)
    >>> _ = replay.extend(frames)
    >>> replay[:]["next", "reward"].flatten(), replay[:]["steps_to_next_obs"]
    (tensor([1.5000, 1.5000, 1.0000]), tensor([2, 2, 1]))
    """

    def __init__(self, n_steps: int, gamma: float) -> None:
        super().__init__()
        if n_steps < 1:
            raise ConfigError(f"n_steps must be at least 1, got {n_steps}")
        self.n_steps, self.gamma = n_steps, gamma
        self._waiting: TensorDictBase | None = None  # frames of windows that go on

    def cut(self) -> None:
        """Forget the frames that wait for later ones, which will not come."""
        self._waiting = None

    def get_extra_state(self) -> dict[str, Any]:
        """The frames that wait for later ones."""
        return {} if self._waiting is None else self._waiting.to_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue with the frames of a state."""
        self._waiting = TensorDict(state).auto_batch_size_(1) if state else None

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase | None:
        if tensordict.get(STEPS, None) is not None:
            return tensordict  # of a checkpoint, or from before the run
        dims, device = tensordict.ndim - 1, tensordict.device
        frames = {key: each.flatten(0, dims) for key, each in tensordict.items(True, True)}
        if self._waiting is not None:
            before = self._waiting.to(device) if device else self._waiting
            frames = {key: torch.cat([before.get(key), each]) for key, each in frames.items()}
        trajectories, order = frames[TRAJECTORY].sort(stable=True)
        done = frames["next", "done"].flatten()[order]
        reward = frames["next", "reward"][order]
        total, steps = reward.clone(), torch.ones_like(order)
        for k in range(1, min(self.n_steps, len(order))):
            grows = (steps[:-k] == k) & (trajectories[k:] == trajectories[:-k]) & ~done[k - 1 : -1]
            steps[:-k] += grows
            total[:-k] += self.gamma**k * torch.where(grows.unsqueeze(-1), reward[k:], 0.0)
        last = torch.arange(len(order), device=order.device) + steps - 1
        whole = (steps == self.n_steps) | done[last]
        rest, first, last = order[~whole], order[whole], order[last[whole]]
        waiting = [each[rest] for each in frames.values()]
        self._waiting = NestedEntries(list(frames))(waiting, rest.shape, device)
        if not len(first):
            return None
        del frames[TRAJECTORY]
        rows = {key: each[last if key[0] == "next" else first] for key, each in frames.items()}
        rows["next", "reward"], rows[STEPS] = total[whole], steps[whole]
        return NestedEntries(list(rows))(list(rows.values()), first.shape, device)


def several_steps(transition: TensorDictBase) -> TensorDictBase:
    """An example transition, as a :class:`NStepTransform` makes it.

    >>> several_steps(TensorDict(observation=torch.zeros(3)))["steps_to_next_obs"]
    tensor(1)
    """
    return transition.exclude(TRAJECTORY).set(STEPS, torch.ones((), dtype=torch.int64))
