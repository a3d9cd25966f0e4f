"""Collecting frames without the overhead of TensorDicts in each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.collect.acting_loop import ActingLoop
from rlkit_sac.data.collect.faults import inexact_reasons, with_frame
from rlkit_sac.envs import can_save_episodes, load_episodes, save_episodes
from rlkit_sac.errors import EnvironmentFault


class LightCollector:
    """Collects the same batches as TorchRL's collector, in a fraction of its time.

    Keys, values and random numbers are the same, with one exception: where the policy writes the
    log-density of its action, that of the first, random actions is their own instead of 0. The
    Gymnasium environments are stepped directly, and the policy is a
    :class:`~rlkit_sac.data.collect.recorded_policy.RecordedPolicy`.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned, and
            :meth:`~rlkit_sac.envs.GymnasiumEnvs.can_step` accepts.
        policy: acts on the environment's device; its parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames of each batch, a multiple of the number of environments.
        init_random_frames: first frames, with actions drawn from the action space.
        random_policy: acts instead of these draws, see :func:`~rlkit_sac.data.make_collector`.

    Raises:
        ConfigError: for a number of frames that the environments cannot share evenly.

    Attributes:
        inexact_reasons: why the environments do not continue exactly from the loaded state, if so.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> collector = LightCollector(
    ...     make_env("Pendulum-v1"), policy, total_frames=4, frames_per_batch=2
    ... )
    >>> [batch["action"].shape for batch in collector]
    [torch.Size([2, 1]), torch.Size([2, 1])]
    """

    inexact_reasons: Sequence[str] = ()

    def __init__(
        self,
        env: EnvBase,
        policy: TensorDictModuleBase,
        *,
        total_frames: int,
        frames_per_batch: int,
        init_random_frames: int = 0,
        random_policy: TensorDictModuleBase | None = None,
    ) -> None:
        self._steps = steps_per_batch(frames_per_batch, env.batch_size.numel())
        self.env = env
        self.total_frames, self.frames_per_batch = total_frames, frames_per_batch
        self.init_random_frames = init_random_frames
        self._frames = 0
        self._loop = ActingLoop(
            env, policy, exploration_type=ExplorationType.RANDOM, random_policy=random_policy
        )
        self._loop.reset()

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
        loop = self._loop
        frame = loop.frame
        frame.begin_batch(self._steps)
        try:
            for step in range(self._steps):
                loop.step(random=random, unchanged=step > 0)
                frame.keep(step)
                loop.advance()
        except EnvironmentFault as fault:
            raise with_frame(fault, self._frames, self.frames_per_batch) from fault.__cause__
        return frame.batch()

    def state_dict(self) -> dict[str, Any]:
        """Frames so far, the environments' episodes, and the entries of the next step."""
        return {
            "frames": self._frames,
            "episodes": save_episodes(self.env),
            "loop": self._loop.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ConfigError: if the environments are others than those of the state.
        """
        kept = load_episodes(self.env, state["episodes"])
        self.inexact_reasons = inexact_reasons(kept)
        self._frames = state["frames"]
        self._loop.load_state_dict(state["loop"], kept=kept)

    def between_episodes(self) -> bool:
        """Whether to prefer this moment for saving: a state that can be restored exactly is rare.

        True if all environments are at the beginning of an episode and their state cannot be saved
        in the middle of one.
        """
        return self._loop.at_reset and not can_save_episodes(self.env)

    def shutdown(self) -> None:
        """Close the environments."""
        if not self.env.is_closed:
            self.env.close()
