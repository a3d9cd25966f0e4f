"""The entry point of a recipe: parse, begin a session, and turn known errors into exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, TypeVar

from rlkit_sac.config.read import parse_config, set_options
from rlkit_sac.config.run import BaseRunConfig, SeedsConfig
from rlkit_sac.errors import ConfigError, RlkitSacError, refuse, summary
from rlkit_sac.output import drop_failed_output
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.directory import RunDirectory
from rlkit_sac.runs.machine import announce_run, announced_run, num_ranks, rank
from rlkit_sac.runs.seeds import answer_parent, follow_parent, run_seeds
from rlkit_sac.runs.stop import describe_failure, interrupt_behind, note_results, raised_signals
from rlkit_sac.signals import start_resource_tracker

Config = TypeVar("Config")


@dataclass
class Session:
    """The arguments of a run besides its options, passed on from the entry point.

    Attributes:
        callback: a function called with the :class:`TrainingRun` at the end of each step; true ends
            the run.
        env_function: if true, a Python function that no option names makes the environments.
        start: the checkpoint that the run resumes from.
        directory: the directory of the run to resume.
    """

    callback: Callable[[Any], object] | None = None
    env_function: bool = False
    start: Checkpoint | None = None
    directory: RunDirectory | None = None

    def find_start(self, path: str) -> Mapping[str, Any]:
        """Find the checkpoint to resume, and return the options of its run by dotted key.

        Args:
            path: a run directory, or one of its checkpoints.

        Raises:
            ConfigError: as :meth:`Checkpoint.find`, for a damaged ``run.json``, and if a function
                made the environments of the run but is not given now.
        """
        start = Checkpoint.find(path)
        directory = RunDirectory(start.run_path)
        if directory.info.get("env_function") and not self.env_function:
            go_on = f"rlkit_sac.Run({start.run_path.as_posix()!r}, env=function).resume()"
            raise ConfigError(
                f"a Python function made the environments of {start.run_path}: use {go_on}"
            )
        self.start, self.directory = start, directory
        return start.config

    def open_directory(self, config: BaseRunConfig, recipe: str) -> RunDirectory:
        """Return a new run directory, or the directory of the run to resume.

        Args:
            config: the options of the run.
            recipe: name of the recipe.

        Raises:
            ConfigError: if the directory cannot be made, or another recipe began the run.
        """
        if rank() > 0:
            return RunDirectory(announced_run(), followed=True)
        if (run := self.directory) is None:
            run = RunDirectory.create(
                config, recipe=recipe, task=config.env.id, seed=config.seed, root=config.logging.dir
            )
        elif (begun_by := run.info["recipe"]) != recipe:
            text = f"{run.path} is a run of recipes/{begun_by}.py: resume it with that recipe"
            raise ConfigError(f"resume: {text}")
        announce_run(run.path)
        return run


def run_recipe(
    main: Callable[[Config], Path], config_class: type[Config], argv: Sequence[str] | None = None
) -> None:
    """Parse the command line and call ``main``, reporting known errors in one line each.

    A recipe of a run is called as ``main(config, session)``, another script as ``main(config)``.

    A recipe whose configuration has ``seed`` and ``resume`` also takes ``--seeds 0,1,2`` and
    ``--jobs N``, which run the same command once for each seed, see `run_seeds`. All options are
    checked before anything runs. :func:`~rlkit_sac.runs.make_envs` checks the machine and the task;
    with several seeds this happens before the first one.

    Exit codes: 2 for `ConfigError`, 1 for any other `RlkitSacError`, 130 for Ctrl-C, 143 for
    SIGTERM, 129 for SIGHUP, 75 for ``time_limit``. Signals close everything that is open. Any
    other exception is a bug and keeps its traceback. If a run had begun, the last lines name its
    directory and say how to resume it. Output into a closed pipe is dropped and changes none of
    this.

    Args:
        main: the recipe; it returns the run directory.
        config_class: its configuration dataclass.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.

    Raises:
        SystemExit: with the exit codes above.

    >>> from rlkit_sac.config import EnvConfig
    >>> def main(config):
    ...     print(config.id)
    ...     return Path("runs")
    >>> run_recipe(main, EnvConfig, ["--id", "Ant-v5"])
    Ant-v5
    """
    drop_failed_output()
    follow_parent()
    argv = sys.argv[1:] if argv is None else argv
    with raised_signals():
        try:
            session = Session()
            config, several, where = _parse(config_class, argv, session)
            if several.seeds is not None:
                code = run_seeds(config, several, argv)
            else:
                answer_parent(path=str(call_recipe(main, config, session, where)))
                return
        except BaseException as error:
            is_interrupted = interrupt_behind(error) is not None
            if isinstance(error, SystemExit) and not is_interrupted:
                raise
            is_bug = not (is_interrupted or isinstance(error, RlkitSacError))
            parent_told = answer_parent(error=summary(error) if is_bug else str(error))
            if is_bug:
                note_results(error)
                raise
            # A wrong option is the same for all seeds: the parent reports it once.
            if not (parent_told and isinstance(error, ConfigError)):
                text = describe_failure(error)
                print(indent(text, f"[rank {rank()}] ") if rank() else text, file=sys.stderr)
            raise SystemExit(exit_code(error)) from None
    raise SystemExit(code)


def exit_code(error: BaseException) -> int:
    """Return the exit code for the error that ended a run.

    Args:
        error: the exception. An interrupt gives 128 plus the signal, the time limit 75, a
            `ConfigError` 2, anything else 1.

    >>> exit_code(KeyboardInterrupt()), exit_code(ConfigError()), exit_code(ZeroDivisionError())
    (130, 2, 1)
    """
    interrupt = interrupt_behind(error)
    if interrupt is not None:
        return getattr(interrupt, "exit_code", 130)
    return 2 if isinstance(error, ConfigError) else 1


def call_recipe(
    main: Callable[..., Path], config: Any, session: Session, where: Mapping[str, str]
) -> Path:
    """Call the function ``main`` of a recipe, with signals that close everything that is open.

    The recipe of a run also receives the session. Others, such as a sweep, receive their
    configuration alone.

    Args:
        main: the recipe.
        config: its configuration.
        session: the callback and the checkpoint that the run is started with.
        where: the names that errors use for the given options, by dotted key.

    Returns:
        The run directory.
    """
    start_resource_tracker()
    # TorchRL reports each storage it makes; a recipe's own lines are what its user looks for.
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    with raised_signals():
        try:
            return main(config, session) if isinstance(config, BaseRunConfig) else main(config)
        except ConfigError as error:
            lines = (line.partition(": ") for line in str(error).splitlines())
            named = (where.get(key, key) + colon + rest for key, colon, rest in lines)
            raise ConfigError(*named) from error.__cause__


def read_config(config_class: type[Config], argv: Sequence[str] | None = None) -> Config:
    """Return the configuration of a run.

    Later sources replace earlier ones: defaults, the run to resume, ``--config`` files, options.

    :func:`~rlkit_sac.runs.make_envs` checks the machine, the task and the run to resume when the
    recipe is called.

    Args:
        config_class: a recipe's configuration dataclass.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.

    Raises:
        ConfigError: as :func:`~rlkit_sac.config.parse_config`.

    >>> from rlkit_sac.runs import RunConfig
    >>> read_config(RunConfig, ["--seed", "3", "--device", "cpu"]).seed
    3
    """
    return parse_config(config_class, argv, stored_options=Session().find_start)


def _parse(
    config_class: type[Config], argv: Sequence[str], session: Session
) -> tuple[Config, SeedsConfig, dict[str, str]]:
    """Return the configuration, the seeds to run, and where each option was set."""
    config, several = config_class(), SeedsConfig()
    configs = [several, config] if {"seed", "resume"} <= vars(config).keys() else [config]
    where, problems = set_options(configs, argv, stored_options=session.find_start)
    if several.seeds is not None:
        if where.get("seed") == "--seed":
            problems.append(f"{where['seeds']}: give either --seed or --seeds")
        if getattr(config, "resume", None) is not None:
            advice = "cannot go with --resume; continue each run by itself"
            problems.append(f"{where['seeds']}: {advice}")
        if num_ranks() > 1:
            problems.append(f"{where['seeds']}: torchrun runs one seed at a time; give --seed")
    refuse(problems)
    return config, several, where
