"""Collecting frames of few environments in a plain loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.nested import nested
from rlkit_sac.data.plain_loop import PlainLoop
from rlkit_sac.data.resuming import doubts_about, telling_frames
from rlkit_sac.envs import can_save_episodes, load_episodes, save_episodes


class LightCollector:
    """Collects what TorchRL's collector collects, in a fifth of its time for one environment.

    Same frames, same keys, same random numbers. The environments are stepped as Gymnasium has them,
    and the policy is a :class:`~rlkit_sac.data.recorded_policy.RecordedPolicy`. One thing differs:
    where the policy writes the log-density of its action, the random actions of the first frames
    come with their own instead of 0.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned, such that
            :meth:`~rlkit_sac.envs.PlainEnvs.can_step` it.
        policy: acts on the environment's device; its parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames of each batch, a multiple of the number of environments.
        init_random_frames: first frames, with actions drawn from the action space.

    Attributes:
        doubts: why the environments do not go on where the loaded state left them, if so.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> collector = LightCollector(
    ...     make_env("Pendulum-v1"), policy, total_frames=4, frames_per_batch=2
    ... )
    >>> [batch["action"].shape for batch in collector]
    [torch.Size([2, 1]), torch.Size([2, 1])]
    """

    doubts: Sequence[str] = ()

    def __init__(
        self,
        env: EnvBase,
        policy: TensorDictModuleBase,
        *,
        total_frames: int,
        frames_per_batch: int,
        init_random_frames: int = 0,
    ) -> None:
        self.env = env
        self.total_frames, self.frames_per_batch = total_frames, frames_per_batch
        self.init_random_frames = init_random_frames
        self._frames = 0
        self._loop = PlainLoop(env, policy)
        self._loop.reset()
        self._steps = frames_per_batch // len(self._loop)
        self._shape = torch.Size([*env.batch_size, self._steps])
        self._device = env.device or torch.device("cpu")

    def __iter__(self) -> Iterator[TensorDictBase]:
        while self._frames < self.total_frames:
            batch = self.rollout()
            self._frames += batch.numel()
            yield batch

    def rollout(self) -> TensorDictBase:
        """Collect one batch.

        Raises:
            EnvironmentFault: for an exception inside an environment, with the frames of the run.
        """
        random = self._frames < self.init_random_frames
        with (
            telling_frames(self._frames, self.frames_per_batch),
            set_exploration_type(ExplorationType.RANDOM),
        ):
            steps = [self._loop.step(random=random) for _ in range(self._steps)]
        time = len(self._shape) - 1
        arrays, written = zip(*steps, strict=True)
        entries = {
            key: torch.from_numpy(_over_time([each[key] for each in arrays], time)).to(self._device)
            for key in arrays[0]
        }
        for key in written[0]:
            entries[key] = torch.stack([each[key] for each in written], time)
        return nested(entries, self._shape, self._device)

    def state_dict(self) -> dict[str, Any]:
        """Frames so far, the environments' episodes, and what is known of the next step."""
        return {
            "frames": self._frames,
            "episodes": save_episodes(self.env),
            "loop": self._loop.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            ConfigError: if the environments are others than those of the state.
        """
        kept = load_episodes(self.env, state["episodes"])
        self.doubts = doubts_about(kept)
        self._frames = state["frames"]
        self._loop.load_state_dict(state["loop"], kept=kept)

    def between_episodes(self) -> bool:
        """Whether now is a better moment than others to save the state.

        True at the beginning of an episode in all environments, where their state cannot be saved
        in the middle of one.
        """
        return self._loop.at_reset and not can_save_episodes(self.env)

    def shutdown(self) -> None:
        """Close the environments."""
        if not self.env.is_closed:
            self.env.close()


def _over_time(arrays: list[NDArray[Any]], time: int) -> NDArray[Any]:
    """Steps ``[N, …]`` as one array ``[N, T, …]``, or ``[T, …]`` where time comes first."""
    if time == 0:
        return np.concatenate(arrays)
    return np.stack(arrays, 1)
