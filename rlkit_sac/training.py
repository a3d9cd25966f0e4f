"""Training from Python: `train`, and the `Run` that it returns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import pandas as pd
import torch
from tensordict.nn import TensorDictModuleBase

from rlkit_sac.analysis import load_runs
from rlkit_sac.cli.recipe_files import find_recipe, run_script
from rlkit_sac.cli.resume import recipe_script
from rlkit_sac.config.read import to_text
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import EvaluationResult, TrainingRun, load_policy
from rlkit_sac.runs.policies.files import find_policy
from rlkit_sac.runs.python_session import PythonSession, in_session
from rlkit_sac.runs.stored_run import read_run
from rlkit_sac.runs.tables.run_directory import RunDirectory

EnvFunction = Callable[..., gym.Env[Any, Any]]
Callback = Callable[[TrainingRun], object]


class Run:
    """A run on disk: its tables as DataFrames, its policy, and how it goes on.

    Args:
        path: the run directory.
        recipe: script of one's own that began the run. Default: the recipe of the package.
        env: the function that makes its environments, where one does.

    Attributes:
        path: the run directory.

    >>> Run("runs/sac/Pendulum-v1/first")
    Run('runs/sac/Pendulum-v1/first')
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        recipe: str | PathLike[str] | None = None,
        env: EnvFunction | None = None,
    ) -> None:
        self.path = Path(path)
        self._recipe, self._env = recipe, env

    def __repr__(self) -> str:
        return f"Run({self.path.as_posix()!r})"

    @property
    def evaluations(self) -> pd.DataFrame:
        """The rows of ``evaluations.csv``, as :func:`~rlkit_sac.analysis.load_runs` reads them."""
        return load_runs(self.path)

    @property
    def metrics(self) -> pd.DataFrame:
        """The rows of ``metrics.csv``."""
        return load_runs(self.path, table="metrics")

    @property
    def episodes(self) -> pd.DataFrame:
        """The rows of ``episodes.csv``."""
        return load_runs(self.path, table="episodes")

    def policy(
        self,
        which: Literal["last", "best"] = "last",
        *,
        device: torch.device | str | None = None,
        into: TensorDictModuleBase | None = None,
    ) -> TensorDictModuleBase:
        """The trained policy; arguments and errors of :func:`~rlkit_sac.runs.load_policy`."""
        return load_policy(self.path, which=which, device=device, into=into)

    def resume(self, *, callback: Callback | None = None, **options: Any) -> Run:
        """Go on with the run, in this process; returns it.

        Args:
            callback: as of :func:`train`.
            options: those that [may change](runs.md#what-may-change), by dotted key.

        Raises:
            ConfigError: as of :func:`train`, and for a run that cannot be resumed.
        """
        info = RunDirectory(self.path).info
        script = find_recipe(os.fspath(self._recipe)) if self._recipe else None
        script = script or recipe_script(info, str(self.path))
        argv = [f"--resume={self.path}", *_command_line(options)]
        _run(script, argv, callback, info["task"], self._env)
        return self

    def evaluate(
        self,
        which: Literal["last", "best"] = "last",
        *,
        episodes: int | None = None,
        seed: int | None = None,
        deterministic: bool | None = None,
    ) -> EvaluationResult:
        """Evaluate the policy on the task of the run.

        Args:
            which: the newest checkpoint, or that of the best evaluation.
            episodes: how many. Default: as during training, which holds for the others too.
            seed: of initial states and samples.
            deterministic: take the mode of the policy, or samples.

        Raises:
            ConfigError: for a run whose function that makes environments was not given.
        """
        checkpoint = find_policy(self.path, which)
        with _made_by(self._env, RunDirectory(self.path).info["task"]):
            run = read_run(checkpoint, episodes=episodes, seed=seed, deterministic=deterministic)
            return run.evaluate(load_policy(checkpoint))


def train(
    recipe: str | PathLike[str],
    *,
    config: str | PathLike[str] | None = None,
    env: str | EnvFunction | None = None,
    name: str | None = None,
    seed: int | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Run:
    """Run a recipe in this process, as ``rlkit-sac train`` does in one of its own.

    Errors are raised. Ctrl-C saves the run after its step and raises `KeyboardInterrupt`; handlers
    of signals are as before afterwards.

    Args:
        recipe: name of one that comes with the package, or path of a script that calls
            :func:`~rlkit_sac.runs.run_recipe`.
        config: name of a configuration of the recipe, or a YAML file.
        env: Gymnasium id, or a function that makes an environment, for training and for evaluation.
            A run with a function is resumed from Python alone.
        name: of the task, for the folder of a run whose environments a function makes.
        seed: of the run.
        callback: called after each batch of frames and its updates with the
            :class:`~rlkit_sac.runs.TrainingRun`; where it returns true, the run ends as complete.
        options: of the recipe, by dotted key.

    Raises:
        ConfigError: for wrong options, before anything is created.
        RunError: for what fails during the run.
        KeyboardInterrupt: after a signal or ``time_limit``, when the run is saved.

    >>> import tempfile
    >>> quick = {"collector.total_frames": 120, "collector.learning_starts": 100}
    >>> quick |= {"evaluation.episodes": 1, "network.num_cells": [8], "logging.progress": False}
    >>> run = train("sac", seed=1, **quick, **{"logging.dir": tempfile.mkdtemp()})
    sac on Pendulum-v1 (cpu): ...
    >>> run.evaluations["frames"].tolist()
    [120]
    """
    function = None if env is None or isinstance(env, str) else env
    if isinstance(env, gym.Env) or not (function is None or callable(function)):
        raise ConfigError(
            f"env is {env!r}: give a Gymnasium id, or a function that makes an environment, such "
            "as lambda: gym.make('Pendulum-v1'), since training and evaluation take one each"
        )
    if (name is None) != (function is None) or not re.fullmatch(r"[\w.-]+", name or "-"):
        raise ConfigError(
            f"name is {name!r}: it names the task, by letters, digits and - _ ., where env is a "
            "function, and is left out elsewhere"
        )
    given = {"config": config, "env.id": name or env, "seed": seed}
    argv = _command_line({key: value for key, value in given.items() if value is not None})
    script = find_recipe(os.fspath(recipe))
    path = _run(script, [*argv, *_command_line(options)], callback, name, function)
    return Run(path, recipe=script, env=function)


def _command_line(options: dict[str, Any]) -> list[str]:
    return [f"--{key}={to_text(value)}" for key, value in options.items()]


def _run(
    script: Path,
    argv: Sequence[str],
    callback: Callback | None,
    name: str | None,
    function: EnvFunction | None,
) -> Path:
    session, threads = PythonSession(callback, function is not None), torch.get_num_threads()
    try:
        with _made_by(function, name), in_session(session):
            run_script(script, argv)
    finally:
        torch.set_num_threads(threads)
    if session.path is None:
        raise ConfigError(f"{script} is no recipe: it does not call run_recipe")
    return session.path


@contextmanager
def _made_by(function: EnvFunction | None, name: str | None) -> Iterator[None]:
    """In the block a function makes the environments of this id."""
    if function is None:
        yield
        return
    assert name is not None
    if name in gym.registry:
        raise ConfigError(f"name is {name!r}, which is an environment of Gymnasium's registry")
    env = function()
    if not isinstance(env, gym.Env):
        raise ConfigError(f"env returned {env!r}, which is no gymnasium.Env")
    steps = None if env.spec is None else env.spec.max_episode_steps
    env.close()
    gym.register(name, function, max_episode_steps=steps)
    try:
        yield
    finally:
        del gym.registry[name]
