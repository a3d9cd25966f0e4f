"""Options of evaluation, checkpoints, output, warm start, and of runs with several seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from rlkit_sac.config.collection import EnvConfig
from rlkit_sac.config.options import PositiveInt, UnitFloat


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

    >>> list(WarmStartConfig(run="runs/sac/Ant-v5/first", modules=["actor"]).errors())
    []
    """

    run: str | None = None
    """Run directory whose newest checkpoint initializes some modules; null for none."""

    modules: list[Literal["actor", "qvalue", "value", "alpha"]] = field(
        default_factory=lambda: ["actor", "qvalue", "alpha"]
    )
    """Modules to initialize: actor, qvalue (critics and their targets), value (value network and
    its target), alpha."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if len(set(self.modules)) != len(self.modules):
            yield "modules", f"must name each module once, got {self.modules}"
        if self.run is not None and not self.modules:
            yield "modules", "must name at least one module to take from run"


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
        if max(seeds) >= 2**32:
            raise ValueError(f"must be >= 0 and < {2**32}, got {max(seeds)}")
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
