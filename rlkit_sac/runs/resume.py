"""Resuming a run, and loading modules of an earlier one (warm start)."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from torch import nn
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from rlkit_sac.config.options import flat_config
from rlkit_sac.config.read import read_yaml
from rlkit_sac.config.run import BaseRunConfig, WarmStartConfig
from rlkit_sac.envs import describe_task
from rlkit_sac.envs.adapted_env import adapted_task
from rlkit_sac.envs.observations import is_image
from rlkit_sac.envs.spaces import leaves, path_str
from rlkit_sac.envs.task_tensors import make_conversions
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.errors import ConfigError, prefix_errors, refuse
from rlkit_sac.modules.structure import changed_layer, structure
from rlkit_sac.runs.checkpoint import STATE, Checkpoint
from rlkit_sac.runs.files import sha256
from rlkit_sac.runs.machine import num_ranks
from rlkit_sac.runs.policy import find_policy, load_policy, stored_task
from rlkit_sac.runs.saving import first_misfit, loss_parts
from rlkit_sac.updates.scheduled_values import schedule_value

#: Patterns of the options that a resumed run may give other values.
MAY_CHANGE = (
    "collector.total_frames",
    "workers.address",
    "workers.publish_interval",
    "workers.restarts",
    "workers.patience",
    "workers.cpus",
    "prior.run",  # it may have moved; the checkpoint has the prior's weights
    "replay.prior_data",  # the same, with a checksum
    "evaluation.interval",  # and all but kwargs, which make another task
    "evaluation.episodes",
    "evaluation.deterministic",
    "evaluation.epsilon",
    "evaluation.stop_at",
    "evaluation.stop_at_success",
    "evaluation.video",
    "loss.reward_weights",
    "update.lr*",
    "update.schedules",
    "device",
    "compile",
    "num_threads",
    "time_limit",
    "checkpoint.*",
    "logging.progress",
    "logging.tensorboard",
    "logging.wandb",
)

#: For each loadable module, the prefixes of its parameters' names in the loss.
PARAMETER_PREFIXES = {
    "actor": ("actor_network_params",),
    "qvalue": ("qvalue_network_params", "encoder_network_params"),
    "value": ("value_network_params",),
    "alpha": ("log_alpha",),
    "critic": ("critic_network_params",),
}
# Running statistics that critics depend on, and attributes; actors depend on the first alone.
_STATISTICS = (
    *("observation_normalizer", "critic_normalizer", "reward_normalizer.statistics"),
    *("reward_normalizer.largest", "bounded of 'reward_normalizer'", "gamma of ''"),
    *("clip of 'reward_normalizer'", "reward_scale of ''"),
)


def check_units(stored: dict[str, Any] | None, env: EnvBase, run: Path | str) -> None:
    """Refuse to take over data or networks of a run whose numbers have other meanings.

    Args:
        stored: the description of the earlier run's task, if it has one.
        env: the environment of the present run.
        run: the directory of the earlier run.

    Raises:
        ConfigError: naming the option, or the property of the actions, that differs.
    """
    own = describe_task(env)
    if stored is None or own is None:
        if stored is not own:
            text = "one of the environments has transforms of its own"
            warnings.warn(f"what the numbers of {run} mean is not known: {text}", stacklevel=2)
        return
    (seen, before), (sees, now) = make_conversions(stored), make_conversions(own)
    found, wanted = (
        [(path_str(path), _kind(leaf)) for path, leaf, _ in leaves(c.space)] for c in (seen, sees)
    )
    _check_equal("the parts of the observation", found, wanted, run)
    if before.agent_space().__class__ is not now.agent_space().__class__:
        return  # the shapes of the data or weights will not fit
    if not (np.all(now.low == -1) and np.all(now.high == 1)):  # else rescaling changes nothing
        _check_equal("env.rescale_actions", before.rescale, now.rescale, run)
    _check_equal(
        "env.observation_indices", stored["observation_indices"], own["observation_indices"], run
    )
    names = {"low": "lower bounds", "high": "upper bounds", "counts": "choices", "starts": "starts"}
    for name, text in names.items():
        found, wanted = (getattr(each, name).tolist() for each in (before, now))
        _check_equal(f"the {text} of the actions", found, wanted, run)


def _kind(leaf: Space[Any]) -> Any:
    """Return what must be equal for the numbers of a part of an observation to mean the same."""
    return list(leaf.shape) if isinstance(leaf, Box) and not is_image(leaf) else str(leaf)


def _check_equal(name: str, found: Any, wanted: Any, run: Path | str) -> None:
    if found != wanted:
        text = "the same numbers would mean two things"
        raise ConfigError(f"in {run} {name} was {found}, and is {wanted} here: {text}")


def check_resume(config: BaseRunConfig, start: Checkpoint, info: Mapping[str, Any]) -> list[str]:
    """Refuse to resume a run that is complete, or with options that must not change.

    Args:
        config: options of the run.
        start: the checkpoint where it resumes.
        info: the run's ``run.json``.

    Returns:
        The options that somebody has changed in ``config.yaml`` to values that the run will not
        have.

    Raises:
        ConfigError: with one line for each problem, or if ``config.yaml`` cannot be read.
    """
    folder, run_path, frames = start.folder, start.run_path, start.frames
    options = flat_config(config)
    problems = [
        f"{key} was {start.config[key]!r} in this run and cannot become {value!r}"
        for key, value in options.items()
        if key in start.config and start.config[key] != value
        if not any(fnmatch.fnmatchcase(key, pattern) for pattern in MAY_CHANGE)
    ]
    if problems:
        changeable = [pattern for pattern in MAY_CHANGE if fnmatch.filter(options, pattern)]
        problems.append(f"only {', '.join(changeable)} may change")
    batch = config.collector.batch_frames(config.batch_envs) * num_ranks()
    total = -(-config.collector.total_frames // batch) * batch  # the last batch is whole
    if frames > total or (frames == total and info["status"] == "finished"):
        text = f"at frame {frames:,} of {total:,} already: raise collector.total_frames"
        problems.append(f"{folder} is {text}")
    if (ranks := info.get("ranks", 1)) != num_ranks():
        problems.append(f"torchrun had {ranks} processes, which cannot become {num_ranks()}")
    refuse(problems)
    file = run_path / "config.yaml"
    if not file.is_file() or sha256(file.read_bytes()) == info.get("config_sha256"):
        return []
    values = {setting.key: setting.value for setting in read_yaml(file, config)}
    known = {key: (value, start.config.get(key)) for key, value in options.items()}
    return [key for key in known | values if values.get(key) not in known.get(key, [None])]


def task_facts(env: EnvBase) -> dict[str, Any]:
    """Return the entry point and time limit of a task, for ``run.json``.

    >>> from rlkit_sac.envs import make_env
    >>> task_facts(make_env("Pendulum-v1"))["max_episode_steps"]
    200
    """
    if describe_task(env) is None or adapted_task(env) is not None:
        return {}
    spec = gym_envs(env)[0].spec
    made_by = spec.entry_point
    if callable(made_by):
        made_by = f"{made_by.__module__}:{getattr(made_by, '__qualname__', made_by)}"
    return {"max_episode_steps": spec.max_episode_steps, "entry_point": made_by}


def changes(info: Mapping[str, Any], facts: Mapping[str, Any], updates: int) -> list[str]:
    """Return the reasons why a resumed run differs from one in a single session; usually none.

    Args:
        info: the run's ``run.json``.
        facts: the facts of this session.
        updates: number of updates at the checkpoint.
    """
    reasons = [
        f"the {name} of the task was {info[name]} and is {facts[name]} now"
        for name in ("max_episode_steps", "entry_point")
        if name in facts and name in info and info[name] != facts[name]
    ]
    ways = first, now = info.get("compile_from"), facts.get("compile_from")
    if first != now and min(filter(None, ways)) <= updates:
        before, after = (f"compiled from update {n:,} on" if n else "not compiled" for n in ways)
        reasons.append(f"updates were {before}, and are {after} now")
    return reasons


def warm_start(loss_module: LossModule, config: BaseRunConfig, env: EnvBase) -> None:
    """Load modules of a loss from a checkpoint of another run, or the actor from a cloned policy.

    Critics are loaded with their target networks; optimizers, replay and counters are not loaded.
    With ``prior.warm_start`` the actor is loaded from the prior's run, and the statistics of its
    observations stay as they are.

    Args:
        loss_module: the loss to be trained.
        config: the options of the run. Without a run to load from, or at a resume, nothing is
            loaded.
        env: the environment of this run.

    Raises:
        ConfigError: if the checkpoint cannot be read, its actions have other units than those of
            this run, or a module is missing, of another shape or another function; for critics, if
            rewards are scaled, normalized or discounted otherwise.
    """
    options, prior = config.warm_start, getattr(config, "prior", None)
    section = "warm_start.modules"
    if prior is not None and prior.warm_start:
        if options.run is not None:
            raise ConfigError("warm_start.run: must be null where prior.warm_start is true")
        options = WarmStartConfig(str(find_policy(Path(prior.run), prior.which)), ["actor"])
        section = "prior.warm_start"
        loss_module.keeps_observation_statistics = True  # they are part of the policy
    if options.run is None or config.resume is not None:
        return
    for name, points in config.loss.schedules.items():
        loss_module.set_scalar(name, schedule_value(points, 0))
    with prefix_errors("warm_start.run"):
        folder = find_policy(Path(options.run), "last")
        if not (folder / STATE).exists():
            saved, layers = _policy_state(folder, loss_module)
        else:
            start = Checkpoint.find(folder)
            folder, state = start.folder, start.state()
            saved, layers = state["loss"], state.get("layers", {})
        check_units(stored_task(folder), env, options.run)
    parts, own = loss_parts(loss_module), loss_module.state_dict()
    shares = any(name.startswith("encoder_network") for name in own)
    if shares and "actor" in options.modules and "qvalue" not in options.modules:
        raise ConfigError(f"{section}: actor needs qvalue, which includes their encoder")
    for module in options.modules:
        begins = PARAMETER_PREFIXES[module]
        begins += tuple(f"target_{prefix}" for prefix in begins)
        names = [name for name in own if name.startswith(begins)]
        if not names:
            raise ConfigError(
                f"{section}: {type(loss_module).__name__} has no {module}: leave it out"
            )
        others = {"actor": _STATISTICS[:1], "alpha": ()}.get(module, _STATISTICS)
        names += [name for name in own | saved if name.startswith(others)]
        wanted, found = (
            {name: state[name] for name in names if name in state} for state in (own, saved)
        )
        if misfit := first_misfit(wanted, found) or changed_layer(layers, parts, begins + others):
            raise ConfigError(
                f"{section}: {module} of {folder} does not fit: {misfit}; use the same "
                "options of env, network, loss and normalization.observations, or leave it out"
            )
        own |= found
    loss_module.load_state_dict(own)


def _policy_state(folder: Path, loss_module: LossModule) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the state and the structure of a policy's actor and normalizer, named as in a loss."""
    policy, keys = load_policy(folder), getattr(loss_module.actor_network, "out_keys", [])
    steps: list[Any] = [part for part in policy.modules() if hasattr(part, "get_dist")]
    actor: Any = next((step for step in reversed(steps) if step.out_keys == keys), None)
    normalizer: Any = getattr(policy, "normalizer", None)
    parts = nn.ModuleDict({"actor_network_params": actor, "observation_normalizer": normalizer})
    return parts.state_dict(), structure(parts)
