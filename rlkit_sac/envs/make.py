"""From an id, a class or a function to a TorchRL environment ready for a collector."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import env_checker
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from torchrl.envs import (
    BatchSizeTransform,
    Compose,
    EnvBase,
    InitTracker,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs

from rlkit_sac.envs.action_masks import ActionMasks
from rlkit_sac.envs.adapted_env import AdaptedEnv, adapted_task
from rlkit_sac.envs.gym_env import create, env_name, find_env_spec, make_gym_env, warn_of_statistics
from rlkit_sac.envs.in_use import mark_in_use, refuse_shared
from rlkit_sac.envs.seeding import EpisodeSeeding, episode_seed
from rlkit_sac.envs.torchrl_env import (
    EpisodicGymWrapper,
    EpisodicSerialEnv,
    PreviousAction,
    gym_envs,
)
from rlkit_sac.errors import ConfigError, EnvironmentFault, summary

# Within which an environment is watched for the end of an episode.
_STEPS_TO_AN_END = 2_000


def make_env(
    env_id: str | EnvSpec | Callable[..., Any],
    *,
    num_envs: int = 1,
    first_index: int = 0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    rescale_actions: bool = True,
    action_bounds: Any = None,
    action_mask: bool = True,
    frame_stack: int = 1,
    observation_indices: Sequence[int] | None = None,
    observation_keys: Sequence[str] | None = None,
    critic_keys: Sequence[str] | None = None,
    max_episode_steps: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> EnvBase:
    """Makes a TorchRL environment of a Gymnasium id, ready for a collector.

    Keys, where ``*`` is `[num_envs]` for several environments and nothing for one:

    - ``observation`` float32 `[*, D]`, flattened as
      :class:`~rlkit_sac.envs.observations.ObservationConversion` describes it; images keep shape
      and dtype, within a `Dict` or `Tuple` as entries such as ``image_camera`` beside it,
    - ``action`` float32 `[*, D]` in [-1, 1], or an int64 index `[*]`, or both as
      ``("action", "continuous")`` and ``("action", "discrete")``: nests of `Box` are flattened, and
      the environment receives its own structure
      (:class:`~rlkit_sac.envs.actions.ActionConversion`),
    - ``action_mask`` bool `[*, K]`, the allowed ones of K discrete actions, for a task that gives
      masks (:class:`~rlkit_sac.envs.action_masks.ActionMasks`),
    - ``("next", "reward")`` float32 `[*, 1]`, or `[*, M]` where the environment declares a
      ``reward_space`` of M numbers, ``done``, ``terminated``, ``truncated`` `[*, 1]`; a time limit
      sets ``truncated`` alone, and ``("next", "observation")`` is the true last one,
    - ``episode_reward``, the sum of the rewards as the task gives them, float64 (on MPS float32)
      `[*, M]`, ``step_count`` `[*, 1]`, ``is_init`` `[*, 1]`,
    - ``prev_action`` as ``action``, zeros at the start of an episode.

    Each episode of Gymnasium is seeded from ``seed``, the index of its environment and its number
    there, so the same seed and actions give the same episode, whatever happened in earlier ones. A
    TorchRL environment of a function, with the batch size ``[]`` or ``[N]``, is seeded once; its
    leaves become these entries as :class:`~rlkit_sac.envs.adapted_env.TaskEntries` says.

    Args:
        env_id: Gymnasium id, ``Name-v0`` or ``module:Name-v0``, or a task of the package:
            ``Platform-v0``, ``Moving-v0``, ``Sliding-v0``, ``HardMove-v0``, ``HardMove-v1``,
            ``Goal-v0``.
            MO-Gymnasium's ids that begin with ``mo-`` need no module. Or a task of Gymnasium's
            registry, for a process in which it is not registered; or a class or function that
            makes a new environment, of Gymnasium or TorchRL, in each call; or ``module:function``.
        num_envs: environments that run side by side. Default: 1.
        first_index: index of the first environment, where others of the run are made elsewhere.
            Default: 0.
        seed: seed of the run, at least 0. Default: 0.
        device: where the tensors lie. Default: CPU.
        rescale_actions: whether continuous actions are in [-1, 1] instead of the environment's
            bounds. Default: True.
        action_bounds: of continuous actions, ``[low, high]`` or one for each dimension, for tasks
            whose own are infinite or too wide. Default: those of the task.
        action_mask: whether the masks of allowed actions that a task gives become an entry.
            Default: True.
        frame_stack: frames of each image that are observed at once, oldest first, as
            :class:`~rlkit_sac.envs.FrameStack` does. Default: 1.
        observation_indices: the entries of a vector observation that ``observation`` holds, in this
            order, counted from 0 after flattening; the others are hidden. Default: all.
        observation_keys: the parts of a structured observation that ``observation`` and images
            hold. Default: all.
        critic_keys: those that critics read, as ``critic_observation``. Default: the same.
        max_episode_steps: time limit in frames instead of the registered one.
        kwargs: arguments of the environment's constructor.
        render_mode: Gymnasium's render mode.

    Exceptions of an environment are raised as `EnvironmentFault`.

    Raises:
        ConfigError: the environment is unknown, cannot be built, or has unsupported spaces;
            ``observation_indices`` is empty, or holds an index twice or one that there is not;
            ``frame_stack`` is above 1 without an image.

    >>> env = make_env("Pendulum-v1")
    >>> env.rollout(5)["next", "reward"].shape
    torch.Size([5, 1])
    """
    if callable(env_id):
        env_id = EnvSpec(env_name(getattr(env_id, "__name__", "task")), entry_point=env_id)
    spec = find_env_spec(env_id) if isinstance(env_id, str) else env_id
    construct = partial(create, spec, max_episode_steps, kwargs, render_mode)
    seen: dict[str, Any] = {
        "rescale_actions": rescale_actions,
        "action_bounds": action_bounds,
        "action_mask": action_mask,
        "observation_indices": observation_indices,
        "observation_keys": observation_keys,
        "critic_keys": critic_keys,
    }
    made = construct()
    if isinstance(made, EnvBase):
        warn_of_statistics(made, spec.id)
        if frame_stack > 1:
            raise ConfigError(
                f"{spec.id}: env.frame_stack is for Gymnasium: use TorchRL's CatFrames"
            )
        if num_envs > 1 and not made.batch_size:
            if made.batch_locked:
                made.close()
                made = SerialEnv(num_envs, partial(_new, construct, spec.id))
            else:
                made = TransformedEnv(made, BatchSizeTransform(batch_size=[num_envs]))
        adapted = _adapt(made.to(device), spec.id, num_envs, **seen)
        adapted.set_seed(episode_seed(seed, first_index, 0))
        counter = StepCounter(max_steps=max_episode_steps)
        return TransformedEnv(adapted, Compose(InitTracker(), counter, PreviousAction()))
    no_float64 = torch.device(device).type == "mps"
    seen |= {"seed": seed, "frame_stack": frame_stack}
    seen |= {"sum_type": np.float32 if no_float64 else np.float64}
    first = [made]  # whose spaces are known to be right; the others are made alike

    def single(*, env_index: int, device: torch.device | str = "cpu") -> EpisodicGymWrapper:
        env = first.pop() if first else construct()
        assert isinstance(env, gym.Env)
        env = make_gym_env(spec, env, env_index=env_index, **seen)
        return EpisodicGymWrapper(env, categorical_action_encoding=True, device=device)

    if num_envs == 1:
        base = single(env_index=first_index, device=device)
    else:
        arguments = [{"env_index": first_index + index} for index in range(num_envs)]
        base = EpisodicSerialEnv(num_envs, single, create_env_kwargs=arguments, device=device)
    return TransformedEnv(base, Compose(InitTracker(), StepCounter(), PreviousAction()))


def _new(construct: Callable[[], EnvBase], name: str) -> EnvBase:
    """One of several environments, which must not be another of them."""
    env = construct()
    refuse_shared(env, name)
    mark_in_use(env, env)
    return env


def _adapt(env: EnvBase, name: str, num_envs: int, **options: Any) -> AdaptedEnv:
    if num_envs not in (1, env.batch_size.numel()):
        raise ConfigError(
            f"{name}: env.num_envs is {num_envs}, but the function made a batch of "
            f"{env.batch_size.numel()}: set that, or give the function the number (env.kwargs)"
        )
    refuse_shared(env, name)
    try:
        adapted = AdaptedEnv(env, **options)
        mark_in_use(env, adapted)
        return adapted
    except Exception as error:
        env.close(raise_if_closed=False)
        reason = error if isinstance(error, ConfigError) else summary(error)
        raise ConfigError(f"{name}: {reason}") from error


@contextmanager
def closing_env(env: EnvBase) -> Iterator[EnvBase]:
    """Close an environment at the end of the block, also after an exception.

    Args:
        env: open, or closed already by a collector.

    >>> with closing_env(make_env("Pendulum-v1")) as env:
    ...     _ = env.reset()
    >>> env.is_closed
    True
    """
    try:
        yield env
    finally:
        close_env(env)


def close_env(env: gym.Env[Any, Any] | EnvBase) -> None:
    """Close an environment, which need not be open: a ``ParallelEnv`` opens at its first reset."""
    if isinstance(env, EnvBase):
        env.close(raise_if_closed=False)
    else:
        env.close()


def check_env(
    env_id: str, *, kwargs: Mapping[str, Any] | None = None, max_episode_steps: int | None = None
) -> None:
    """Checks that an environment can be built, by Gymnasium's or TorchRL's own checks too.

    Gymnasium checks what the entry point returns, with the wrappers that it put on.

    What Gymnasium advises against is a warning, and so are random numbers of its own, of which
    Gymnasium cannot tell whether they follow the seed. So is an environment of TorchRL whose last
    observation of an episode is lost: the first of the next, zeros or NaN.

    Args:
        env_id: Gymnasium id, ``Name-v0`` or ``module:Name-v0``, or ``module:function``.
        kwargs: arguments of the environment's constructor.
        max_episode_steps: time limit in frames.

    Raises:
        ConfigError: as :func:`make_env`.
        EnvironmentFault: the environment raised an exception, or is not as Gymnasium wants it.

    >>> check_env("CartPole-v1")
    >>> check_env("Pendulun-v1")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: unknown environment 'Pendulun-v1': ... Did you mean: `Pendulum`...
    """
    with closing_env(make_env(env_id, kwargs=kwargs, max_episode_steps=max_episode_steps)) as env:
        if adapted_task(env) is not None:
            _check_torchrl(env, env_id)
            return
        wrapped = gym_envs(env)[0].env
        while isinstance(wrapped, (EpisodeSeeding, ActionMasks, TimeLimit, OrderEnforcing)):
            wrapped = wrapped.env  # what the entry point returned
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*different from the unwrapped version")
                env_checker.check_env(wrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:
            if "does not call `super().reset(seed=seed)`" not in str(error):
                raise EnvironmentFault(f"{env_id}: {summary(error)}") from error
            # A generator of its own may obey the seed all the same, as that of MinAtar.
            print(f"warning: {env_id}: {error}", file=sys.stderr)


def _check_torchrl(env: EnvBase, env_id: str) -> None:
    """TorchRL's own check, and what an environment warns of until an episode has ended."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        try:
            check_env_specs(env)
        except Exception as error:
            raise EnvironmentFault(f"{env_id}: {summary(error)}") from error
        state = env.reset()
        for _ in range(_STEPS_TO_AN_END):
            frame, state = env.step_and_maybe_reset(env.rand_action(state))
            if frame["next", "done"].any():
                break
        else:
            warnings.warn(f"no episode ended in {_STEPS_TO_AN_END} steps", stacklevel=1)
    for message in [each.message for each in told if each.category is UserWarning]:
        print(f"warning: {env_id}: {message}", file=sys.stderr)
