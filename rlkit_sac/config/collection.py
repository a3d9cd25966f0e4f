"""The task of a run, the collection of its frames, by workers too, and the replay buffer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from rlkit_sac.config.options import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    described,
)
from rlkit_sac.errors import ConfigError


@dataclass
class WorkersConfig:
    """Processes on Ray, each with ``env.num_envs`` environments, that collect frames.

    >>> WorkersConfig(number=2).batch_envs(num_envs=4)
    8
    >>> WorkersConfig(number=2, mode="async").batch_envs(num_envs=4)
    4
    """

    number: NonNegativeInt = 0
    """Processes that collect frames, on Ray; 0 collects in this process."""

    address: str | None = None
    """Ray cluster to use: null starts one on this machine, auto takes the one that runs here,
    host:port another."""

    mode: Literal["sync", "async"] = "sync"
    """sync waits for all workers and gives the numbers of one process with as many environments;
    async learns from each batch as it comes."""

    publish_interval: PositiveInt = 1
    """Updates between two transfers of the policy to the workers, in mode async."""

    restarts: NonNegativeInt = 10
    """How often each worker is replaced when its process or machine dies."""

    patience: PositiveFloat = 300.0
    """Seconds without a batch from any worker after which the run saves and ends; a start may take
    300, or this if more."""

    cpus: PositiveFloat = 1.0
    """CPUs that Ray reserves for each worker; below 1 for environments that mostly wait."""

    @property
    def is_async(self) -> bool:
        """Whether batches come from one worker at a time."""
        return self.number > 0 and self.mode == "async"

    def batch_envs(self, num_envs: int) -> int:
        """Environments whose frames make up a batch.

        Args:
            num_envs: environments of each process.
        """
        return num_envs if self.is_async else num_envs * max(self.number, 1)


@dataclass
class EnvConfig:
    """The task and how many copies of it run side by side.

    >>> EnvConfig(id="HalfCheetah-v5").num_envs
    1
    """

    id: str = "Pendulum-v1"
    """Gymnasium id of the task, or module:function that makes an environment of Gymnasium or
    TorchRL."""

    num_envs: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Environments stepped together."""

    rescale_actions: bool = True
    """Present bounded continuous actions to the policy as [-1, 1]."""

    action_bounds: list[float] | list[list[float]] | None = None
    """Bounds of continuous actions, [low, high] or one for each dimension, where the task's own are
    infinite or too wide to explore; null for those of the task."""

    action_mask: bool = True
    """Choose among the actions that the task's masks allow, where it gives masks."""

    frame_stack: Annotated[int, Field(ge=1, le=16)] = 1
    """Last frames of each image that the policy sees together; replay stores each frame once."""

    observation_indices: list[int] | None = None
    """Entries of a vector observation that the policy sees, for example [0, 1]; null for all."""

    observation_keys: list[str] | None = None
    """Parts of a structured observation that the policy sees, such as [policy]; null for all."""

    max_episode_steps: PositiveInt | None = None
    """Time limit in frames; null keeps the task's own, or is 10,000 where it has none."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make, or of the function, for example {goal_velocity: 0.1}."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``make_env`` for one environment.

        Raises:
            ConfigError: for an argument of which a file has a description alone.
        """
        for name, value in self.kwargs.items():
            if lost := next(described(value), None):
                raise ConfigError(
                    f"env.kwargs.{name} was {lost.text}, which no file can hold: from Python, "
                    f"give it again, as in Run(...).resume(**{{'env.kwargs.{name}': ...}})"
                )
        return {name: value for name, value in vars(self).items() if name not in ("id", "num_envs")}


@dataclass
class FramesConfig:
    """How frames are collected, in every recipe.

    >>> FramesConfig(total_frames=500).batch_frames(num_envs=4)
    4
    """

    total_frames: Annotated[int, Field(ge=1, le=10**12)] = 10_000
    """Environment steps of the whole run, all environments together; the last batch is whole."""

    init_random_frames: NonNegativeInt = 1_000
    """First frames, whose actions are drawn uniformly; rounded up to whole batches."""

    learning_starts = 0  # no option here

    def batch_frames(self, num_envs: int) -> int:
        """Frames of one batch: one of each environment.

        Args:
            num_envs: environments that step together.
        """
        return num_envs

    def replay_layout(self, num_envs: int) -> dict[str, Any]:
        """The batches that extend a replay buffer, as arguments of samplers.

        Args:
            num_envs: environments that step together.
        """
        return {"num_envs": num_envs, "frames_per_batch": self.batch_frames(num_envs)}


@dataclass
class CollectorConfig(FramesConfig):
    """How frames are collected, and when learning starts.

    >>> CollectorConfig(total_frames=500).init_random_frames
    1000
    >>> CollectorConfig().batch_frames(num_envs=4)
    4
    """

    frames_per_batch: PositiveInt | None = None
    """Frames collected between two rounds of updates; null for one of each environment."""

    learning_starts: NonNegativeInt = 1_000
    """Frames collected before the first update."""

    def batch_frames(self, num_envs: int) -> int:
        """Frames of one batch: ``frames_per_batch``, or one of each environment.

        Args:
            num_envs: environments that step together.
        """
        return num_envs if self.frames_per_batch is None else self.frames_per_batch


@dataclass
class StorageConfig:
    """Size and place of the replay buffer, in every recipe.

    >>> StorageConfig(capacity=1000).storage
    'tensor'
    """

    capacity: PositiveInt = 1_000_000
    """Transitions kept; the oldest are overwritten."""

    batch_size: PositiveInt = 256
    """Transitions sampled for one update, or slices of them."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Where transitions are stored: in memory, or in memory-mapped files on disk."""

    burn_in: NonNegativeInt = 0
    """First frames of each slice or segment that network.memory sees before the losses begin."""

    store_state: bool = False
    """Store the state of network.memory with each frame, from which slices then start; otherwise
    they start from zero."""

    slice_length = n_steps = 1  # no options here

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``make_replay_buffer``, without its sampler and prior data."""
        return {name: getattr(self, name) for name in ("capacity", "batch_size", "storage")}

    def memory_errors(self, length: int, *, memory: bool) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields and a memory that do not hold.

        Args:
            length: frames of a slice or segment.
            memory: whether the networks have one.
        """
        if not memory:
            text = "is for networks with a memory: set network.memory, or leave it out"
            yield from ((name, text) for name in ("burn_in", "store_state") if getattr(self, name))
        elif length <= self.burn_in:
            yield "burn_in", f"must leave frames to learn from: below {length}, got {self.burn_in}"


@dataclass
class ReplayConfig(StorageConfig):
    """Size and place of the replay buffer, and how transitions are drawn.

    >>> list(ReplayConfig(capacity=100).errors())
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    slice_length: PositiveInt = 1
    """Consecutive frames of a slice, for loss.lmbda and for network.memory."""

    n_steps: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Steps of each transition, whose rewards are summed with loss.gamma; fewer where an episode
    ends before."""

    prioritized: bool = False
    """Draw transitions by priorities, which follow their TD errors, instead of uniformly."""

    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of priorities: 0 for uniform sampling, 1 in proportion to the error."""

    priority_beta: UnitFloat = 0.4
    """Exponent of importance weights at first: 0 for none, 1 for a full correction."""

    priority_beta_frames: PositiveInt | None = 100_000
    """Frames over which priority_beta rises linearly to 1; null for never."""

    priority_eps: PositiveFloat = 1e-6
    """Added to each priority, so that every transition can be drawn."""

    prior_data: str | None = None
    """Run directory, or folder of a saved TensorDict, whose transitions are put into the buffer
    before the first frame; null for none."""

    prior_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Part of each batch that is drawn from prior_data, which is then kept beside the buffer, for
    example 0.5; null to put prior_data into the buffer."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``make_replay_buffer``, without its sampler and prior data."""
        return super().arguments() | {"n_steps": self.n_steps, "prior_share": self.prior_share}

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if self.capacity < self.batch_size:
            yield (
                "capacity",
                f"must be at least batch_size ({self.batch_size}), got {self.capacity}",
            )
        if self.prioritized and self.slice_length > 1:
            text = f"must be false where slice_length is above 1 ({self.slice_length}), got true"
            yield "prioritized", text
        if self.prior_data is not None and self.slice_length > 1:
            yield (
                "prior_data",
                f"is for single transitions, but slice_length is {self.slice_length}",
            )
        given = self.prior_data, self.prioritized, self.storage
        if self.prior_share is not None and (None in given or given[1:] != (False, "tensor")):
            text = "needs prior_data, prioritized false and storage tensor, got {}, {} and {}"
            yield "prior_share", text.format(*given)
