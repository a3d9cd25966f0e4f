"""The configuration that every recipe's begins with, and what it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.config import (
    CheckpointConfig,
    CollectorConfig,
    EnvConfig,
    EvaluationConfig,
    FramesConfig,
    LayersConfig,
    LoggingConfig,
    LossConfig,
    NetworkConfig,
    NormalizationConfig,
    ReplayConfig,
    ReturnConfig,
    StepConfig,
    StorageConfig,
    UpdateConfig,
    WarmStartConfig,
)
from rlkit_sac.config.bounds import Check, PositiveInt, Seed, check_config
from rlkit_sac.envs import closing_env, make_env, observation_dim, reward_dim
from rlkit_sac.runs.checkpoints.resume import check_resume
from rlkit_sac.runs.checkpoints.warm_start import check_warm_start
from rlkit_sac.runs.devices import resolve_device
from rlkit_sac.runs.preflight import check_slices, standard_checks, stored_transition
from rlkit_sac.runs.random_streams import seed_everything
from rlkit_sac.runs.reward_weights import check_reward_weights, check_reward_weights_at
from rlkit_sac.runs.scalar_schedules import check_schedules


@dataclass
class BaseRunConfig:
    """A run of a recipe, whatever its algorithm.

    A recipe's own configuration inherits these sections, puts its options in place of ``network``,
    ``loss`` and others, and says in :meth:`task_checks` what it asks of a task.

    >>> BaseRunConfig(seed=3).env.num_envs
    1
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: FramesConfig = field(default_factory=FramesConfig)
    replay: StorageConfig = field(default_factory=StorageConfig)
    network: LayersConfig = field(default_factory=LayersConfig)
    loss: ReturnConfig = field(default_factory=ReturnConfig)
    update: StepConfig = field(default_factory=StepConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: Seed = 0
    """Seed of networks, environments, sampling and replay."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    resume: str | None = None
    """Run directory to go on with, or one of its checkpoints; it brings its own options along."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the update: true from the first on, false never, auto after the first thousand."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads: two are faster on an idle machine, far slower on a busy one."""

    def task_checks(self) -> list[Callable[[EnvBase], object]]:
        """What the recipe asks of its task; each raises `ConfigError` where it is not so."""
        return [observation_dim]

    def transition(self, env: EnvBase) -> TensorDictBase:
        """One transition of the task as replay stores it, for its size."""
        return stored_transition(env)

    def checks(self) -> list[Check]:
        """What the machine, the task and the run to go on with must fulfill."""
        return self._checks(self.task_checks())

    def _checks(self, task: list[Callable[[EnvBase], object]]) -> list[Check]:
        schedules = [
            Check(("loss.schedules", "loss"), lambda: check_schedules(self.loss)),
            Check(("update.schedules", "update"), lambda: check_schedules(self.update)),
        ]
        source = (
            Check(("warm_start.run",), lambda: check_warm_start(self.warm_start))
            if self.resume is None
            else Check(("resume",), lambda: check_resume(self))
        )
        standard = standard_checks(self, task=task, transition=self.transition)
        return [*standard, *schedules, source]


@dataclass
class RunConfig(BaseRunConfig):
    """A run of a recipe of soft actor-critic.

    >>> RunConfig().update.utd_ratio
    1.0
    """

    collector: CollectorConfig = field(default_factory=CollectorConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    normalization: NormalizationConfig = field(default_factory=NormalizationConfig)

    def checks(self) -> list[Check]:
        """What the machine, the task and the run to go on with must fulfill."""
        loss, dims = self.loss, list[int]()
        task = [*self.task_checks(), lambda env: dims.append(reward_dim(env))]
        weights = [
            Check(
                ("loss.reward_weights", "env"),
                lambda: check_reward_weights(loss.reward_weights, dims[0]),
            ),
            Check(
                ("loss.reward_weights_at", "env"),
                lambda: check_reward_weights_at(loss.reward_weights_at, dims[0]),
            ),
        ]
        slices = Check(
            ("replay.slice_length", "replay.capacity", "loss.lmbda", "collector", "env.num_envs"),
            lambda: check_slices(
                self.replay, self.collector, lmbda=loss.lmbda, num_envs=self.env.num_envs
            ),
        )
        return [*self._checks(task), *weights, slices]


@contextmanager
def make_envs(config: BaseRunConfig) -> Iterator[tuple[EnvBase, EnvBase]]:
    """Seed everything, and open the environments to train in and to be judged in.

    Args:
        config: of the run; it is checked first.

    Raises:
        ConfigError: with all that is wrong in ``config``.

    >>> with make_envs(RunConfig(device="cpu")) as (env, eval_env):
    ...     env is eval_env
    False
    """
    check_config(config)
    torch.set_num_threads(config.num_threads)
    seed_everything(config.seed)
    make = partial(
        make_env,
        config.env.id,
        rescale_actions=config.env.rescale_actions,
        max_episode_steps=config.env.max_episode_steps,
        kwargs=config.env.kwargs,
        device=resolve_device(config.device),
    )
    copies = make(num_envs=config.env.num_envs, parallel=config.env.parallel, seed=config.seed)
    with closing_env(copies) as env, closing_env(make()) as eval_env:
        yield env, eval_env
