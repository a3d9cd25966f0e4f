"""The light collector, TorchRL's made resumable, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, TensorDictPrimer
from torchrl.envs.utils import ExplorationType
from torchrl.modules import RandomPolicy

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.collect.acting_loop import ActingLoop
from rlkit_sac.data.collect.finite import check_frames
from rlkit_sac.data.collect.policy_entries import (
    check_saved_state,
    next_key,
    state_keys,
    written_entries,
)
from rlkit_sac.envs import load_episodes, save_episodes
from rlkit_sac.errors import ConfigError, EnvironmentFault


class _EpisodeState:
    """What both collectors share: the state of their environments, and errors with frame numbers.

    Attributes:
        inexact_reasons: why the environments do not continue exactly from the loaded state, if so.
        first_index: of the environments, for messages.
        workers: that collect a batch together, each an equal part, for messages.
    """

    env: EnvBase
    inexact_reasons: Sequence[str] = ()
    first_index = 0
    workers = 1
    total_frames: int
    _frames: int
    _acting: object  # the policy

    @property
    def frames(self) -> int:
        """Frames collected so far."""
        return self._frames

    @frames.setter
    def frames(self, frames: int) -> None:
        self._frames = frames

    def end(self) -> None:
        """Collect no further batch."""
        self.total_frames = self._frames

    def _load_episodes(self, state: Mapping[str, Any]) -> list[bool]:
        """Continue the environments and the count of frames; which episodes continue exactly."""
        kept = load_episodes(self.env, state["episodes"])
        self._frames = state["frames"]
        self.inexact_reasons = []
        if not all(kept):
            self.inexact_reasons = [
                f"{kept.count(False)} of {len(kept)} environments, reset with the same seed and "
                "given the same actions, did not return the same; the next episode begins there"
            ]
        return kept

    def _check_finite(self, batch: TensorDictBase) -> None:
        check_frames(
            batch,
            self.env,
            self._acting,
            frames=self._frames,
            first_index=self.first_index,
            workers=self.workers,
        )

    def _at_frame(self, fault: EnvironmentFault, batch: int) -> EnvironmentFault:
        """The fault with the frames of the run in its message.

        Args:
            fault: of an environment.
            batch: frames collected when it happened.
        """
        first, last = self._frames + 1, self._frames + batch * self.workers
        when = f"frame {first}" if first == last else f"the frames {first} to {last}"
        return EnvironmentFault(f"at {when} of the run: {fault}")


class LightCollector(_EpisodeState):
    """Collects the same batches as TorchRL's collector, in a fraction of its time.

    Keys, values and random numbers are the same. The Gymnasium environments are stepped directly,
    and the policy is a :class:`~rlkit_sac.data.collect.recorded_policy.RecordedPolicy`.

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
        self._acting = policy
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
            RunError: for NaN or infinity from an environment or the policy.
        """
        random = self._frames < self.init_random_frames
        try:
            self._loop.rollout(self._steps, random=random, check=self._check_finite)
        except EnvironmentFault as fault:
            raise self._at_frame(fault, self.frames_per_batch) from fault.__cause__
        return self._loop.frame.batch()

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
            ConfigError: if the environments are others than those of the state, or the policy has
                a memory that the state has not.
        """
        self._loop.load_state_dict(state["loop"], kept=self._load_episodes(state))

    def shutdown(self) -> None:
        """Close the environments."""
        if not self.env.is_closed:
            self.env.close()


class ResumableCollector(_EpisodeState, Collector):
    """TorchRL's collector, whose state includes that of its environments.

    TorchRL's own state does not include that of the environments, so that a resumed run begins new
    episodes. Here an environment repeats its unfinished episode from its seed and actions.

    TorchRL offers no public access to its counters of frames and batches nor to the TensorDict that
    it steps from: ``_frames``, ``_iter``, ``_carrier`` and ``_increment_frames`` are its own names.

    Args:
        env: batched or not.
        policy: acts on the environment's device.
        init_random_frames: first frames, with actions drawn from the action space.
        random_policy: acts instead of these draws, see :func:`make_collector`.
        options: as for TorchRL's collector.
    """

    def __init__(
        self,
        env: EnvBase,
        policy: TensorDictModuleBase,
        *,
        init_random_frames: int = 0,
        random_policy: TensorDictModuleBase | None = None,
        **options: Any,
    ) -> None:
        self._random_first = None
        if random_policy is None and init_random_frames and state_keys(policy):
            random_policy = RandomPolicy(env.full_action_spec)
        if random_policy is not None:
            self._random_first = policy = _RandomFirst(policy, random_policy)
            self._random_frames, init_random_frames = init_random_frames, 0
        self._acting = policy
        super().__init__(
            _with_states(env, policy), policy, init_random_frames=init_random_frames, **options
        )

    def state_dict(self) -> dict[str, Any]:
        """Frames so far, the environments' episodes, and the TensorDict of the next step."""
        root = self._carrier.exclude("collector")
        return {
            "frames": self._frames,
            "iter": self._iter,
            "episodes": save_episodes(self.env),
            "root": list(root.items(True, True)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ConfigError: as of :class:`LightCollector`.
        """
        check_saved_state((key for key, _ in state["root"]), state_keys(self._acting))
        kept = self._load_episodes(state)
        self._iter = state["iter"]
        with torch.no_grad():
            root = self.env.reset()
        mask = torch.tensor(kept, device=root.device).reshape(root.batch_size)
        for key, value in state["root"]:
            saved, fresh = value.to(root.device), root.get(key, None)
            if fresh is None or all(kept):
                root.set(key, saved)
            else:
                fits = mask.reshape(*mask.shape, *[1] * (saved.ndim - mask.ndim))
                root.set(key, torch.where(fits, saved, fresh))
        self._carrier.update(root)

    def _increment_frames(self, numel: int) -> bool:
        """Count frames; whether they are all there.

        TorchRL would close the environments here, before the last batch is out and their state is
        saved; whoever opened them closes them, or :meth:`shutdown`.
        """
        self._frames += numel
        return bool(self._frames >= self.total_frames)

    def rollout(self) -> TensorDictBase:
        """Collect one batch.

        Raises:
            EnvironmentFault: for an exception inside an environment, with the frames of the run.
            RunError: for NaN or infinity from an environment or the policy.
        """
        if self._random_first is not None:
            self._random_first.is_random = self._frames < self._random_frames
        try:
            batch = super().rollout()
        except EnvironmentFault as fault:
            acted = self._carrier.exclude("next").unsqueeze(-1)  # the numbers may be its cause
            check_frames(acted, self.env, self._acting, frames=None, first_index=self.first_index)
            raise self._at_frame(fault, self.requested_frames_per_batch) from fault.__cause__
        self._check_finite(batch)
        return batch


class _RandomFirst(TensorDictModuleBase):
    """A policy, and the one that acts in its place in the first frames; only memory runs on."""

    def __init__(self, policy: TensorDictModuleBase, random_policy: Callable[..., Any]) -> None:
        super().__init__()
        self.in_keys, self.out_keys = policy.in_keys, policy.out_keys
        self.policy, self.random_policy = policy, random_policy
        self._has_memory = bool(state_keys(policy))
        self.is_random = False

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._has_memory or not self.is_random:
            tensordict = self.policy(tensordict)
        return self.random_policy(tensordict) if self.is_random else tensordict


def _with_states(env: EnvBase, policy: TensorDictModuleBase) -> EnvBase:
    """The environment, with a transform that carries the state of the policy unless it has one."""
    missing = set(state_keys(policy)) - set(env.observation_spec.keys(True, True))
    if not missing:
        return env
    written = written_entries(policy, env.fake_tensordict())
    states = {key: written[next_key(key)][(0,) * env.batch_dims] for key in missing}
    specs = {key: Unbounded(one.shape, one.device, one.dtype) for key, one in states.items()}
    return env.append_transform(TensorDictPrimer(specs, expand_specs=True))


AnyCollector: TypeAlias = LightCollector | ResumableCollector
CollectorKind = Literal["auto", "light", "torchrl"]


def make_collector(
    env: EnvBase,
    policy: TensorDictModuleBase,
    *,
    total_frames: int,
    frames_per_batch: int,
    init_random_frames: int = 0,
    random_policy: TensorDictModuleBase | None = None,
    kind: CollectorKind = "auto",
) -> AnyCollector:
    """A collector in this process that yields ``total_frames`` frames, the last batch whole.

    NaN or infinity in what the environment observes (after its transforms), in what the policy
    reads, in rewards, actions or ``behavior`` (the distribution that they were drawn from) raises
    `RunError`, with the frame of the run, before the batch is yielded.

    A policy with memory reads entries, such as ``actor_state``, that it also writes under
    ``"next"``. They are zero where an episode begins, and each frame holds them before and after
    its step. In random frames it runs as in others, and its action is replaced. TorchRL's collector
    appends a ``TensorDictPrimer`` of these entries to ``env``, unless it has one.

    Args:
        env: batched or not; ``frames_per_batch`` counts the frames of all its environments.
        policy: acts on the environment's device; its parameters are read at every step.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames between two yields, a multiple of the number of environments.
        init_random_frames: first frames, in which actions are drawn from the action space; rounded
            up to whole batches.
        random_policy: acts instead of these draws. It reads no entries and writes all that
            ``policy`` writes but the state of a memory, such as a
            :class:`~rlkit_sac.modules.RandomBehavior` where a loss reads the distribution of the
            stored actions.
        kind: ``"torchrl"`` for TorchRL's collector, ``"light"`` for a :class:`LightCollector`,
            ``"auto"`` for the light one where it can step the environments.

    Raises:
        ConfigError: for a number of frames that the environments cannot share evenly, or
            environments that the light collector cannot step.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> collector = make_collector(
    ...     make_env("Pendulum-v1"), policy, total_frames=6, frames_per_batch=2
    ... )
    >>> [list(batch.shape) for batch in collector]
    [[2], [2], [2]]
    """
    steps_per_batch(frames_per_batch, env.batch_size.numel())
    options: dict[str, Any] = {
        "total_frames": _round_up(total_frames, frames_per_batch),
        "frames_per_batch": frames_per_batch,
        "init_random_frames": _round_up(init_random_frames, frames_per_batch),
        "random_policy": random_policy,
    }
    can_be_light = ActingLoop.can_run(env, policy)
    if kind == "torchrl" or (kind == "auto" and not can_be_light):
        return ResumableCollector(env, policy, device=env.device, **options)
    if not can_be_light:
        raise ConfigError(
            "the light collector steps environments that make_env made, with a policy that has "
            "in_keys: for other transforms or other policies choose the collector 'torchrl' or "
            "'auto'"
        )
    return LightCollector(env, policy, **options)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
