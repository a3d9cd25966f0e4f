"""Options of the task, of workers and the collection of frames, and of the replay buffer."""

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
    find_descriptions,
)
from rlkit_sac.errors import ConfigError


@dataclass
class WorkersConfig:
    """Processes on Ray, each with ``env.num_envs`` environments, that collect frames.

    >>> WorkersConfig(mode="async").is_async, WorkersConfig(number=2, mode="async").is_async
    (False, True)
    """

    number: NonNegativeInt = 0
    """Number of processes on Ray that collect frames; 0 collects in this process."""

    address: str | None = None
    """Ray cluster to use: null starts one on this machine, auto connects to the one that runs on
    it, host:port to another."""

    mode: Literal["sync", "async"] = "sync"
    """sync waits for all workers, with the results of one process with as many environments; async
    learns from the batch of each worker as it arrives."""

    publish_interval: PositiveInt = 1
    """Updates between two transfers of the policy to the workers, in mode async."""

    restarts: NonNegativeInt = 10
    """How often each worker is replaced when its process or machine dies."""

    patience: PositiveFloat = 300.0
    """Seconds without a batch from any worker after which the run saves and ends. Workers may take
    this long to start, and at least 300 seconds."""

    cpus: PositiveFloat = 1.0
    """CPUs that Ray reserves for each worker; below 1 for environments that mostly wait."""

    @property
    def is_async(self) -> bool:
        """Whether each batch comes from one worker."""
        return self.number > 0 and self.mode == "async"


@dataclass
class EnvConfig:
    """The task, and the number of environments that run side by side.

    >>> EnvConfig(id="HalfCheetah-v5").num_envs
    1
    """

    id: str = "Pendulum-v1"
    """Gymnasium id of the task, or module:function that makes an environment of Gymnasium or
    TorchRL."""

    num_envs: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of environments stepped together."""

    rescale_actions: bool = True
    """Let the policy choose bounded continuous actions in [-1, 1], rescaled for the task."""

    action_bounds: list[float] | list[list[float]] | None = None
    """Bounds of continuous actions, [low, high] or such a pair for each dimension, for tasks whose
    own bounds are infinite or too wide to explore; null for the bounds of the task."""

    action_mask: bool = True
    """Let the policy choose only actions that the task's masks allow, if the task has masks."""

    frame_stack: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of last frames of each image that the policy sees; replay stores each frame once."""

    observation_indices: list[int] | None = None
    """Indices of a vector observation that the policy sees, for example [0, 1]; null for all."""

    observation_keys: list[str] | None = None
    """Keys of a structured observation that the policy sees, such as [policy]; null for all."""

    max_episode_steps: PositiveInt | None = None
    """Time limit of an episode in frames; null for the task's own, or 10,000 if it has none."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make, or of the function, for example {goal_velocity: 0.1}."""

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``make_env`` for one environment.

        Raises:
            ConfigError: an argument was a Python object that the file of options could not hold.
        """
        for name, value in self.kwargs.items():
            if lost := next(find_descriptions(value), None):
                raise ConfigError(
                    f"env.kwargs.{name} was {lost.text}, which no file can hold: from Python, "
                    f"give it again, as in Run(...).resume(**{{'env.kwargs.{name}': ...}})"
                )
        return {name: value for name, value in vars(self).items() if name not in ("id", "num_envs")}


@dataclass
class BaseCollectorConfig:
    """Options of the collection of frames in every recipe.

    >>> BaseCollectorConfig(total_frames=500).batch_frames(num_envs=4)
    4
    """

    total_frames: Annotated[int, Field(ge=1, le=10**12)] = 10_000
    """Environment steps of the whole run, in all environments; the last batch is completed."""

    init_random_frames: NonNegativeInt = 1_000
    """Number of first frames, whose actions are drawn uniformly; rounded up to whole batches."""

    learning_starts = 0  # no options here
    noise_color = 0.0

    def batch_frames(self, num_envs: int) -> int:
        """Return the number of frames in a batch: one from each environment.

        Args:
            num_envs: the number of environments stepped together.
        """
        return num_envs

    def replay_layout(self, num_envs: int) -> dict[str, Any]:
        """Return the layout of the batches, as keyword arguments of samplers.

        Args:
            num_envs: the number of environments stepped together.
        """
        return {"num_envs": num_envs, "frames_per_batch": self.batch_frames(num_envs)}


@dataclass
class CollectorConfig(BaseCollectorConfig):
    """Options of the collection of frames, and of the start of learning.

    >>> CollectorConfig(total_frames=500).init_random_frames
    1000
    >>> CollectorConfig().batch_frames(num_envs=4)
    4
    """

    frames_per_batch: PositiveInt | None = None
    """Frames collected between two rounds of updates; null for one from each environment."""

    learning_starts: NonNegativeInt = 1_000
    """Frames collected before the first update."""

    noise_color: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Correlation in time of the noise of continuous actions: 0 for none, 1 for pink noise, 2 for
    red noise. Random first frames stay uniform."""

    def batch_frames(self, num_envs: int) -> int:
        """Return the number of frames in a batch: ``frames_per_batch``, or one per environment.

        Args:
            num_envs: the number of environments stepped together.
        """
        return num_envs if self.frames_per_batch is None else self.frames_per_batch


@dataclass
class BaseReplayConfig:
    """Size and place of the replay buffer, in every recipe.

    >>> BaseReplayConfig(capacity=1000).storage
    'tensor'
    """

    capacity: PositiveInt = 1_000_000
    """Number of transitions kept; new ones overwrite the oldest."""

    batch_size: PositiveInt = 256
    """Number of transitions, or of slices, sampled for each update."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Place of the transitions: in memory (tensor), or in memory-mapped files on disk (memmap)."""

    burn_in: NonNegativeInt = 0
    """Number of first frames of each slice or segment that warm up network.memory, without loss."""

    store_state: bool = False
    """Store the state of network.memory with each frame, so that slices start from it; otherwise
    slices start from zeros."""

    slice_length = n_steps = 1  # no options here

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of ``make_replay_buffer``, without sampler and prior data."""
        return {name: getattr(self, name) for name in ("capacity", "batch_size", "storage")}


@dataclass
class ReplayConfig(BaseReplayConfig):
    """Size and place of the replay buffer, and options of sampling.

    >>> list(ReplayConfig(capacity=100).errors())
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    slice_length: PositiveInt = 1
    """Number of consecutive frames in a slice, for loss.lmbda and for network.memory."""

    n_steps: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of steps of each transition, whose rewards are summed with the discount loss.gamma;
    fewer if the episode ends earlier."""

    prioritized: bool = False
    """Sample transitions by priorities from their TD errors, instead of uniformly."""

    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of priorities: 0 for uniform sampling, 1 in proportion to the error."""

    priority_beta: UnitFloat = 0.4
    """Initial exponent of importance weights: 0 for no correction, 1 for a full one."""

    priority_beta_frames: PositiveInt | None = 100_000
    """Frames over which priority_beta rises linearly to 1; null for never."""

    priority_eps: PositiveFloat = 1e-6
    """Constant added to each priority, so that every transition can be sampled."""

    prior_data: str | None = None
    """Run directory, folder of a saved TensorDict, or minari:<data set>, whose transitions are put
    into the buffer before the first frame; null for none."""

    prior_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of each batch sampled from prior_data, for example 0.5; prior_data then stays outside
    the buffer. null puts prior_data into the buffer."""

    goals: Literal["future", "final", "episode"] | None = None
    """Steps of its episode that give a sampled transition a new goal (hindsight experience replay),
    for tasks with achieved_goal and desired_goal; null for none."""

    her_ratio: UnitFloat = 0.8
    """Share of sampled transitions that get a new goal."""

    reward_function: str | None = None
    """Function module:function that returns rewards from achieved and desired goals; null for the
    compute_reward of Gymnasium's tasks."""

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of ``make_replay_buffer``, without sampler and prior data."""
        return super().arguments() | {"n_steps": self.n_steps, "prior_share": self.prior_share}

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if self.capacity < self.batch_size:
            text = f"must be at least batch_size ({self.batch_size}), got {self.capacity}"
            yield "capacity", text
        if self.prioritized and self.slice_length > 1:
            text = f"must be false where slice_length is above 1 ({self.slice_length}), got true"
            yield "prioritized", text
        if self.prior_data is not None and self.slice_length > 1:
            text = f"is for single transitions, but slice_length is {self.slice_length}"
            yield "prior_data", text
        if self.goals is not None and (self.slice_length > 1 or self.n_steps > 1):
            text = "is for single transitions: leave out n_steps and slice_length, or goals"
            yield "goals", text
        values = self.prior_data, self.prioritized, self.storage
        if self.prior_share is not None and (None in values or values[1:] != (False, "tensor")):
            text = "needs prior_data, prioritized false and storage tensor, got {}, {} and {}"
            yield "prior_share", text.format(*values)
