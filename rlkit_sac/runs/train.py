"""Training from Python: `train`, and the `Run` that it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import pandas as pd
import torch
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.analysis import load_runs
from rlkit_sac.config.options import find_descriptions, flat_config
from rlkit_sac.config.read import set_options
from rlkit_sac.envs.gym_env import env_name, importable_name
from rlkit_sac.envs.make import close_env
from rlkit_sac.envs.torchrl_env import base_env
from rlkit_sac.errors import ConfigError, prefix_errors, refuse
from rlkit_sac.recipe_files import find_recipe, open_recipe, recipe_script
from rlkit_sac.runs.directory import RunDirectory
from rlkit_sac.runs.evaluation import EvaluationResult
from rlkit_sac.runs.launch import Session, call_recipe
from rlkit_sac.runs.policy import StoredRun, find_policy, load_policy
from rlkit_sac.runs.run import TrainingRun
from rlkit_sac.runs.stop import note_results

EnvFunction = Callable[..., gym.Env[Any, Any] | EnvBase]
Callback = Callable[[TrainingRun], object]
Which = Literal["last", "best"]


@dataclass
class Run:
    """A run on disk: tables as DataFrames, the policy, and methods to resume and evaluate it.

    Attributes:
        path: the run directory.
        recipe: the user's script that began the run. Default: the recipe of the package.
        env: the function that makes the environments, if the run has one.

    >>> Run("runs/sac/Pendulum-v1/first").path.name
    'first'
    """

    path: Path
    recipe: str | PathLike[str] | None = None
    env: EnvFunction | None = None

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        self._kwargs: dict[str, Any] = {}  # arguments of the task, as the user gave them

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

    def policy(self, which: Which = "last", **options: Any) -> TensorDictModuleBase:
        """Load the trained policy with :func:`~rlkit_sac.runs.load_policy` and ``options``."""
        return load_policy(self.path, which=which, **options)

    def resume(self, *, callback: Callback | None = None, **options: Any) -> Run:
        """Resume the run in this process, and return it.

        Args:
            callback: the same argument of :func:`train`.
            options: options that [may change](runs.md#what-may-change), by dotted key.

        Raises:
            ConfigError: as :func:`train`, and for a run that cannot be resumed.
        """
        kwargs = {f"env.kwargs.{name}": value for name, value in self._kwargs.items()}
        options = {"resume": self.path, **kwargs, **options}
        return self._start(options, callback, RunDirectory(self.path).info["task"])

    def evaluate(self, which: Which = "last", **options: Any) -> EvaluationResult:
        """Evaluate the policy on the task of the run.

        Args:
            which: the newest checkpoint, or the checkpoint of the best evaluation.
            options: ``episodes``, ``seed`` and ``deterministic``. Default: as during training.

        Raises:
            ConfigError: if a function made the environments of the run but is not given now.
        """
        checkpoint = find_policy(self.path, which)
        run = StoredRun(checkpoint, **options)
        lost = [key for key, value in run.task.kwargs.items() if any(find_descriptions(value))]
        run.task.kwargs |= {key: self._kwargs[key] for key in lost if key in self._kwargs}
        with _registered(self.env, RunDirectory(self.path).info["task"]):
            return run.evaluate(load_policy(checkpoint))

    def _start(self, options: dict[str, Any], callback: Callback | None, name: str | None) -> Run:
        recipe = self.recipe or recipe_script(RunDirectory(self.path).info, str(self.path))
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)  # as in a process of its own
        try:
            with open_recipe(find_recipe(str(recipe))) as (module, config_class):
                config = config_class()
                session = Session(callback, env_function=self.env is not None)
                find_start = session.find_start
                where, problems = set_options([config], options, stored_options=find_start)
                refuse(problems)
                self._kwargs |= flat_config(config).get("env.kwargs", {})
                if self.env is not None and name is None:
                    config.env.id = name = _task_name(self.env, self._kwargs)
                with _registered(self.env, name):
                    self.path = call_recipe(module.main, config, session, where)
        except BaseException as error:
            note_results(error, self._command)
            raise
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
        return self

    def _command(self, path: Path) -> str:
        """Return the Python code that resumes the run in a directory."""
        recipe = f", recipe={str(self.recipe)!r}" if str(self.recipe).endswith(".py") else ""
        function = ", env=function" if self.env is not None else ""
        return f"rlkit_sac.Run({path.as_posix()!r}{recipe}{function}).resume()"


def train(
    recipe: str | PathLike[str],
    *,
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    env: str | EnvFunction | None = None,
    name: str | None = None,
    seed: int | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Run:
    """Run a recipe in this process, as ``rlkit-sac train`` does in a process of its own.

    Errors are raised. Ctrl-C saves the run after the current step and raises `KeyboardInterrupt`.
    The previous signal handlers are restored at the end.

    Args:
        recipe: name of a recipe of the package, or path of a script with a function
            ``main(config: Class, session)``.
        config: name of a configuration of the recipe, path of a YAML file, or a mapping of options.
        env: a Gymnasium id, ``module:function``, or a class or function that makes an environment
            of Gymnasium or TorchRL, for training and for evaluations. A run with a function that
            cannot be imported by name, such as a ``lambda``, can be resumed from Python alone.
        name: the name of the task, for the folder of a run whose environments a function makes.
            Default: ``module:function``, or for a function that cannot be imported the id of the
            environment's ``spec`` or its class, in the namespace ``python``.
        seed: the seed of the run.
        callback: a function called with the :class:`~rlkit_sac.runs.TrainingRun` after each batch
            of frames and its updates. If it returns true, the run ends as complete.
        options: options of the recipe, by dotted key, or by section: ``loss={"gamma": 0.98}``.

    Raises:
        ConfigError: for wrong options, before anything is created.
        RunError: if the run fails.
        KeyboardInterrupt: after a signal or ``time_limit``, when the run is saved.

    >>> import tempfile
    >>> quick = {"collector.total_frames": 120, "collector.learning_starts": 100}
    >>> quick |= {"evaluation.episodes": 1, "network.num_cells": [8], "logging.progress": False}
    >>> run = train("sac", seed=1, **quick, **{"logging.dir": tempfile.mkdtemp()})
    sac on Pendulum-v1 (cpu): ...
    >>> run.evaluations["frames"].tolist()
    [120]
    """
    function = env if callable(env) else None
    is_wrong = function is None and (name or not isinstance(env, str | None))
    if is_wrong or not isinstance(name, str | None):
        text = "an id, or a function such as lambda: gym.make('Hopper-v5'), which may have a name="
        raise ConfigError(f"env must be {text}, got env={env!r} and name={name!r}")
    options |= {} if config is None else {"config": config}
    if function is not None and not name and (env := importable_name(function)):
        function = None
    name = env_name(name) if name else None
    arguments = {"env.id": name or env, "seed": seed}
    options |= {key: value for key, value in arguments.items() if value is not None}
    return Run(Path(), str(recipe), function)._start(options, callback, name)


def _task_name(function: EnvFunction, kwargs: Mapping[str, Any]) -> str:
    """Return the task name of an environment that a function makes."""
    text = f"env: give a name=, since {function!r} made no environment for its name"
    with prefix_errors(text, Exception):
        env = function(**deepcopy(dict(kwargs)))
        close_env(env)
    if isinstance(env, EnvBase):
        return f"python/{type(base_env(env)).__name__}"
    if env.spec is None:
        return env_name(type(env.unwrapped).__name__)
    return f"python/{env.spec.id.rpartition('/')[2]}"  # the function may change the task of this id


@contextmanager
def _registered(function: EnvFunction | None, name: str | None) -> Iterator[None]:
    """Register a function under an id of Gymnasium for the block."""
    if function is None or name is None:
        yield
        return
    if name in gym.registry:
        raise ConfigError(f"name is {name!r}, which is an environment of Gymnasium's registry")
    gym.register(name, function)
    try:
        yield
    finally:
        del gym.registry[name]
