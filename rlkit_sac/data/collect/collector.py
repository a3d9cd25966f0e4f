"""A collector of each kind of environment, and the choice between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, TensorDictPrimer
from torchrl.envs.utils import ExplorationType

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.collect.acting_loop import ActingLoop
from rlkit_sac.data.collect.frame import check_frames
from rlkit_sac.data.collect.policy_entries import next_key, state_keys, written_entries
from rlkit_sac.data.collect.uniform_policy import uniform_policy
from rlkit_sac.envs import load_episodes, save_episodes
from rlkit_sac.errors import RunError


@dataclass(eq=False, repr=False)
class _CountingCollector(ABC):
    """The base of both collectors, which counts the frames of the run.

    Attributes:
        frames: number of frames collected so far.
        inexact_reasons: the reasons why environments do not continue exactly from a loaded state.
        first_index: number of the first environment, for messages.
        workers: number of workers that collect equal parts of a batch, for messages.
    """

    first_index = 0
    workers = 1

    env: EnvBase
    policy: TensorDictModuleBase
    _: KW_ONLY
    total_frames: int
    frames_per_batch: int
    init_random_frames: int = 0
    random_policy: TensorDictModuleBase | None = None

    def __post_init__(self) -> None:
        self.frames = 0
        self.inexact_reasons: Sequence[str] = ()
        self._steps = steps_per_batch(self.frames_per_batch, self.env.batch_size.numel())
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare collecting."""

    def __iter__(self) -> Iterator[TensorDictBase]:
        while self.frames < self.total_frames:
            try:
                batch = self._collect(random=self.frames < self.init_random_frames)
            except RunError as error:
                first = self.frames + 1
                last = self.frames + self.frames_per_batch * self.workers
                when = f"frame {first}" if first == last else f"the frames {first} to {last}"
                raise type(error)(f"at {when} of the run: {error}") from error.__cause__
            self.frames += batch.numel()
            yield batch

    @abstractmethod
    def _collect(self, *, random: bool) -> TensorDictBase:
        """Return the next batch, without NaN or infinity, or raise a `RunError`."""

    def end(self) -> None:
        """End the iteration after the present batch."""
        self.total_frames = self.frames

    def shutdown(self) -> None:
        """Close the environments."""
        self.env.close(raise_if_closed=False)


class LightCollector(_CountingCollector):
    """Collects the same batches as TorchRL's collector, in a fraction of its time.

    Keys, values and random numbers are the same. The Gymnasium environments are stepped directly,
    and the policy is a :class:`~rlkit_sac.data.collect.recorded_policy.RecordedPolicy`.

    Args:
        env: a Gymnasium environment made by :func:`~rlkit_sac.envs.make_env`.
        policy: the acting policy, on the environment's device; parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames of each batch, a multiple of the number of environments.
        init_random_frames: number of first frames with actions drawn from the action space.
        random_policy: a policy that replaces these draws, see
            :func:`~rlkit_sac.data.make_collector`.

    Raises:
        ConfigError: for a number of frames that the environments cannot share evenly.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> collector = LightCollector(
    ...     make_env("Pendulum-v1"), policy, total_frames=4, frames_per_batch=2
    ... )
    >>> [batch["action"].shape for batch in collector]
    [torch.Size([2, 1]), torch.Size([2, 1])]
    """

    def _prepare(self) -> None:
        mode = ExplorationType.RANDOM
        self._loop = ActingLoop(
            self.env, self.policy, exploration_type=mode, random_policy=self.random_policy
        )
        self._loop.reset()

    def _collect(self, *, random: bool) -> TensorDictBase:
        self._loop.rollout(self._steps, random=random, first_index=self.first_index)
        return self._loop.frame.batch()

    def state_dict(self) -> dict[str, Any]:
        """Return the frames so far, the unfinished episodes, and the entries of the next step."""
        episodes = save_episodes(self.env)
        return {"frames": self.frames, "episodes": episodes, "loop": self._loop.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        kept = load_episodes(self.env, state["episodes"])
        self.frames = state["frames"]
        self.inexact_reasons = []
        if not all(kept):
            self.inexact_reasons = [
                f"{kept.count(False)} of {len(kept)} environments, reset with the same seed and "
                "given the same actions, did not return the same; the next episode begins there"
            ]
        self._loop.load_state_dict(state["loop"], kept=kept)


class TorchRLCollector(_CountingCollector):
    """Yields the batches of TorchRL's collector; a resumed run begins new episodes.

    Args:
        env: the environment, batched or not.
        policy: the acting policy, on the environment's device.
        options: the other arguments of :class:`LightCollector`.
    """

    def _prepare(self) -> None:
        self.env = env = add_policy_states(self.env, self.policy)
        random_policy = self.random_policy or uniform_policy(env, env.full_action_spec)
        self._random_first = _RandomFirst(self.policy, random_policy)
        collector = Collector(
            env,
            self._random_first,
            total_frames=-1,  # endless: at the end TorchRL would close the environments
            frames_per_batch=self.frames_per_batch,
            device=env.device,
        )
        self._batches = iter(collector)

    def _collect(self, *, random: bool) -> TensorDictBase:
        self._random_first.is_random = random
        batch: TensorDictBase = next(self._batches)
        check_frames(batch, self.env, self.policy, first_index=self.first_index)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the frames so far."""
        return {"frames": self.frames}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to count frames from a state."""
        self.frames = state["frames"]
        self.inexact_reasons = ["TorchRL's environments begin new episodes"]


class _RandomFirst(TensorDictModuleBase):
    """A policy that another one replaces in random frames; with memory or masks both run."""

    def __init__(self, policy: TensorDictModuleBase, random_policy: Callable[..., Any]) -> None:
        super().__init__()
        # A function may name neither.
        self.in_keys = getattr(policy, "in_keys", [])
        self.out_keys = getattr(policy, "out_keys", [])
        self.policy, self.random_policy = policy, random_policy
        self._always_acts = bool([*state_keys(policy), *getattr(random_policy, "in_keys", ())])
        self.is_random = False

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._always_acts or not self.is_random:
            tensordict = self.policy(tensordict)
        return self.random_policy(tensordict) if self.is_random else tensordict


def add_policy_states(env: EnvBase, policy: TensorDictModuleBase) -> EnvBase:
    """Return an environment that carries the state of a policy's memory from step to step.

    Args:
        env: the environment; a transform is appended unless it already has these entries.
        policy: a policy, with or without a memory.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> env = make_env("Pendulum-v1")
    >>> add_policy_states(env, tanh_gaussian_actor(3, [-1.0], [1.0])) is env
    True
    """
    missing = set(state_keys(policy)) - set(env.observation_spec.keys(True, True))
    if not missing:
        return env
    written = written_entries(policy, env.fake_tensordict())
    states = {key: written[next_key(key)][(0,) * env.batch_dims] for key in missing}
    specs = {key: Unbounded(x.shape, x.device, x.dtype) for key, x in states.items()}
    return env.append_transform(TensorDictPrimer(specs, expand_specs=True))


LocalCollector: TypeAlias = LightCollector | TorchRLCollector


def make_collector(
    env: EnvBase,
    policy: TensorDictModuleBase,
    *,
    total_frames: int,
    frames_per_batch: int,
    init_random_frames: int = 0,
    random_policy: TensorDictModuleBase | None = None,
) -> LocalCollector:
    """Return a collector in this process that yields ``total_frames`` frames, the last batch whole.

    A :class:`LightCollector` steps a Gymnasium environment that :func:`~rlkit_sac.envs.make_env`
    made. TorchRL's ``Collector`` steps any other environment, also one with further transforms.

    NaN or infinity raises `RunError` with the frame of the run, before the batch is yielded. This
    concerns observations (after transforms), inputs of the policy, rewards, actions and
    ``behavior`` (the distribution that actions were drawn from).

    A policy with memory reads entries, such as ``actor_state``, that it also writes under
    ``"next"``. They are zero where an episode begins, and each frame holds them before and after
    its step. In random frames the policy also runs, and its action is replaced. TorchRL's collector
    appends a ``TensorDictPrimer`` of these entries to ``env``, unless it has one.

    Args:
        env: the environment, batched or not.
        policy: the acting policy, on the environment's device; parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames of all environments in a batch, a multiple of their number.
        init_random_frames: number of first frames with actions drawn from the action space,
            rounded up to whole batches. With masks, allowed actions are drawn, and the policy also
            runs.
        random_policy: a policy that replaces these draws. It reads no entry but masks and writes
            all entries that ``policy`` writes, except the state of a memory. A loss that reads the
            distribution of the stored actions needs a :class:`~rlkit_sac.modules.RandomBehavior`.

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
    light = ActingLoop.can_run(env, policy)
    return (LightCollector if light else TorchRLCollector)(
        env,
        policy,
        total_frames=total_frames,
        frames_per_batch=frames_per_batch,
        init_random_frames=init_random_frames,
        random_policy=random_policy,
    )
