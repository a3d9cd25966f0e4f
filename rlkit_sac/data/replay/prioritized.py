"""Prioritized sampling from replay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchrl.data import PrioritizedSampler as TorchRLPrioritizedSampler
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.data.replay.slices import BlockSampler, StatefulSampler
from rlkit_sac.data.replay.sum_tree import SumTree
from rlkit_sac.errors import RunError


# TorchRL's buffers hand priorities on only to instances of TorchRL's class. Its constructor and sum
# trees are not wanted here (they need a compiled extension), so it is a base in name alone.
@TorchRLPrioritizedSampler.register
class PrioritizedSampler(StatefulSampler):
    r"""Draws transitions in proportion to their last error, with importance weights.

    Transition :math:`i` of N is drawn with the probability :math:`P(i)`, with replacement, and
    comes with the importance weight :math:`w_i`, ``priority_weight``:

    .. math::
        P(i) &= \frac{(p_i + \varepsilon)^\alpha}{\sum_j (p_j + \varepsilon)^\alpha} \\
        w_i &= (N P(i))^{-\beta}, \qquad
            \beta = \beta_0 + (1 - \beta_0) \min(1, \text{frames} / \text{beta\_frames})

    where :math:`p_i` is the last error of the loss, and for a new transition the largest priority
    so far. With :math:`\beta = 1` weighted means over samples are unbiased estimates of the uniform
    mean. The weights are not divided by their maximum: losses divide by their sum. Source: Schaul
    et al. 2016 (arXiv:1511.05952), algorithm 1, proportional.

    It also works in TorchRL's replay buffers, where ``isinstance`` takes it for TorchRL's own
    `PrioritizedSampler`, which needs a compiled extension. The weights lie in a
    :class:`~rlkit_sac.data.replay.sum_tree.SumTree`.

    Args:
        capacity: transitions of the buffer.
        alpha: exponent of priorities, at least 0; 0 samples uniformly.
        beta: initial exponent of importance weights, from 0 to 1.
        beta_frames: transitions stored until ``beta`` has risen to 1; None keeps it constant.
        eps: added to each priority, so that every transition can be drawn.
        steps: the layout of stacked frames in the buffer, such as a
            :class:`~rlkit_sac.data.StepSampler`. Transitions whose earlier frames were overwritten
            are not drawn.
        device: the device of the priorities and of the storage.

    Attributes:
        frames: transitions stored so far.

    >>> from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    >>> from tensordict import TensorDict
    >>> replay = TensorDictReplayBuffer(
    ...     storage=LazyTensorStorage(100), sampler=PrioritizedSampler(100), batch_size=4
    ... )
    >>> _ = replay.extend(TensorDict(reward=torch.zeros(10), batch_size=[10]))
    >>> batch = replay.sample()
    >>> batch["priority_weight"]
    tensor([1., 1., 1., 1.])
    >>> replay.update_tensordict_priority(batch.set("td_error", torch.ones(4)))
    """

    frames: int
    reduction = "max"  # of priorities [B, T], by TorchRL's buffers
    _largest: float

    def __init__(
        self,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        beta_frames: int | None = None,
        eps: float = 1e-6,
        steps: BlockSampler | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self._capacity, self._alpha, self._eps = capacity, alpha, eps
        self.steps = steps
        self._left_out = 0 if steps is None else steps.frames_back
        self._first_beta, self._beta_frames = beta, beta_frames
        self._device = torch.device(device)
        self._empty()

    @property
    def beta(self) -> float:
        """The present exponent of importance weights."""
        if self._beta_frames is None:
            return self._first_beta
        return self._first_beta + (1 - self._first_beta) * min(1, self.frames / self._beta_frames)

    @property
    def default_priority(self) -> float:
        """The priority of a new transition: the largest so far, 1 before the first."""
        return self._largest

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return indices ``[batch_size]``, and their importance weights as ``priority_weight``.

        Raises:
            RuntimeError: for an empty storage, as TorchRL's samplers do.
        """
        if not len(storage):
            raise RuntimeError("Cannot sample from an empty storage.")
        index, probability = self._tree.draw(batch_size, generator=self._rng)
        weight = probability.mul_(len(storage)).pow_(-self.beta)
        return index, {"priority_weight": weight.to(torch.get_default_dtype())}

    def add(self, index: int | Tensor) -> None:
        """Give a new transition the largest priority so far."""
        self.extend(torch.as_tensor(index).reshape(-1))

    def extend(self, index: Tensor) -> None:
        """Give new transitions at indices ``[n]`` the largest priority so far."""
        index = index.to(self._device)
        weight = (self._largest + self._eps) ** self._alpha
        self._tree.set(index, torch.full(index.shape, weight, **self._tree.options))
        self.frames += len(index)
        self._leave_out_oldest()

    def update_priority(
        self, index: int | Tensor, priority: float | Tensor, *, storage: Storage | None = None
    ) -> None:
        """Set the priorities of some transitions; the largest counts where an index is repeated.

        Args:
            index: the indices ``[n]``.
            priority: the priorities ``[n]``, or one for all.
            storage: not needed.

        Raises:
            RunError: for a priority that is NaN, infinite or negative, or 0 while ``eps`` is 0.
        """
        index = torch.as_tensor(index, device=self._device).reshape(-1)
        priority = torch.as_tensor(priority, **self._tree.options).detach()
        priority = priority.reshape(-1).expand(len(index))
        lowest, highest = torch.stack(torch.aminmax(priority)).tolist()  # both NaN if any is
        if not (lowest >= 0 and lowest + self._eps > 0 and highest < math.inf):
            raise RunError(
                f"the priorities are from {lowest} to {highest}, wanted finite ones "
                f"{'>= 0' if self._eps else '> 0'}: lower the learning rates or scale the rewards"
            )
        self._tree.set(index, (priority + self._eps) ** self._alpha)
        self._leave_out_oldest()
        self._largest = max(self._largest, highest)

    def state_dict(self) -> dict[str, Any]:
        """Priorities and counters."""
        stored = min(self.frames, self._capacity)
        return {
            "frames": self.frames,
            "largest": self._largest,
            "tree": self._tree.state_dict(stored),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state, with the exponents this sampler was given."""
        self.frames, self._largest = state_dict["frames"], state_dict["largest"]
        self._tree.load_state_dict(state_dict["tree"])

    def _leave_out_oldest(self) -> None:
        if self._left_out and self.frames > self._capacity:
            oldest = torch.arange(self.frames, self.frames + self._left_out, device=self._device)
            self._tree.set(oldest % self._capacity, oldest.new_zeros(1).expand(self._left_out))

    def _empty(self) -> None:
        self._tree = SumTree(self._capacity, device=self._device)
        self._largest = 1.0
        self.frames = 0
