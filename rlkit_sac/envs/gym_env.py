"""Construction of Gymnasium environments in the package's conventions."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from torchrl.envs import EnvBase, GymWrapper, VecNorm, VecNormV2

from rlkit_sac.envs.action_masks import ACTION_MASK, with_action_masks
from rlkit_sac.envs.agent_env import AgentEnv
from rlkit_sac.envs.frame_stack import FrameStack
from rlkit_sac.envs.in_use import refuse_shared
from rlkit_sac.envs.seeding import EpisodeSeeding
from rlkit_sac.envs.spaces import leaves
from rlkit_sac.envs.tasks import NAMESPACE
from rlkit_sac.errors import ConfigError, summary

# The package of an environment determines the extra that installs its simulator.
_EXTRAS = {
    "gymnasium.envs.mujoco": "mujoco",
    "gymnasium.envs.box2d": "box2d",
    "mo_gymnasium.envs.mujoco": "mujoco",
    "mo_gymnasium.envs.lunar_lander": "box2d",
    "gymnasium_robotics": "robotics",
}
_MULTI_OBJECTIVE = "mo_gymnasium"
# Ids that name their package by themselves: the module that registers them, and its extra.
_PREFIXES = {
    "mo-": (_MULTI_OBJECTIVE, "mo"),
    "MinAtar/": ("minatar.gym", "minatar"),
    "ALE/": ("ale_py", "atari"),
    "Atari-v": ("ale_py", "atari"),
    **dict.fromkeys(("Fetch", "PointMaze_", "AntMaze_"), ("gymnasium_robotics", "robotics")),
}


def find_env_spec(env_id: str) -> EnvSpec:
    """Find an environment in Gymnasium's registry; of ``module:Id`` import ``module`` first.

    Args:
        env_id: ``Name-v0``, ``namespace/Name-v0`` or ``module:Name-v0``; or ``module:function``,
            a class or function that makes a new environment in each call. The package's own tasks
            need no namespace; names with ``mo-``, ``MinAtar/``, ``ALE/``, ``Fetch``,
            ``PointMaze_`` or ``AntMaze_`` first need no module.

    Raises:
        ConfigError: if the module cannot be imported, or the id is unknown; Gymnasium names a
            similar one.

    >>> find_env_spec("Pendulum-v1").max_episode_steps
    200
    """
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module, env_id)
    for prefix, (package, _) in _PREFIXES.items():
        if name.startswith(prefix) and name not in gym.registry:
            _import(package, env_id)
    if name not in gym.registry and f"{NAMESPACE}/{name}" in gym.registry:
        name = f"{NAMESPACE}/{name}"
    if module and name not in gym.registry:
        with suppress(AttributeError):
            made_by = attrgetter(name)(importlib.import_module(module))
            return EnvSpec(env_id, entry_point=made_by)
        if name.isidentifier():
            raise ConfigError(f"unknown environment {env_id!r}: {module} has no {name}")
    try:
        return gym.spec(name)
    except gym.error.Error as error:
        advice = "of another package name the module that registers it, too: 'module:Name-v0'"
        raise ConfigError(f"unknown environment {env_id!r}: {error} ({advice})") from error


def importable_name(made_by: Any) -> str | None:
    """Return ``module:function`` of an importable object; ``None`` for any other.

    >>> importable_name(gym.wrappers.TimeLimit), importable_name(lambda: None)
    ('gymnasium.wrappers.common:TimeLimit', None)
    """
    module, name = getattr(made_by, "__module__", None), getattr(made_by, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        return None
    with suppress(AttributeError, ImportError):
        if attrgetter(name)(importlib.import_module(module)) is made_by:
            return f"{module}:{name}"
    return None


def env_name(text: str) -> str:
    """Return any text as a name that Gymnasium accepts.

    >>> env_name("my task"), env_name("<lambda>")
    ('my-task', 'lambda')
    """
    return re.sub(r"[^\w/-]+", "-", text).strip("-") or "task"


def wrap_env(
    spec: EnvSpec,
    env: gym.Env[Any, Any],
    *,
    seed: int,
    env_index: int,
    action_mask: bool = True,
    frame_stack: int = 1,
    **options: Any,
) -> AgentEnv:
    """Wrap an environment: masks, stacks of frames, seeded episodes, conversions.

    Args:
        spec: the spec of the environment.
        env: an environment made by :func:`create_env`.
        seed: seed of the run.
        env_index: position among the environments that run side by side, from 0.
        action_mask: if true, masks of allowed actions become an entry.
        frame_stack: number of frames of each image that are observed at once.
        options: further arguments of :class:`~rlkit_sac.envs.agent_env.AgentEnv`.

    Raises:
        ConfigError: if the environment is already in use, or its spaces are not supported.

    >>> spec = find_env_spec("Pendulum-v1")
    >>> wrap_env(spec, create_env(spec), seed=0, env_index=0).action_space
    Box(-1.0, 1.0, (1,), float32)
    """
    refuse_shared(env, spec.id)
    warn_of_statistics(env, spec.id)
    try:
        env = with_action_masks(env) if action_mask else env
        # Within the seeded episode, which a resumed run repeats.
        env = FrameStack(env, frame_stack) if frame_stack > 1 else env
        seeded = EpisodeSeeding(env, seed=seed, env_index=env_index)
        return AgentEnv(seeded, action_mask=action_mask, **options)
    except Exception as error:  # spaces that are not supported, or none at all
        with suppress(Exception):
            env.close()
        raise ConfigError(f"{spec.id}: {summary(error)}") from error


def _import(module: str, env_id: str) -> None:
    try:
        if module == _MULTI_OBJECTIVE:
            # It imports pygame, which prints a greeting and raises deprecation warnings.
            with warnings.catch_warnings(), redirect_stdout(None):
                warnings.simplefilter("ignore")
                importlib.import_module(module)
        imported = importlib.import_module(module)
        if module == "minatar.gym":  # which registers nothing by itself
            imported.register_envs()
    except (Exception, SystemExit) as error:
        text = f"cannot import the module {module!r} of environment {env_id!r}: {summary(error)}"
        advice = "it must be installed or on the Python path"
        extra = dict(_PREFIXES.values()).get(module)
        if extra is not None and isinstance(error, ImportError):
            text, advice = f"{env_id} needs a missing package", f"pip install 'rlkit_sac[{extra}]'"
        raise ConfigError(f"{text}: {advice}") from error


def create_env(
    spec: EnvSpec,
    max_episode_steps: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> gym.Env[Any, Any] | EnvBase:
    """Make an environment of Gymnasium, or with a function also of TorchRL.

    Args:
        spec: an entry of the registry, or a spec with a function as entry point.
        max_episode_steps: time limit in frames, for Gymnasium; None keeps the registered one.
        kwargs: arguments of the environment's constructor.
        render_mode: Gymnasium's render mode, None for no rendering.

    Raises:
        ConfigError: if it cannot be built.

    >>> create_env(find_env_spec("torchrl.envs:PendulumEnv")).batch_size
    torch.Size([])
    """
    try:
        arguments = deepcopy(dict(kwargs or {}))  # a constructor may change them
        if render_mode is not None:
            arguments["render_mode"] = render_mode
        with warnings.catch_warnings(), _quiet_mujoco(spec):
            # The user of an id cannot act on deprecations and Gymnasium's own warnings.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", module=r"gymnasium\.")
            made_by: Any = spec.entry_point
            if callable(made_by):
                made: Any = made_by(**{**deepcopy(spec.kwargs), **arguments})
                if isinstance(made, gym.vector.VectorEnv):
                    check_lossless_wrap(made, action_mask=False)
                    made = GymWrapper(made)
                if isinstance(made, EnvBase):
                    return made
                limit = spec.max_episode_steps or getattr(made.spec, "max_episode_steps", None)
                only_made = cast(Any, lambda **_: made)
                spec, arguments = replace(spec, entry_point=only_made, max_episode_steps=limit), {}
            # The passive checker warns about the environment's own style on the first steps.
            env = gym.make(
                spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **arguments
            )
            if callable(made_by) and env.unwrapped.spec is not None:
                env.unwrapped.spec.entry_point = made_by
    except gym.error.DependencyNotInstalled as error:
        extra = _required_extra(spec)
        advice = error if extra is None else f"pip install 'rlkit_sac[{extra}]'"
        raise ConfigError(f"{spec.id} needs a missing package: {advice}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{spec.id} could not be created: {summary(error)[:400]}") from error
    modes = env.metadata.get("render_modes", [])
    if render_mode is not None and render_mode not in modes:
        env.close()
        raise ConfigError(f"{spec.id} cannot render in mode {render_mode!r}; its modes are {modes}")
    return env


def check_lossless_wrap(env: Any, *, action_mask: bool) -> None:
    """Refuse an environment of Gymnasium of which TorchRL's wrapper would lose or change a part.

    Args:
        env: an environment of Gymnasium; others are not checked.
        action_mask: if true, masks of allowed actions in ``info`` are refused.

    Raises:
        ConfigError: naming the part.
    """
    if not isinstance(env, gym.Env | gym.vector.VectorEnv):
        return
    is_vector, mode = isinstance(env, gym.vector.VectorEnv), env.metadata.get("autoreset_mode")
    prefix = "single_" if is_vector else ""
    observed, acted = (getattr(env, f"{prefix}{name}_space") for name in ("observation", "action"))
    parts = list(leaves(observed))
    starts = [getattr(leaf, "start", 0) for _, leaf, _ in (*parts, *leaves(acted))]
    kinds = {type(each) for path, leaf, _ in parts for each in (*path, leaf)}
    lost = {
        f"the vector wrapper {type(env).__name__}": isinstance(env, gym.vector.VectorWrapper),
        f"last observations in the autoreset mode {mode} (gymnasium:make_vec does, with "
        "vector_kwargs: {autoreset_mode: Disabled})": is_vector and mode != AutoresetMode.DISABLED,
        "the order of the parts of a Tuple": int in kinds,
        "MultiDiscrete observations of a vector": is_vector and gym.spaces.MultiDiscrete in kinds,
        "structured actions of a vector": is_vector and acted.shape is None,
        "choices that begin elsewhere than at 0": any(map(np.any, starts)),
        "masks of actions in info": action_mask and ACTION_MASK in env.reset(seed=0)[1],
    }
    for reason in filter(lost.get, lost):
        raise ConfigError(
            f"TorchRL's wrapper does not keep {reason}: give one environment of Gymnasium, "
            "without it, and env.num_envs"
        )


def warn_of_statistics(env: gym.Env[Any, Any] | EnvBase, name: str) -> None:
    """Warn of wrappers and transforms with other statistics in training than in evaluations."""
    layers = list(env.modules()) if isinstance(env, EnvBase) else []
    while isinstance(env, gym.Wrapper):
        layers, env = [*layers, env], env.env
    for layer in layers:
        if isinstance(layer, NormalizeObservation | NormalizeReward | VecNorm | VecNormV2):
            text = f"{type(layer).__name__} has other statistics in evaluations than in training"
            advice = "set normalization.observations and normalization.rewards instead"
            warnings.warn(f"{name}: {text}: {advice}", stacklevel=2)


@contextmanager
def _quiet_mujoco(spec: EnvSpec) -> Iterator[None]:
    """Keep MuJoCo from printing about Gymnasium's model files and logging to MUJOCO_LOG.TXT."""
    if _required_extra(spec) != "mujoco" or find_spec("mujoco") is None:
        yield
        return
    mujoco = importlib.import_module("mujoco")
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous)


def _required_extra(spec: EnvSpec) -> str | None:
    """Return the extra of the package that installs the simulator of an environment."""
    made_by = str(spec.entry_point)
    return next((extra for package, extra in _EXTRAS.items() if made_by.startswith(package)), None)
