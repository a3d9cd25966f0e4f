"""A TorchRL environment whose episodes can be saved."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from tensordict import TensorDictBase
from torchrl.envs import GymWrapper

from rlkit_sac.envs.workers import Worker


class EpisodicGymWrapper(GymWrapper):
    """TorchRL's wrapper of a Gymnasium environment, with the methods of its `EpisodeSeeding`.

    Args:
        env: environment with an :class:`~rlkit_sac.envs.seeding.EpisodeSeeding` among its wrappers.
        worker: where the environment has a process of its own, which ends with an exception.
        options: as for ``GymWrapper``.

    >>> from rlkit_sac.envs.seeding import EpisodeSeeding
    >>> env = EpisodicGymWrapper(EpisodeSeeding(gym.make("Pendulum-v1"), seed=0))
    >>> _ = env.rollout(3)
    >>> env.save_episode()["step"]
    3
    """

    def __init__(
        self, env: gym.Env[Any, Any] | None = None, *, worker: Worker | None = None, **options: Any
    ) -> None:
        super().__init__(env, **options)
        self._worker = worker

    def gym_env(self) -> gym.Env[Any, Any]:
        """Returns the environment inside, as this wrapper steps it."""
        return self._env

    def save_episode(self) -> dict[str, Any]:
        """Returns the episode as :func:`rlkit_sac.envs.save_episodes` does."""
        return self._env.get_wrapper_attr("save_episode")()

    def load_episode(self, saved: dict[str, Any]) -> bool:
        """Prepares the next reset as :func:`rlkit_sac.envs.load_episodes` does."""
        return self._env.get_wrapper_attr("load_episode")(saved)

    def why_not_saved(self) -> str | None:
        """Returns what keeps the present state from being saved, None if nothing does."""
        return self._env.get_wrapper_attr("why_not_saved")()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        try:
            return super()._step(tensordict)
        except Exception as error:
            if self._worker is None:
                raise
            self._worker.exit_with(error, self._env.close)

    def _reset(self, tensordict: TensorDictBase | None = None, **options: Any) -> TensorDictBase:
        try:
            return super()._reset(tensordict, **options)
        except Exception as error:
            if self._worker is None:
                raise
            self._worker.exit_with(error, self._env.close)
