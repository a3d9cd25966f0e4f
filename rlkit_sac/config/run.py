"""The options of a run: its sections, and the conditions between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rlkit_sac.config.collection import (
    BaseCollectorConfig,
    BaseReplayConfig,
    CollectorConfig,
    EnvConfig,
    ReplayConfig,
    WorkersConfig,
)
from rlkit_sac.config.loss import BaseLossConfig, LossConfig
from rlkit_sac.config.network import BaseNetworkConfig, NetworkConfig, NormalizationConfig
from rlkit_sac.config.options import PositiveFloat, PositiveInt, Seed, UnitFloat
from rlkit_sac.config.update import BaseUpdateConfig, UpdateConfig

#: Longest rows for which the update of a memory is compiled, since each step adds to the graph.
LONGEST_COMPILED_ROW = 16


@dataclass
class EvaluationConfig:
    """When and how the policy is evaluated during training.

    >>> EvaluationConfig().episodes
    10
    """

    interval: PositiveInt = 2_500
    """Frames between two evaluations."""

    episodes: Annotated[int, Field(ge=1, le=100_000)] = 10
    """Number of episodes in each evaluation."""

    deterministic: bool = True
    """Act by the mode of the policy instead of a sample."""

    epsilon: UnitFloat = 0.0
    """Probability that an action of a deterministic evaluation is sampled from the policy."""

    stop_at: float | None = None
    """Mean return of an evaluation at which the run ends early; null to train for all frames."""

    stop_at_success: Annotated[float, Field(gt=0, le=1)] | None = None
    """Success rate of an evaluation at which the run ends early; null to train for all frames."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the evaluation environment, which override those of env.kwargs."""

    video: bool = False
    """Record a video of the best policy when the run ends."""

    def env(self, training: EnvConfig) -> EnvConfig:
        """Return the options of the evaluation environment.

        Args:
            training: the options of the training environment.
        """
        return replace(training, kwargs={**training.kwargs, **self.kwargs})

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if self.epsilon and not self.deterministic:
            yield "epsilon", f"must be 0 unless deterministic is true, got {self.epsilon}"


@dataclass
class CheckpointConfig:
    """Interval and number of the checkpoints, which hold the whole state of a run.

    >>> CheckpointConfig().keep
    2
    """

    interval: PositiveInt = 5_000
    """Frames between two checkpoints."""

    keep: PositiveInt = 2
    """Number of newest checkpoints to keep, beside the checkpoint of the best evaluation."""


@dataclass
class LoggingConfig:
    """The folder of runs, and the output of a run.

    >>> LoggingConfig().dir
    'runs'
    """

    dir: Annotated[str, Field(min_length=1)] = "runs"
    """Folder in which each run gets a directory."""

    interval: PositiveInt = 500
    """Frames between two rows of metrics.csv."""

    episodes_per_write: PositiveInt = 64
    """Maximum number of rows of episodes.csv for a batch, or on a GPU for all batches between two
    rows of metrics.csv. If more episodes end, one row holds their means."""

    progress: bool = True
    """Show a progress bar."""

    tensorboard: bool = False
    """Also write the numbers of the CSV files for TensorBoard."""

    wandb: bool = False
    """Also send the numbers of the CSV files to Weights & Biases."""

    wandb_project: str = "rlkit_sac"
    """Project of the run on Weights & Biases."""


@dataclass
class WarmStartConfig:
    """Modules initialized with the parameters of another run.

    >>> WarmStartConfig().modules
    ['actor', 'qvalue', 'alpha']
    """

    run: str | None = None
    """Run directory whose newest checkpoint initializes some modules; null for none."""

    modules: list[Literal["actor", "qvalue", "value", "alpha"]] = field(
        default_factory=lambda: ["actor", "qvalue", "alpha"]
    )
    """Modules to initialize: actor, qvalue (critics and their targets), value (value network and
    its target), alpha."""


@dataclass
class SeedsConfig:
    """Options of a comparison: one run for each of several seeds.

    >>> SeedsConfig(seeds="0-2,7").seed_list()
    [0, 1, 2, 7]
    >>> list(SeedsConfig(jobs=2).errors())
    [('jobs', 'give the seeds too, for example --seeds 0,1,2')]
    """

    seeds: str | None = None
    """Seeds of several runs, such as 0,1,2 or 0-4, with a joint table and figure at the end."""

    jobs: PositiveInt = 1
    """Number of runs at the same time, each in its own process."""

    def seed_list(self) -> list[int]:
        """Return the seeds to run, in order.

        Raises:
            ValueError: the seeds cannot be read, or one of them comes twice.
        """
        text = (self.seeds or "").replace(" ", "")
        seeds: list[int] = []
        for part in text.split(","):
            match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
            span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
            if not span:
                raise ValueError(f"expected seeds such as 0,1,2 or 0-4, got {text!r}")
            seeds += span
        if repeated := [seed for seed in seeds if seeds.count(seed) > 1]:
            raise ValueError(f"{min(repeated)} comes twice in {text!r}")
        return seeds

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions that do not hold."""
        if self.seeds is not None:
            try:
                self.seed_list()
            except ValueError as error:
                yield "seeds", str(error)
        elif self.jobs > 1:
            yield "jobs", "give the seeds too, for example --seeds 0,1,2"


@dataclass
class BaseRunConfig:
    """The options of a run, for any algorithm.

    The configuration of a recipe inherits these sections, and replaces ``network``, ``loss`` and
    others by its own.

    >>> BaseRunConfig(seed=3).env.num_envs
    1
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: BaseCollectorConfig = field(default_factory=BaseCollectorConfig)
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    replay: BaseReplayConfig = field(default_factory=BaseReplayConfig)
    network: BaseNetworkConfig = field(default_factory=BaseNetworkConfig)
    loss: BaseLossConfig = field(default_factory=BaseLossConfig)
    update: BaseUpdateConfig = field(default_factory=BaseUpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: Seed = 0
    """Seed of networks, environments, sampling and replay."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    resume: str | None = None
    """Run directory to resume, or one of its checkpoints; the options of that run are kept."""
    device: str = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:<index> or mps."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the update: true from the first on, false never, auto after the first thousand."""
    num_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """Number of PyTorch's CPU threads; two are faster on an idle machine, far slower on a busy
    one."""
    time_limit: PositiveFloat | None = None
    """Seconds after which the run saves and ends with exit code 75, for a resume; null for none."""

    # The name of the `--config` file, which is no option.
    configuration: ClassVar[str] = "default"

    # With compile: auto, short runs are spared the time of compiling.
    uncompiled_updates: ClassVar[int] = 1_000

    @property
    def has_memory(self) -> bool:
        """Whether the networks have a memory; a user's own section need not have the option."""
        return getattr(self.network, "memory", "none") != "none"

    @property
    def row_length(self) -> int:
        """The number of frames in each row of a sample."""
        return self.replay.slice_length

    @property
    def critic_keys(self) -> list[str] | None:
        """The keys that critics observe; None if they observe the same as the policy."""
        return getattr(self.network, "critic_keys", None)

    @property
    def batch_envs(self) -> int:
        """The number of environments whose frames make up a batch of the collector."""
        processes = 1 if self.workers.is_async else max(self.workers.number, 1)
        return processes * self.env.num_envs

    def replay_layout(self) -> dict[str, Any]:
        """Return the layout of the batches, as keyword arguments of samplers."""
        # Consecutive batches of asynchronous workers are of different environments.
        layout = {"within_batches": self.workers.is_async, "frame_stack": self.env.frame_stack}
        return self.collector.replay_layout(self.batch_envs) | layout

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if not self.has_memory:
            text = "is for networks with a memory: set network.memory, or leave it out"
            names = [name for name in ("burn_in", "store_state") if getattr(self.replay, name)]
            yield from ((f"replay.{name}", text) for name in names)
        elif self.row_length <= self.replay.burn_in:
            text = f"must leave frames to learn from: below {self.row_length}, "
            yield "replay.burn_in", f"{text}got {self.replay.burn_in}"
        if self.workers.mode == "async" and not self.workers.number:
            text = "async needs workers, but workers.number is 0: set it, or leave the mode out"
            yield "workers.mode", text
        if self.workers.is_async and self.env.frame_stack > 1:
            text = "must be sync where env.frame_stack is above 1, which joins consecutive batches"
            yield "workers.mode", text
        normalization = getattr(self, "normalization", None)
        if self.workers.is_async and normalization is not None and normalization.rewards:
            # The returns of an environment would be mixed with the returns of another worker's.
            yield "normalization.rewards", "must be false where workers.mode is async"

    def planned_updates(self) -> float:
        """Return the approximate number of updates in the run; infinity if it is not known."""
        return float("inf")


@dataclass
class RunConfig(BaseRunConfig):
    """The options of a run of soft actor-critic.

    >>> list(RunConfig(loss=LossConfig(lmbda=0.9)).errors())
    [('loss.lmbda', 'is 0.9, which needs slices of more than one frame: set replay.slice_length')]
    """

    collector: CollectorConfig = field(default_factory=CollectorConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    normalization: NormalizationConfig = field(default_factory=NormalizationConfig)

    def planned_updates(self) -> float:
        """Return the number of updates in the run."""
        frames = self.collector.total_frames - self.collector.learning_starts
        return frames * self.update.utd_ratio

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.critic_keys and self.network.shared_encoder:
            text = "must be null with network.shared_encoder, which reads what the policy observes"
            yield "network.critic_keys", text
        if self.env.frame_stack > 1 and self.replay.prior_data is not None:
            text = f"is for whole transitions, but env.frame_stack is {self.env.frame_stack}"
            yield "replay.prior_data", text
        if self.replay.slice_length == 1:
            text = "which needs slices of more than one frame: set replay.slice_length"
            if self.loss.lmbda:
                yield "loss.lmbda", f"is {self.loss.lmbda}, {text}"
            if self.has_memory:
                yield "network.memory", f"is {self.network.memory}, {text}"
        if self.replay.n_steps > 1:
            needs_one = {
                "env.frame_stack": self.env.frame_stack > 1,
                "replay.slice_length": self.replay.slice_length > 1,
                "a schedule of loss.gamma": "gamma" in self.loss.schedules,
            }
            names = ", ".join(name for name, needed in needs_one.items() if needed)
            if names:
                yield "replay.n_steps", f"must be 1 with {names}, got {self.replay.n_steps}"
