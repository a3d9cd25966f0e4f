"""Construction of replay buffers, with prior data and a check that they fit into memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.envs import DeviceCastTransform, EnvBase

from rlkit_sac.data.collect.policy_entries import next_key, state_keys, written_entries
from rlkit_sac.data.entries import row_layout
from rlkit_sac.data.replay.memmap import make_memmap_storage
from rlkit_sac.data.replay.n_steps import STEPS, NStepTransform, n_step_example
from rlkit_sac.data.replay.packed_buffer import PackedReplayBuffer, PriorShare
from rlkit_sac.data.replay.prioritized import PrioritizedSampler
from rlkit_sac.data.replay.slices import BlockSampler
from rlkit_sac.data.replay.stacked_frames import StackedFrames, newest_frames
from rlkit_sac.errors import ConfigError
from rlkit_sac.valid_steps import TRAJECTORY, drop_invalid

StorageKind = Literal["tensor", "memmap"]

_MEMINFO = Path("/proc/meminfo")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def example_transition(
    env: EnvBase,
    keys: Iterable[NestedKey],
    *,
    policy: TensorDictModuleBase | None = None,
    random_policy: TensorDictModuleBase | None = None,
) -> TensorDictBase:
    """Return one transition with the entries that replay will store, and arbitrary values.

    No random numbers are drawn.

    Args:
        env: the environment of the frames, batched or not.
        keys: the keys to keep, such as the ``in_keys`` of a loss.
        policy: the acting policy. The entries that it writes can be kept, and the state of its
            memory before the step.
        random_policy: the policy of random frames, which may write further entries, see
            :func:`~rlkit_sac.data.make_collector`.

    Returns:
        A TensorDict without batch dimensions.

    >>> from rlkit_sac.envs import make_env
    >>> example_transition(make_env("Pendulum-v1"), ["observation"])["observation"].shape
    torch.Size([3])
    """
    frame = env.fake_tensordict()
    for actor in (policy, random_policy):
        if actor is not None:
            frame.update(written_entries(actor, frame))
    for key in state_keys(policy):
        frame.set(key, torch.zeros_like(frame[next_key(key)]))
    frame.set(TRAJECTORY, torch.zeros(frame.shape, dtype=torch.int64))
    return frame.select(*keys)[(0,) * frame.ndim]


def make_replay_buffer(
    example: TensorDictBase,
    *,
    capacity: int,
    batch_size: int,
    storage: StorageKind = "tensor",
    directory: Path | None = None,
    device: torch.device | str = "cpu",
    sampler: Sampler | None = None,
    n_steps: int = 1,
    gamma: float = 0.99,
    prior_data: TensorDictBase | None = None,
    prior_share: float | None = None,
) -> TensorDictReplayBuffer:
    """Make a replay buffer that samples with replacement and overwrites the oldest transitions.

    Indices are drawn from torch's global generator. Sampled batches lie on ``device``. Pass batches
    on which a loss wrote its errors to ``update_tensordict_priority(batch)``, which does nothing
    with uniform sampling.

    Args:
        example: one transition without batch dimensions, as it will be stored.
        capacity: transitions the buffer holds.
        batch_size: number of transitions, slices or segments in a sample.
        storage: ``"tensor"`` on ``device``, or ``"memmap"`` in files. Default: ``"tensor"``.
        directory: empty or new directory of the files; None for temporary ones, which disappear
            with the process. Only for ``"memmap"``.
        device: the device of the batches, and of a ``"tensor"`` storage. Default: CPU.
        sampler: a sampler that draws by priorities
            (:class:`~rlkit_sac.data.PrioritizedSampler`), or draws slices
            (:class:`~rlkit_sac.data.SliceSampler`) or segments of episodes
            (:class:`~rlkit_sac.data.TrajectorySampler`). Default: single transitions, uniformly.
            If its ``frame_stack`` K is above 1 (also a :class:`~rlkit_sac.data.StepSampler` has
            one), the stacks ``[K, H, W, ...]`` that :class:`~rlkit_sac.envs.FrameStack` makes are
            stored as single images and stacked again in each sample
            (:class:`~rlkit_sac.data.replay.stacked_frames.StackedFrames`).
        n_steps: number of steps of a transition. Above 1, a transition is stored when its last
            frame has come, see :class:`~rlkit_sac.data.NStepTransform`, and the frames for
            ``extend`` need ``("collector", "traj_ids")``. Default: 1.
        gamma: the discount of the loss, for the rewards of these steps. Default: 0.99.
        prior_data: transitions ``[*]`` from before, with the entries of ``example`` or more.
        prior_share: the share of each batch that is drawn uniformly from the prior data (1/2 in
            RLPD, Ball et al. 2023, arXiv:2302.02948). Needs uniform sampling and a ``"tensor"``
            storage; the data are then not in the buffer. Default: the data are put into the
            buffer, and overwritten first.

    Raises:
        ConfigError: as :func:`check_replay_fits`; if files cannot take their space on the disk;
            if stacks do not fit the example; for ``n_steps`` or prior data together with slices
            or stacks; if prior data do not fit the example or the capacity; or for a
            ``prior_share`` without uniform sampling from a ``"tensor"`` storage.

    >>> from tensordict import TensorDict
    >>> buffer = make_replay_buffer(TensorDict(observation=torch.zeros(3)), capacity=100,
    ...                             batch_size=8)
    >>> _ = buffer.extend(TensorDict(observation=torch.rand(20, 3), batch_size=[20]))
    >>> buffer.sample()["observation"].shape
    torch.Size([8, 3])
    """
    steps = sampler.steps if isinstance(sampler, PrioritizedSampler) else sampler
    blocks = steps if isinstance(steps, BlockSampler) else None
    if blocks is not None:
        if n_steps > 1 or prior_data is not None:
            text = "leave them out with slices, segments or stacked frames"
            raise ConfigError(f"n_steps above 1 and prior_data are for single transitions: {text}")
        example = newest_frames(example, blocks.frame_stack)
    if n_steps > 1:
        example = n_step_example(example)
    check_replay_fits(example, capacity=capacity, storage=storage, device=device)
    prior = None
    if prior_share is not None and (prior_data is None or sampler or storage != "tensor"):
        raise ConfigError("prior_share needs prior_data, no sampler, and the storage 'tensor'")
    if prior_data is not None:
        prior_data = fit_to_example(prior_data, example)
        if prior_share is not None:
            prior, prior_data = PriorShare(prior_data, prior_share, device=device), None
        elif len(prior_data) > capacity:
            raise ConfigError(
                f"the prior data are {len(prior_data):,} transitions, more than the {capacity:,} "
                "that the buffer holds: raise its capacity, or set prior_share"
            )
    buffer: TensorDictReplayBuffer
    if storage == "tensor":
        buffer = PackedReplayBuffer(
            capacity=capacity, batch_size=batch_size, device=device, sampler=sampler, prior=prior
        )
    else:
        files = make_memmap_storage(example, capacity=capacity, directory=directory)
        buffer = TensorDictReplayBuffer(storage=files, sampler=sampler, batch_size=batch_size)
    if blocks is not None and blocks.frame_stack > 1:
        buffer.append_transform(StackedFrames(buffer, blocks))
    if n_steps > 1:
        buffer.append_transform(NStepTransform(n_steps, gamma))
    if storage == "memmap" and torch.device(device).type != "cpu":
        buffer.append_transform(DeviceCastTransform(device, orig_device="cpu"))
    if prior_data is not None:
        buffer.extend(prior_data)
    return buffer


def fit_to_example(data: TensorDictBase, example: TensorDictBase) -> TensorDictBase:
    """Return transitions with the entries that replay stores, without steps that are not valid.

    Args:
        data: the transitions ``[*]``.
        example: one transition without batch dimensions, as it will be stored.

    Returns:
        The transitions ``[n]``.

    Raises:
        ConfigError: if there are no transitions; if an entry is missing, of another shape or type,
            or not finite; or for transitions of several steps where the example has one.

    >>> from tensordict import TensorDict
    >>> fit_to_example(TensorDict(a=torch.zeros(2), batch_size=[2]), TensorDict(b=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the prior data do not fit the task: 'b' is missing there and ...
    """
    if not data.batch_size.numel():
        raise ConfigError(f"the prior data have no transition, but the shape {list(data.shape)}")
    rows = drop_invalid(data).reshape(-1)
    steps = rows.get(STEPS, torch.ones(len(rows), dtype=torch.int64))
    if example.get(STEPS, None) is not None:
        rows = rows.copy().set(STEPS, steps)
    elif (steps > 1).any():
        raise ConfigError(f"the prior data are of {steps.max()} steps: set n_steps above 1")
    entries = dict(rows.items(True, True))
    for key, expected in example.items(True, True):
        entry = entries.get(key)
        there = "missing" if entry is None else f"{entry.dtype} {list(entry.shape[1:])}"
        here = f"{expected.dtype} {list(expected.shape)}"
        if there != here:
            raise ConfigError(
                f"the prior data do not fit the task: {key!r} is {there} there and {here} here"
            )
        if not entries[key].isfinite().all():
            raise ConfigError(f"the prior data have NaN or infinity in {key!r}: leave these out")
    return rows.select(*example.keys(True, True))


def check_replay_fits(
    example: TensorDictBase,
    *,
    capacity: int,
    storage: StorageKind = "tensor",
    device: torch.device | str = "cpu",
) -> None:
    """Check that a replay buffer fits into memory before it is filled.

    A buffer in files reserves its space on the disk when it is made, and fails there.

    Args:
        example: one transition without batch dimensions, as it will be stored.
        capacity: transitions the buffer holds.
        storage: ``"tensor"`` on ``device``, or ``"memmap"`` in files. Default: ``"tensor"``.
        device: the device of a ``"tensor"`` storage. Default: CPU.

    Raises:
        ConfigError: if the buffer is larger than the free memory (the largest capacity that fits is
            named), or the storage is unknown.

    >>> from tensordict import TensorDict
    >>> check_replay_fits(TensorDict(observation=torch.zeros(3)), capacity=10**14)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: a replay buffer of 100000000000000 transitions needs ...
    """
    if storage == "memmap":
        return
    if storage != "tensor":
        raise ConfigError(f"the replay storage is {storage!r}; it must be 'tensor' or 'memmap'")
    row, free = row_layout(example).width, free_device_memory(device)
    needed = capacity * row
    if free is not None and needed > free:
        raise ConfigError(
            f"a replay buffer of {capacity} transitions needs {needed / 2**30:.2f} GiB, but "
            f"{device} has {free / 2**30:.2f} GiB free: a capacity of {free // row} fits"
        )


def free_device_memory(device: torch.device | str) -> int | None:
    """Return the bytes that new tensors on ``device`` can take; None where unknown.

    A CUDA device has its own memory. Other devices use the memory of the host, which Linux reports
    as available without swapping, or the limit of a container if that is less.

    Args:
        device: the device of the tensors.

    >>> free = free_device_memory("cpu")
    >>> free is None or free > 0
    True
    """
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if not _MEMINFO.exists():
        return None
    (available,) = re.findall(r"^MemAvailable: +(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)
    limit = _CONTAINER_LIMIT.read_text().strip() if _CONTAINER_LIMIT.exists() else "max"
    free = int(available) * 1024
    return free if limit == "max" else min(free, int(limit))
