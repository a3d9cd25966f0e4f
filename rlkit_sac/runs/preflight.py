"""The task, options and places of a run, checked before anything is created."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Composite
from torchrl.envs import EnvBase

from rlkit_sac.config import EnvConfig, FramesConfig
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.data.replay.transition import example_transition
from rlkit_sac.envs.gym_env import find_env_spec
from rlkit_sac.envs.specs import action_mask_key, observation_layout, reward_dim
from rlkit_sac.envs.tasks import NAMESPACE
from rlkit_sac.errors import ConfigError, refuse
from rlkit_sac.runs.checkpoints.resume import stored_options
from rlkit_sac.runs.machine import num_ranks

if TYPE_CHECKING:
    from rlkit_sac.runs.run_config import RunConfig

#: Time limit in frames of a task that declares none.
TIME_LIMIT = 10_000


def check_slices(config: RunConfig) -> None:
    """Refuse slices that replay cannot hold, that come too late, or that targets lack.

    Args:
        config: of the run.

    Raises:
        ConfigError: naming the option and what it has to be.

    >>> from rlkit_sac.config import LossConfig
    >>> from rlkit_sac.runs import RunConfig
    >>> check_slices(RunConfig(loss=LossConfig(lmbda=0.9)))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: loss.lmbda is 0.9, which needs slices of more than one frame: ...
    """
    replay, frame_stack, num_envs = config.replay, config.env.frame_stack, config.batch_envs
    length, layout = replay.slice_length, config.collector.replay_layout(num_envs)
    if length == 1:
        if config.loss.lmbda:
            raise ConfigError(
                f"loss.lmbda is {config.loss.lmbda}, which needs slices of more than one frame: "
                "set replay.slice_length, or leave loss.lmbda at 0"
            )
        if config.has_memory:
            raise ConfigError(
                "network.memory needs slices of more than one frame: set replay.slice_length, for "
                "example to 8"
            )
        if frame_stack == 1:
            return
    options: dict[str, Any] = {"within_batches": config.workers.is_async} | layout
    SliceSampler(length, capacity=replay.capacity, frame_stack=frame_stack, **options)
    steps = steps_per_batch(**layout)
    needed = -(-(length + frame_stack - 1) // steps) * steps * num_envs * num_ranks()
    if (starts := config.collector.learning_starts) < needed:
        slices = f"slices of {length} frames" if length > 1 else "samples"
        stacks = f" in stacks of {frame_stack} (env.frame_stack)" if frame_stack > 1 else ""
        raise ConfigError(
            f"{slices}{stacks} need collector.learning_starts of at least {needed}, got {starts}"
        )


def check_images(wanted: object, *, has_images: bool) -> None:
    """Refuse an option of images for a task without any.

    Args:
        wanted: the option's value; one that is false or 0 is fine for every task.
        has_images: whether the task has some.

    Raises:
        ConfigError: saying that there are none.

    >>> check_images(0, has_images=False)
    """
    if wanted and not has_images:
        raise ConfigError(f"is {wanted}, but the task has no images: leave it out")


def limit_episodes(env: EnvConfig, resume: str | None) -> None:
    """Give a task that declares no time limit one of :data:`TIME_LIMIT` frames, and warn of it.

    Without a limit an evaluation might never end. A run to resume keeps what it began with.

    Args:
        env: with the id of the task; its ``max_episode_steps`` is set.
        resume: the run to resume, if any.

    Raises:
        ConfigError: for an unknown task.

    >>> config = EnvConfig(id="Blackjack-v1")
    >>> limit_episodes(config, None)  # prints a warning
    >>> config.max_episode_steps
    10000
    """
    task = find_env_spec(env.id)
    declared = task.max_episode_steps is not None or task.namespace == NAMESPACE
    if declared or env.max_episode_steps is not None:
        return
    if resume is not None:
        with suppress(ConfigError):  # which is that of the resumed run, and has its own check
            env.max_episode_steps = stored_options(resume)["env.max_episode_steps"]
        return
    env.max_episode_steps = TIME_LIMIT
    _warn(
        f"{env.id} declares no time limit: its episodes end after {TIME_LIMIT} frames at the "
        "latest (env.max_episode_steps)"
    )


def warn_without_updates(collector: FramesConfig, num_envs: int) -> None:
    """Warn of a run that ends before learning starts.

    Args:
        collector: how frames are gathered.
        num_envs: environments that step together.

    >>> from rlkit_sac.config import CollectorConfig
    >>> warn_without_updates(CollectorConfig(total_frames=500), num_envs=1)  # prints a warning
    """
    starts = getattr(collector, "learning_starts", 0)
    batch = collector.batch_frames(num_envs)
    frames = -(-collector.total_frames // batch) * batch
    if starts >= frames:
        _warn(f"no update in {frames} frames: collector.learning_starts is {starts}")


def warn_of_masks(env: EnvBase, policy: TensorDictModuleBase) -> None:
    """Warn of a policy that ignores the masks of allowed actions that its task gives.

    Args:
        env: of the task.
        policy: acts in it.
    """
    key = action_mask_key(env)
    if key is not None and key not in policy.in_keys:
        _warn(
            "the task gives masks of allowed actions, which the policy does not read: call "
            f"loss_module.set_keys(action_mask={key!r}), or set env.action_mask to false"
        )


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task that passed the checks of a recipe.

    Attributes:
        transition: one as replay stores it, without batch dimensions.
        reward_dim: dimensions of the reward, 1 for a scalar.
        action_spec: of one environment.
        has_images: whether it is observed by images.
    """

    transition: TensorDictBase
    reward_dim: int
    action_spec: Composite
    has_images: bool


def stored_transition(env: EnvBase) -> TensorDictBase:
    """One transition as the recipes of soft actor-critic store it.

    Args:
        env: of the task.

    >>> from rlkit_sac.envs import make_env
    >>> stored_transition(make_env("Pendulum-v1"))["next", "reward"].shape
    torch.Size([1])
    """
    masks = [] if (key := action_mask_key(env)) is None else [key]
    observed = [entry["key"] for entry in observation_layout(env)] + masks
    after = [("next", key) for key in (*observed, "reward", "done", "terminated")]
    return example_transition(env, [*observed, "action", *after])


def check_task(
    env: EnvBase,
    checks: Sequence[Callable[[EnvBase], object]],
    *,
    transition: Callable[[EnvBase], TensorDictBase] = stored_transition,
) -> TaskFacts:
    """Run all checks of a recipe on its environment.

    Args:
        env: of the task.
        checks: each raises `ConfigError` for a task that the recipe cannot learn.
        transition: one as the recipe stores it. Default: :func:`stored_transition`.

    Raises:
        ConfigError: with the messages of all checks that failed, one line each.

    >>> from rlkit_sac.envs import continuous_action_bounds, make_env
    >>> check_task(make_env("Pendulum-v1"), [continuous_action_bounds]).reward_dim
    1
    >>> check_task(make_env("CartPole-v1"), [continuous_action_bounds])
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: this algorithm acts in continuous spaces, but the actions are ...
    """
    problems = [problem for check in checks if (problem := _problem(check, env)) is not None]
    refuse(problems)
    has_images = any("scale" in entry for entry in observation_layout(env))
    spec = env.full_action_spec_unbatched
    return TaskFacts(transition(env), reward_dim(env), spec, has_images)


def _problem(check: Callable[[EnvBase], object], env: EnvBase) -> str | None:
    try:
        check(env)
    except ConfigError as error:
        return str(error)
    return None
