"""Collecting frames with TorchRL's collector."""

from __future__ import annotations

from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.envs import EnvBase

from rlkit_sac.errors import ConfigError


def make_collector(
    env: EnvBase,
    policy: TensorDictModuleBase,
    *,
    total_frames: int,
    frames_per_batch: int,
    init_random_frames: int = 0,
) -> Collector:
    """A collector in this process that yields ``total_frames`` frames, the last batch whole.

    Args:
        env: batched or not; ``frames_per_batch`` counts the frames of all its environments.
        policy: acts on the environment's device; its parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames between two yields, a multiple of the number of environments.
        init_random_frames: first frames, in which actions are drawn from the action space; rounded
            up to whole batches.

    Raises:
        ConfigError: for a number of frames that the environments cannot share evenly.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> collector = make_collector(
    ...     make_env("Pendulum-v1"), policy, total_frames=6, frames_per_batch=2
    ... )
    >>> [list(batch.shape) for batch in collector]
    [[2], [2], [2]]
    """
    num_envs = env.batch_size.numel()
    if frames_per_batch % num_envs:
        raise ConfigError(
            f"frames_per_batch is {frames_per_batch}, but {num_envs} environments step together: "
            f"choose a multiple of {num_envs}"
        )
    return Collector(
        env,
        policy,
        total_frames=-(-total_frames // frames_per_batch) * frames_per_batch,
        frames_per_batch=frames_per_batch,
        init_random_frames=init_random_frames or None,
        device=env.device,
    )
