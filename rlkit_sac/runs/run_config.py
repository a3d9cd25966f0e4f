"""The configuration that all recipes share, its checks, and the environments it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
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
    WorkersConfig,
)
from rlkit_sac.config.bounds import PositiveFloat, Seed
from rlkit_sac.config.conditions import Check, check_config
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.replay.buffer import check_replay_fits
from rlkit_sac.data.replay.stacked_frames import newest_frames
from rlkit_sac.data.workers.cluster import ray_cluster
from rlkit_sac.envs import closing_env, make_env, reward_dim
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.checkpoints.resume import check_resume, check_warm_start, resume_after_restart
from rlkit_sac.runs.machine import (
    UNCOMPILED_UPDATES,
    check_installed,
    num_ranks,
    of_this_rank,
    process_group,
    rank,
    resolve_device,
)
from rlkit_sac.runs.preflight import (
    TaskFacts,
    check_images,
    check_slices,
    check_task,
    limit_episodes,
    stored_transition,
    warn_without_updates,
)
from rlkit_sac.runs.prior_data import check_prior_data, read_prior_data
from rlkit_sac.runs.random_streams import rank_seed, seed_everything
from rlkit_sac.runs.schedules import check_reward_weights, check_schedules
from rlkit_sac.runs.video import check_video

#: Longest rows of which a memory's update is compiled: each step adds to the graph.
LONGEST_COMPILED_ROW = 16


@dataclass
class BaseRunConfig:
    """A run of a recipe, whatever its algorithm.

    A recipe's own configuration inherits these sections, replaces ``network``, ``loss`` and others
    by its own, and lists in :meth:`task_checks` what it requires of a task.

    >>> BaseRunConfig(seed=3).env.num_envs
    1
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: FramesConfig = field(default_factory=FramesConfig)
    workers: WorkersConfig = field(default_factory=WorkersConfig)
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
    """Run directory to resume, or one of its checkpoints; its options are those of the run."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the update: true from the first on, false never, auto after the first thousand."""
    num_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """PyTorch's CPU threads: two are faster on an idle machine, far slower on a busy one."""
    time_limit: PositiveFloat | None = None
    """Seconds after which the run saves and ends with exit code 75, for --resume; null for none."""
    # No options: what `rlkit_sac.train` was given besides.
    callback: ClassVar[Any] = None
    env_function: ClassVar[bool] = False

    def task_checks(self) -> list[Callable[[EnvBase], object]]:
        """What the recipe requires of its task; each raises `ConfigError` where it is not met."""
        return [reward_dim]

    def transition(self, env: EnvBase) -> TensorDictBase:
        """One transition of the task as replay stores it, for its size."""
        return stored_transition(env)

    @property
    def has_memory(self) -> bool:
        """Whether networks have a memory, which a user's own section need not say."""
        return getattr(self.network, "memory", "none") != "none"

    @property
    def _row_length(self) -> int:
        """Frames of a row of a sample."""
        return getattr(self.replay, "slice_length", getattr(self.collector, "t_max", 1))

    @property
    def batch_envs(self) -> int:
        """Environments whose frames make up a batch of the collector."""
        return self.workers.batch_envs(self.env.num_envs)

    @property
    def _prior_source(self) -> str | None:
        """Where prior data are read, unless a checkpoint has them, which were in the buffer."""
        source, share = (getattr(self.replay, f"prior_{name}", None) for name in ("data", "share"))
        return None if self.resume is not None and share is None else source

    def replay_arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``make_replay_buffer``."""
        found = self.replay.arguments() | self.collector.replay_layout(self.batch_envs)
        # Consecutive batches of asynchronous workers are of different environments.
        found["within_batches"] = self.workers.is_async
        found["frame_stack"] = self.env.frame_stack
        found.pop("prior_data", None)
        if self._prior_source is not None:
            found["prior_data"] = read_prior_data(self._prior_source)
        if num_ranks() > 1:
            found["batch_size"] //= num_ranks()
            if (beta_frames := found.get("priority_beta_frames")) is not None:
                found["priority_beta_frames"] = of_this_rank(beta_frames)
        return found

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = self.replay.memory_errors(self._row_length, memory=self.has_memory)
        found = [(f"replay.{name}", text) for name, text in found]
        if self.replay.batch_size % num_ranks():
            text = (
                f"must be a multiple of the {num_ranks()} processes of torchrun, which share it, "
                f"got {self.replay.batch_size}"
            )
            found.append(("replay.batch_size", text))
        if self.workers.mode == "async" and not self.workers.number:
            text = "async needs workers, but workers.number is 0: set it, or leave the mode out"
            found.append(("workers.mode", text))
        if self.workers.is_async and self.env.frame_stack > 1:
            text = (
                "must be sync where env.frame_stack is above 1, which joins frames of consecutive "
                "batches"
            )
            found.append(("workers.mode", text))
        if self.env_function and self.workers.number:
            text = "other processes cannot make the environments of a function: give an id"
            found.append(("workers.number", text))
        if self.env.frame_stack > 1 and getattr(self.replay, "prior_data", None) is not None:
            text = f"is for whole transitions, but env.frame_stack is {self.env.frame_stack}"
            found.append(("replay.prior_data", text))
        return found

    def planned_updates(self) -> float:
        """About how many updates the run makes; infinity where the recipe does not say."""
        return float("inf")

    def compile_choice(self, uncompiled: int = UNCOMPILED_UPDATES) -> Literal["auto"] | bool:
        """``compile``, or false where ``auto`` would not earn back the time of compiling.

        These are runs with a memory over long rows, and those with few updates: compiling takes
        about as long as the uncompiled updates before it, and a compiled update half as long as
        another one.

        Args:
            uncompiled: updates before it.
        """
        long = self.has_memory and self._row_length > LONGEST_COMPILED_ROW
        short = self.planned_updates() < 3 * uncompiled
        return False if (long or short) and self.compile == "auto" else self.compile

    def checks(self, open_env: Callable[[], EnvBase] | None = None) -> list[Check]:
        """What the machine, the task and the run to resume must fulfill.

        Args:
            open_env: gives the environment to check. Default: one is made, and closed again.
        """

        @cache  # the first check that needs the task makes it
        def facts() -> TaskFacts:
            with ExitStack() as opened:
                if open_env is not None:
                    env = open_env()
                else:
                    made = make_env(self.env.id, **self.env.arguments())
                    env = opened.enter_context(closing_env(made))
                return check_task(env, self.task_checks(), transition=self.transition)

        video, shift = self.evaluation.video, getattr(self.update, "random_shift", 0)
        frames_per_batch = self.collector.batch_frames(self.batch_envs)
        start = Check(("warm_start.run",), lambda: check_warm_start(self.warm_start))
        if self.resume is not None:
            start = Check(("resume", "seed"), lambda: check_resume(self))
        return [
            Check(("device",), lambda: resolve_device(self.device)),
            Check(
                ("collector.frames_per_batch", "env.num_envs", "workers"),
                lambda: steps_per_batch(frames_per_batch, self.batch_envs),
            ),
            *(
                Check((key,), partial(check_installed, package, extra=package))
                for key, package, wanted in (
                    ("workers.number", "ray", self.workers.number),
                    ("logging.tensorboard", "tensorboard", self.logging.tensorboard),
                    ("logging.wandb", "wandb", self.logging.wandb),
                )
                if wanted
            ),
            Check(("env.id", "env"), facts),
            Check(("evaluation.video", "env"), lambda: check_video(self.env) if video else None),
            Check(
                ("replay.capacity", "replay.storage", "device", "env"),
                lambda: check_replay_fits(
                    newest_frames(facts().transition, self.env.frame_stack),
                    capacity=self.replay.capacity,
                    storage=self.replay.storage,
                    device=resolve_device(self.device),
                ),
            ),
            Check(
                ("update.random_shift", "env"),
                lambda: check_images(shift, has_images=facts().has_images),
            ),
            Check(("loss.schedules", "loss"), lambda: check_schedules(self.loss)),
            Check(("update.schedules", "update"), lambda: check_schedules(self.update)),
            start,
            *self.further_checks(facts),
        ]

    def further_checks(self, facts: Callable[[], TaskFacts]) -> list[Check]:
        """What the recipe checks besides.

        Args:
            facts: what is known of the task; only for checks that read the section ``env``.
        """
        return []


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

    def planned_updates(self) -> float:
        """How many updates the run makes."""
        return (
            self.collector.total_frames - self.collector.learning_starts
        ) * self.update.utd_ratio

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = super().errors()
        if self.workers.is_async and self.normalization.rewards:
            text = (
                "must be false where workers.mode is async: the returns of an environment would be "
                "mixed with those of another worker's"
            )
            found.append(("normalization.rewards", text))
        return found

    def further_checks(self, facts: Callable[[], TaskFacts]) -> list[Check]:
        """Whether encoder and weights of vector rewards fit the task, and slices into replay."""
        loss, shared = self.loss, getattr(self.network, "shared_encoder", False)

        def prior_fits() -> None:
            if (source := self._prior_source) is not None:
                data, found = read_prior_data(source), facts()
                check_prior_data(data, found.transition, found.action_spec)

        return [
            Check(("replay.prior_data", "env"), prior_fits),
            Check(
                ("network.shared_encoder", "env"),
                lambda: check_images(shared, has_images=facts().has_images),
            ),
            Check(
                ("loss.reward_weights", "env"),
                lambda: check_reward_weights(loss.reward_weights, facts().reward_dim),
            ),
            Check(
                (
                    "replay.slice_length",
                    "replay.capacity",
                    "loss.lmbda",
                    "network.memory",
                    "collector",
                    "env.num_envs",
                    "env.frame_stack",
                    "workers",
                ),
                lambda: check_slices(self),
            ),
        ]


@contextmanager
def make_envs(config: BaseRunConfig) -> Iterator[tuple[EnvBase, EnvBase]]:
    """Seed everything, and open the environments for training and for evaluation.

    With ``workers.number``, Ray is there in the block, and the environment for training is only for
    its specs. Under ``torchrun`` each of its processes gets other environments and random streams,
    and is connected with the others for the block.

    Args:
        config: of the run; it is checked first, and nothing is opened if it has errors. A task
            without a time limit gets one, see :func:`~rlkit_sac.runs.preflight.limit_episodes`.

    Raises:
        ConfigError: with all that is wrong in ``config``.

    >>> with make_envs(RunConfig(device="cpu")) as (env, eval_env):
    ...     env is eval_env
    False
    """
    with ExitStack() as opened:
        resume_after_restart(config)
        seed = rank_seed(config.seed, rank())

        def open_env(**options: Any) -> EnvBase:
            try:
                device = resolve_device(config.device)
            except ConfigError:
                device = torch.device("cpu")  # to check the task: the device has its own check
            env = make_env(config.env.id, **config.env.arguments(), device=device, **options)
            return opened.enter_context(closing_env(env))

        @cache
        def training_env() -> EnvBase:
            seed_everything(seed)
            limit_episodes(config.env, config.resume)
            return open_env(
                num_envs=config.batch_envs,
                first_index=config.batch_envs * rank(),
                seed=config.seed,
            )

        def open_cluster() -> None:
            workers = config.workers
            if workers.number:
                cluster = ray_cluster(workers.address, workers=workers.number, cpus=workers.cpus)
                opened.enter_context(cluster)

        at_fault = "workers.address" if config.workers.address else "workers.number"
        cluster = Check((at_fault, "workers"), open_cluster)
        check_config(config, checks=[*config.checks(training_env), cluster])
        torch.set_num_threads(config.num_threads)
        opened.enter_context(process_group(resolve_device(config.device)))
        seed_everything(seed)  # again, since checks may draw random numbers
        warn_without_updates(config.collector, config.batch_envs)
        yield training_env(), open_env()
