"""Transitions of several steps, which a replay buffer makes of the frames that it is given."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase, unravel_key
from torch import Tensor
from torch.nn.functional import pad
from torchrl.envs import Transform

from rlkit_sac.data.entries import NestedEntries
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.valid_steps import TRAJECTORY, drop_invalid

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
    whatever comes between. Where the next entries of a frame are not those of the following one,
    as with a second collector, which numbers from 0 again, windows that are not whole are dropped;
    so are frames of the trajectory -1 and those that ``("collector", "mask")`` excludes. A row is
    stored when its last frame has come; until then the frames are in the ``state_dict``. A batch
    that has ``steps_to_next_obs`` is stored as it is.

    Args:
        n_steps: n, at least 1.
        gamma: discount per frame, that of the loss.

    Raises:
        BatchError: by ``extend``, for frames without ``("collector", "traj_ids")``.

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
        self._agree = False  # whether next entries of a frame were those of the frame after it

    def mark_gap(self) -> None:
        """Forget the frames that wait for later ones, which will not come."""
        self._waiting = None

    def get_extra_state(self) -> dict[str, Any]:
        """Return the frames that wait for later ones."""
        return {} if self._waiting is None else self._waiting.to_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue with the frames of a state."""
        self._waiting = TensorDict(state).auto_batch_size_(1) if state else None
        self._agree = bool(state)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase | None:
        if tensordict.get(STEPS, None) is not None:
            return tensordict  # of a checkpoint, or from before the run
        if tensordict.get(TRAJECTORY, None) is None:
            raise BatchError(f"no entry {TRAJECTORY}: use batch.select(*in_keys, {TRAJECTORY})")
        tensordict = drop_invalid(tensordict)
        dims, device = tensordict.ndim - 1, tensordict.device
        frames = {key: each.flatten(0, dims) for key, each in tensordict.items(True, True)}
        if self._waiting is not None:
            before = self._waiting.to(device) if device else self._waiting
            frames = {key: torch.cat([before.get(key), each]) for key, each in frames.items()}
        trajectories, order = frames[TRAJECTORY].flatten().sort(stable=True)
        done = frames["next", "done"].flatten()[order]
        reward = frames["next", "reward"][order]
        is_newest = pad(trajectories.diff() != 0, (0, 1), value=True)
        follows = ~(is_newest | done)[:-1] & ~self._discontinuities(frames, order)
        total, steps = reward.clone(), torch.ones_like(order)
        for k in range(1, min(self.n_steps, len(order))):
            grows = (steps[:-k] == k) & follows[k - 1 :]
            steps[:-k] += grows
            total[:-k] += self.gamma**k * torch.where(grows.unsqueeze(-1), reward[k:], 0.0)
        last = torch.arange(len(order), device=order.device) + steps - 1
        whole = (steps == self.n_steps) | done[last]
        rest, first, last = order[~whole & is_newest[last]], order[whole], order[last[whole]]
        waiting = [each[rest] for each in frames.values()]
        self._waiting = NestedEntries(list(frames))(waiting, rest.shape, device)
        if not len(first):
            return None
        del frames[TRAJECTORY]
        rows = {key: each[last if key[0] == "next" else first] for key, each in frames.items()}
        rows["next", "reward"], rows[STEPS] = total[whole], steps[whole]
        return NestedEntries(list(rows))(list(rows.values()), first.shape, device)

    def _discontinuities(self, frames: dict[NestedKey, Tensor], order: Tensor) -> Tensor:
        """Return a mask of the frames that the next frame does not continue.

        Another episode begins there, or next entries differ from the frame after. The latter counts
        only once some have agreed.
        """
        begins = frames.get("is_init", torch.zeros_like(order)).flatten()[order[1:]].bool()
        differs = torch.zeros_like(begins)
        for key, now in frames.items():
            after = frames.get(unravel_key(("next", key)))
            if after is not None:
                after, now = after[order[:-1]], now[order[1:]]
                same = torch.isclose(after, now, equal_nan=True)  # computed values are rounded
                differs |= ~same.unsqueeze(-1).flatten(1).all(-1)
        self._agree = self._agree or not bool(differs.all())
        return begins | differs if self._agree else begins


def n_step_example(transition: TensorDictBase) -> TensorDictBase:
    """Return an example transition, as a :class:`NStepTransform` makes it.

    >>> n_step_example(TensorDict(observation=torch.zeros(3)))["steps_to_next_obs"]
    tensor(1)
    """
    return transition.exclude(TRAJECTORY).set(STEPS, torch.ones((), dtype=torch.int64))
