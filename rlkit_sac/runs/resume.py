"""Resuming a run: what may change, and how the rest of it would differ."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from torchrl.envs import EnvBase

from rlkit_sac.config.options import flat_config
from rlkit_sac.config.read import read_yaml
from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.envs import describe_task
from rlkit_sac.envs.adapted_env import adapted_task
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.errors import refuse
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.files import sha256
from rlkit_sac.runs.machine import num_ranks

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


def inexact_reasons(info: Mapping[str, Any], facts: Mapping[str, Any], updates: int) -> list[str]:
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
