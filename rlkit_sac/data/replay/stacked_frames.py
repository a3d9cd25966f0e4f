"""Stacks of frames in replay, which stores each frame once."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import Transform

from rlkit_sac.data.replay.slices import BlockSampler
from rlkit_sac.errors import ConfigError

_HISTORY = "frame_history"


def newest_frames(transitions: TensorDictBase, frame_stack: int) -> TensorDictBase:
    """Return transitions ``[*]`` as replay stores them: of each stack the newest frame.

    Stacks are the entries ``[*, K, H, W]`` or with further dimensions, of uint8 or bool, before and
    after the step. The entry ``frame_history``, uint8 ``[*]``, tells how many of the frames before
    the newest one are those of the steps before: the others repeat the oldest of these.

    Args:
        transitions: any, with stacks unless ``frame_stack`` is 1.
        frame_stack: frames K of a stack; with 1 nothing is changed.

    Raises:
        ConfigError: there are no stacks of so many frames.

    >>> from tensordict import TensorDict
    >>> stack = torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1).expand(4, 84, 84)
    >>> stored = newest_frames(TensorDict(observation=stack), 4)
    >>> stored["observation"].shape, stored["frame_history"]
    (torch.Size([84, 84]), tensor(3, dtype=torch.uint8))
    """
    if frame_stack == 1:
        return transitions
    dims, stored = transitions.ndim, transitions.copy()
    stacks = {
        key: value
        for key, value in transitions.items(True, True)
        if value.dtype in (torch.uint8, torch.bool) and value.ndim > dims + 2
    }
    if not stacks or any(value.shape[dims] != frame_stack for value in stacks.values()):
        found = {key: list(value.shape[dims:]) for key, value in stacks.items()}
        raise ConfigError(
            f"frame_stack is {frame_stack}, but the images of a transition have the shapes {found}:"
            f" make the environment with make_env(frame_stack={frame_stack})"
        )
    repeated: Tensor | bool = True
    for key, value in stacks.items():
        stored.set(key, value.select(dims, -1))
        if key[0] != "next":
            same = value.narrow(dims, 1, frame_stack - 1) == value.narrow(dims, 0, 1)
            repeated = same.flatten(dims + 1).all(-1) & repeated
    assert isinstance(repeated, Tensor)
    history = frame_stack - 1 - repeated.cumprod(-1).sum(-1)
    return stored.set(_HISTORY, history.to(torch.uint8))


class StackedFrames(Transform):
    r"""Lets a replay buffer store each frame once, and stacks them in samples.

    Of a transition :math:`t` the buffer stores the newest frames of :math:`s` and of :math:`s'`,
    and the number :math:`h` of earlier ones (:func:`newest_frames`). Sampled stacks of K are

    .. math::
        s &= (x_{t - \min(K - 1, h)}, \dots, x_{t - \min(1, h)}, x_t) \\
        s' &= (s_2, \dots, s_K, x'_t)

    with the frames :math:`x` of the same environment, bit for bit those that were given. Samplers
    must leave out transitions whose earlier frames were overwritten.

    Args:
        replay: the buffer to which this transform is appended.
        steps: the layout of the frames in the buffer, with the size of a stack.

    Raises:
        ConfigError: in ``extend``, for another number of frames, or without stacks.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage
    >>> from rlkit_sac.data import StepSampler
    >>> sampler = StepSampler(capacity=100, num_envs=1, frame_stack=2)
    >>> replay = TensorDictReplayBuffer(
    ...     storage=LazyTensorStorage(100), sampler=sampler, batch_size=4
    ... )
    >>> _ = replay.append_transform(StackedFrames(replay, sampler))
    >>> stack = torch.zeros(3, 2, 84, 84, dtype=torch.uint8)
    >>> following = TensorDict(observation=stack, batch_size=[3])
    >>> _ = replay.extend(TensorDict(observation=stack, next=following, batch_size=[3]))
    >>> replay.storage[:]["observation"].shape, replay.sample()["next", "observation"].shape
    (torch.Size([3, 84, 84]), torch.Size([4, 2, 84, 84]))
    """

    def __init__(self, replay: TensorDictReplayBuffer, steps: BlockSampler) -> None:
        super().__init__()
        self._replay, self._layout, self._count = replay, steps, steps.frame_stack

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a sample with stacks."""
        stored, dims = self._replay.storage[:], tensordict.ndim
        history = tensordict.pop(_HISTORY).long()
        rows = self._stack_indices(tensordict.get("index"), history)
        for key, image in tensordict.exclude("next").items(True, True):
            if image.dtype in (torch.uint8, torch.bool) and image.ndim > dims + 1:
                frames = stored.get(key).index_select(0, rows.flatten())
                stack = frames.unflatten(0, rows.shape)
                newest = tensordict.get(("next", key)).unsqueeze(dims)
                tensordict.set(key, stack)
                following = torch.cat([stack.narrow(dims, 1, self._count - 1), newest], dims)
                tensordict.set(("next", key), following)
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if _HISTORY in tensordict.keys():  # noqa: SIM118 (as a checkpoint has it)
            return tensordict
        self._layout.check_block(len(tensordict))
        return newest_frames(tensordict, self._count)

    def _stack_indices(self, index: Tensor, history: Tensor) -> Tensor:
        """Return the indices ``[*, K]`` of stacked frames, from indices and histories ``[*]``."""
        capacity, newest = self._replay.storage.max_size, self._replay.write_count - 1
        block, steps = self._layout.block, self._layout.steps
        # Counted back from the newest frame: blocks, environments and steps end there.
        frames = ((newest - index) % capacity).unsqueeze(-1)
        env = frames % block // steps
        step = frames // block * steps + frames % steps
        back = torch.arange(self._count - 1, -1, -1, device=index.device)
        step = step + torch.minimum(back, history.unsqueeze(-1))
        frames = step // steps * block + env * steps + step % steps
        return (newest - frames) % capacity
