"""Construction of TorchRL environments from an id, a class or a function."""

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
from rlkit_sac.envs.exploration_noise import ExplorationNoise
from rlkit_sac.envs.gym_env import create_env, env_name, find_env_spec, warn_of_statistics, wrap_env
from rlkit_sac.envs.in_use import mark_in_use, refuse_shared
from rlkit_sac.envs.seeding import EpisodeSeeding, episode_seed
from rlkit_sac.envs.torchrl_env import (
    MadeGymEnv,
    MadeSerialEnv,
    PreviousAction,
    gym_envs,
)
from rlkit_sac.errors import ConfigError, EnvironmentFault, summary

# `check_env` waits this many steps for the end of an episode.
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
    noise_color: float = 0.0,
    max_episode_steps: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> EnvBase:
    """Make a TorchRL environment of a Gymnasium id, ready for a collector.

    It has these keys, where ``*`` is `[num_envs]` for several environments and nothing for one:

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
    - ``success`` int8 `[*, 1]`, 1 or 0 by the task's ``info["is_success"]`` or ``info["success"]``,
      and -1 where it has neither,
    - ``episode_reward``, the sum of the task's own rewards, float64 (on MPS float32) `[*, M]`,
      ``step_count`` `[*, 1]`, ``is_init`` `[*, 1]`,
    - ``prev_action`` as ``action``, zeros at the start of an episode.

    Each episode of Gymnasium is seeded from ``seed``, the index of its environment and its number
    there. So the same seed and actions give the same episode, whatever happened in earlier ones. A
    TorchRL environment of a function, with the batch size ``[]`` or ``[N]``, is seeded once.
    :class:`~rlkit_sac.envs.adapted_env.TaskConversion` turns its leaves into these entries.

    Args:
        env_id: a Gymnasium id, ``Name-v0`` or ``module:Name-v0`` (ids with ``mo-`` first need no
            module); a task of the package: ``Platform-v0``, ``Moving-v0``, ``Sliding-v0``,
            ``HardMove-v0``, ``HardMove-v1``, ``Goal-v0``; an entry of Gymnasium's registry, for a
            process in which it is not registered; or a class, a function or
            ``module:function`` that makes a new environment of Gymnasium or TorchRL in each call.
        num_envs: number of environments that run side by side. Default: 1.
        first_index: index of the first environment among all of the run. Default: 0.
        seed: seed of the run, at least 0. Default: 0.
        device: the device of the tensors. Default: CPU.
        rescale_actions: if true, continuous actions are in [-1, 1] instead of the environment's
            bounds. Default: True.
        action_bounds: bounds of continuous actions, ``[low, high]`` or a pair for each dimension,
            for tasks with infinite or too wide bounds. Default: the bounds of the task.
        action_mask: if true, the masks of allowed actions that a task gives become an entry.
            Default: True.
        frame_stack: number of frames that are observed at once, oldest first, in a stack of
            :class:`~rlkit_sac.envs.FrameStack`. Default: 1.
        observation_indices: the entries of a vector observation that ``observation`` holds, in this
            order, counted from 0 after flattening; the others are hidden. Default: all.
        observation_keys: the parts of a structured observation that ``observation`` and images
            hold. Default: all.
        critic_keys: the parts that critics read, as ``critic_observation``. Default: the same.
        noise_color: exponent of noise that is correlated within an episode, as the entry
            ``exploration_noise`` for a :class:`~rlkit_sac.modules.CorrelatedNoise`. Default: 0, no
            such entry.
        max_episode_steps: time limit in frames instead of the registered one.
        kwargs: arguments of the environment's constructor.
        render_mode: Gymnasium's render mode.

    Exceptions of an environment are raised as `EnvironmentFault`.

    Raises:
        ConfigError: if the environment is unknown, cannot be built, or has unsupported spaces; if
            ``observation_indices`` is empty, repeats an index or exceeds the vector; or for a
            ``frame_stack`` above 1 without an image.

    >>> env = make_env("Pendulum-v1")
    >>> env.rollout(5)["next", "reward"].shape
    torch.Size([5, 1])
    """
    if callable(env_id):
        env_id = EnvSpec(env_name(getattr(env_id, "__name__", "task")), entry_point=env_id)
    spec = find_env_spec(env_id) if isinstance(env_id, str) else env_id
    construct = partial(create_env, spec, max_episode_steps, kwargs, render_mode)
    options: dict[str, Any] = {
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
                made = SerialEnv(num_envs, partial(_make_another, construct, spec.id))
            else:
                made = TransformedEnv(made, BatchSizeTransform(batch_size=[num_envs]))
        adapted = _adapt(made.to(device), spec.id, num_envs, **options)
        adapted.set_seed(episode_seed(seed, first_index, 0))
        parts = [InitTracker(), StepCounter(max_steps=max_episode_steps), PreviousAction()]
        if noise_color:
            size = len(adapted.task.act.low)
            parts.append(ExplorationNoise(size, noise_color, max_episode_steps))
        return TransformedEnv(adapted, Compose(*parts))
    no_float64 = torch.device(device).type == "mps"
    options |= {"seed": seed, "frame_stack": frame_stack, "noise_color": noise_color}
    options |= {"sum_type": np.float32 if no_float64 else np.float64}
    first = [made]  # the first environment is used as it is; the others are made like it

    def single(*, env_index: int, device: torch.device | str = "cpu") -> MadeGymEnv:
        env = first.pop() if first else construct()
        assert isinstance(env, gym.Env)
        env = wrap_env(spec, env, env_index=env_index, **options)
        return MadeGymEnv(env, categorical_action_encoding=True, device=device)

    if num_envs == 1:
        base = single(env_index=first_index, device=device)
    else:
        arguments = [{"env_index": first_index + index} for index in range(num_envs)]
        base = MadeSerialEnv(num_envs, single, create_env_kwargs=arguments, device=device)
    return TransformedEnv(base, Compose(InitTracker(), StepCounter(), PreviousAction()))


def _make_another(construct: Callable[[], EnvBase], name: str) -> EnvBase:
    """Make one of several environments; a function must not return the same one twice."""
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
        raise ConfigError(f"{name}: {summary(error)}") from error


@contextmanager
def closing_env(env: EnvBase) -> Iterator[EnvBase]:
    """Close an environment at the end of the block, also after an exception.

    Args:
        env: an environment, open or closed.

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
    """Close an environment, open or not: a ``ParallelEnv`` opens at its first reset."""
    if isinstance(env, EnvBase):
        env.close(raise_if_closed=False)
    else:
        env.close()


def check_env(
    env_id: str, *, kwargs: Mapping[str, Any] | None = None, max_episode_steps: int | None = None
) -> None:
    """Check an environment: that it can be built, and passes Gymnasium's or TorchRL's checks.

    Gymnasium checks the environment that the entry point returns, with its wrappers.

    Gymnasium's advice becomes a warning. So do random generators of the environment, which may
    ignore the seed, and a TorchRL environment that loses the last observation of an episode:
    it gives the first one of the next episode, zeros or NaN instead.

    Args:
        env_id: a Gymnasium id, ``Name-v0`` or ``module:Name-v0``, or ``module:function``.
        kwargs: arguments of the environment's constructor.
        max_episode_steps: time limit in frames.

    Raises:
        ConfigError: as :func:`make_env`.
        EnvironmentFault: if the environment raises an exception or fails a check.

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
            wrapped = wrapped.env  # down to the result of the entry point
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*different from the unwrapped version")
                env_checker.check_env(wrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:
            if "does not call `super().reset(seed=seed)`" not in str(error):
                raise EnvironmentFault(f"{env_id}: {summary(error)}") from error
            # The environment's own generator may still follow the seed, as in MinAtar.
            print(f"warning: {env_id}: {error}", file=sys.stderr)


def _check_torchrl(env: EnvBase, env_id: str) -> None:
    """Run TorchRL's own check, and print the warnings of steps until an episode ends."""
    with warnings.catch_warnings(record=True) as caught:
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
    for message in [warning.message for warning in caught if warning.category is UserWarning]:
        print(f"warning: {env_id}: {message}", file=sys.stderr)
