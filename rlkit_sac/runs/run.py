"""The methods that a recipe calls in its loop: tables, evaluations, checkpoints, signals."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rlkit_sac.config.options import flat_config
from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.data import WorkerCollector
from rlkit_sac.envs import describe_task
from rlkit_sac.errors import ConfigError, WorkersLost
from rlkit_sac.runs.build import Parts
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.directory import write_config
from rlkit_sac.runs.evaluation import evaluate, evaluation_seed
from rlkit_sac.runs.launch import Session
from rlkit_sac.runs.log import TrainingLog, report
from rlkit_sac.runs.loggers import ProgressBar, RunLoggers
from rlkit_sac.runs.machine import max_over_ranks, num_ranks, rank
from rlkit_sac.runs.policy import policy_files
from rlkit_sac.runs.resume import inexact_reasons, task_facts
from rlkit_sac.runs.saving import Checkpoints
from rlkit_sac.runs.stop import StopRequest, deferred_signals
from rlkit_sac.runs.video import record_best
from rlkit_sac.updates.schedule import EveryFrames
from rlkit_sac.updates.scheduled_values import apply_schedules


class TrainingRun:
    """A run in progress, made by :func:`training_run`.

    Args:
        config: the options of the run.
        session: the callback and the checkpoint that the run is started with.
        parts: the loss, the update, the replay buffer and the collector.
        log: the log of the run.
        policy: a function that returns the files of the acting policy.
        eval_env: the environment for evaluations.

    Attributes:
        path: the run directory.
        latest: the last value of ``return`` (of an episode), ``evaluation``, ``alpha`` and each
            metric that the user logs.
        callback: a function called with the run at the end of each step; true ends the run.
    """

    def __init__(
        self,
        config: BaseRunConfig,
        session: Session,
        parts: Parts,
        log: TrainingLog,
        policy: Callable[[], Mapping[str, bytes]],
        eval_env: EnvBase,
    ) -> None:
        self.path, self.latest, self.callback = log.run.path, log.latest, session.callback
        self._config, self._session, self._log = config, session, log
        self._loss_module, self._update, replay, self._collector = parts
        self._stop, self._has_ranks = StopRequest(), num_ranks() > 1
        self._metrics = EveryFrames(config.logging.interval)
        self._evaluations = EveryFrames(config.evaluation.interval)
        self._saves = EveryFrames(config.checkpoint.interval)
        self._evaluate_policy = partial(
            evaluate,
            self._loss_module.policy(epsilon=config.evaluation.epsilon or None),
            eval_env,
            episodes=config.evaluation.episodes,
            seed=evaluation_seed(config.seed),
            deterministic=config.evaluation.deterministic,
        )
        self._frames_before, self._updates_before, self._graphs, self._most_updates = 0, 0, 0, 1
        self._updates_at_check = -1  # at the last call of _compiles_next
        self._apply_schedules = partial(
            apply_schedules, self._update, config.loss.schedules, config.update.schedules
        )
        prior = getattr(replay, "prior", None)
        stateful = {"sampler": replay.sampler, "transform": replay.transform, "prior_data": prior}
        self._checkpoints = Checkpoints(
            self.path,
            {
                "loss": self._loss_module,
                "update": self._update,
                "collector": self._collector,
                "log": log,
                "run": log.run,
                **{name: part for name, part in stateful.items() if part and part.state_dict()},
            },
            replay,
            policy=policy,
            config=flat_config(config),
            keep=config.checkpoint.keep,
            best=log.best_evaluation,
        )

    @property
    def frames(self) -> int:
        """Environment steps so far."""
        return self._log.frames

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self._log.updates

    def collected(self, batch: TensorDictBase) -> None:
        """Count the frames of a batch, write the episodes that ended in it, and follow schedules.

        Episodes are weighted by the present ``reward_weights`` of the loss.
        """
        self._frames_before, self._updates_before = self.frames, self.updates
        self._log.collected(
            batch,
            reward_weights=self._reward_weights,
            most_rows=self._config.logging.episodes_per_write,
        )
        self._apply_schedules(self.frames)

    def updated(self, scalars: Mapping[str, Tensor]) -> None:
        """Count an update and keep its scalars for the next row of ``metrics.csv``."""
        self._log.updated(scalars)

    def log(self, **values: float) -> None:
        """Keep metrics of the user for the next row of ``metrics.csv``, each in its own column.

        A row holds the mean of the values since the row before. Names that end in ``_min`` and
        ``_max`` hold the minimum and the maximum.

        Raises:
            ConfigError: for a name that is a column of the package.
        """
        self._log.log(values)

    def write_metrics_if_due(self) -> None:
        """Write a row of ``metrics.csv`` at each multiple of ``logging.interval``.

        With a callback the row is written after the call, so that it holds the logged metrics.
        """
        if self.callback is None:
            self._write_metrics_if_due()

    def evaluate_if_due(self) -> bool:
        """Evaluate the policy at each multiple of ``evaluation.interval``.

        A mean return of ``evaluation.stop_at`` or more, or a success rate of
        ``evaluation.stop_at_success`` or more, ends the collector.

        Returns:
            Whether the policy was evaluated now and no earlier evaluation was better.
        """
        due = self._evaluations.due(self._frames_before, self.frames)
        return due and rank() == 0 and self._evaluate()

    def save_if_due(self, *, best: bool) -> None:
        """Save the run at ``checkpoint.interval``, for a best policy, and before an early end.

        The run is also saved before an update is compiled, which takes long. A ``callback`` of
        :func:`rlkit_sac.train` is called first.

        Args:
            best: if true, this policy had the best evaluation so far.

        Raises:
            ConfigError: for a callback that returns anything but a bool or ``None``.
            Interrupted: after a signal, or ``time_limit`` seconds.
        """
        if self.callback is not None:
            ends = self.callback(self)
            if ends is not None and not isinstance(ends, bool | np.bool_):
                text = "return true to end the run, or nothing"
                raise ConfigError(f"the callback returned {ends!r}: {text}")
            if ends:
                self._collector.end()
            self._write_metrics_if_due()
        stop = bool(self._stop.exit_code)  # a later signal is obeyed after the next step
        is_due = self._saves.due(self._checkpoints.saved_at, self.frames)
        save = best or self._compiles_next() or is_due
        if self._has_ranks:
            stop, save = self._agree_across_ranks(save)
        if save or stop:
            self._save()
        if stop:
            self._stop.obey()

    def save(self) -> None:
        """Save the run now, and end it after a signal as :meth:`save_if_due` does."""
        self._save()
        self._stop.obey()

    def complete(self) -> None:
        """Write the last rows of the tables, which a longer run would not write here."""
        if self._log.last_row[0] != self.frames:
            self._log.write_metrics()
        if self.frames not in self._log.evaluations:
            self._evaluate()

    def _begin(self, facts: dict[str, Any]) -> None:
        """Restore the run to resume, if any, and write the beginning of the session."""
        start, directory = self._session.start, self._log.run
        reasons = [] if start is None else self._restore(start)
        self._apply_schedules(self.frames)
        self._end_if_solved()
        if rank() > 0:
            return
        if start is not None:
            checksum = write_config(self.path, dataclasses.replace(self._config, resume=None))
            reasons += inexact_reasons(directory.info, facts, self.updates)
            facts |= {"frames": self.frames, "updates": self.updates}
            facts |= {"resumed_at": start.frames, "exact": not reasons, "config_sha256": checksum}
        directory.begin(**facts)
        if start is not None:
            self._checkpoints.prune()
            print(f"resuming {self.path} at frame {start.frames:,}")
            for reason in reasons:
                print(f"not exactly the run that never stopped: {reason}")
        frames = None if start is None else start.frames
        self._log.loggers = RunLoggers(self._config, directory, resumed_at=frames)

    def _restore(self, start: Checkpoint) -> list[str]:
        """Return to a checkpoint, and return the reasons why that is not exact; usually none."""
        # The checkpoint was found before the directory was locked. Another process may have saved
        # a later one, which would be discarded.
        if rank() == 0 and Checkpoint.find(str(self._config.resume)).frames != start.frames:
            raise ConfigError(f"resume: {self.path} went on in another process: try again")
        if rank():
            start = Checkpoint.find(self._checkpoints.folder / start.folder.name)
        reasons = self._checkpoints.restore(start)
        if max_over_ranks(bool(reasons)) == [1] and not reasons:
            reasons = ["another rank begins new episodes"]
        # Later checkpoints count rows that `begin` removes. They go first, in case of a kill.
        self._checkpoints.discard_later()
        return reasons

    @property
    def _reward_weights(self) -> Tensor | None:
        return getattr(self._loss_module, "reward_weights", None)

    def _write_metrics_if_due(self) -> None:
        if self._metrics.due(self._frames_before, self.frames):
            self._log.write_metrics()

    def _evaluate(self) -> bool:
        with self._log.progress.phase("evaluating"):
            result = self._evaluate_policy(reward_weights=self._reward_weights)
            is_best = self._log.evaluated(result)
        self._end_if_solved()
        return is_best

    def _compiles_next(self) -> bool:
        """Return whether an update of the next step is expected to be compiled."""
        self._most_updates = max(self._most_updates, self.updates - self._updates_before)
        graphs, self._graphs = self._graphs, self._update.num_graphs
        # The first update is never compiled, and after a graph others may follow.
        reached = self.updates + self._most_updates >= max(self._update.compile_from or math.inf, 2)
        again, self._updates_at_check = self._updates_at_check == self.updates, self.updates
        return self._graphs > graphs or (reached and not graphs and not again)

    def _agree_across_ranks(self, save: bool) -> tuple[bool, bool]:
        """Return whether all ranks stop, and whether they save. Either all ranks end or none.

        A signal that comes after they have agreed counts at the next step.
        """
        ended = self._collector.frames >= self._collector.total_frames
        exit_code, saved, has_ended = max_over_ranks(self._stop.exit_code, save, ended)
        self._stop.follow(int(exit_code))
        if has_ended:
            self._collector.end()
        return bool(exit_code), bool(saved)

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """While an update is compiled, show it on the bar and let a signal end the run at once."""
        with self._log.progress.phase("compiling"), self._stop.compiling():
            yield

    def _save(self) -> None:
        with self._log.progress.phase("saving"):
            if rank() == 0:
                max_over_ranks(0)  # rank 0 saves last: the others have all its checkpoints
            self._checkpoints.save(self.frames)
            if rank() > 0:
                max_over_ranks(0)

    def _end_if_solved(self) -> None:
        evaluation = self._config.evaluation
        if self._log.reached(evaluation.stop_at, evaluation.stop_at_success):
            self._collector.end()


@contextmanager
def training_run(
    config: BaseRunConfig,
    session: Session,
    parts: Parts,
    *,
    recipe: str,
    eval_env: EnvBase,
    **facts: Any,
) -> Iterator[TrainingRun]:
    """Begin a run, or resume ``config.resume``; save, evaluate and report at its end.

    In the block a signal takes effect at :meth:`TrainingRun.save_if_due`, or at once while an
    update is compiled.

    Args:
        config: the options of the run.
        session: the session that :func:`~rlkit_sac.runs.make_envs` returns.
        parts: the loss, the update, the replay buffer and the collector.
        recipe: name of the recipe.
        eval_env: an environment that training does not use.
        facts: further JSON values for ``run.json``.

    Raises:
        ConfigError: if the run directory cannot be made, the checkpoint does not fit, or the update
            has no group under ``torchrun``.
        WorkersLost: if no worker collects any more; the run is saved first.
    """
    started = time.perf_counter()
    policy = partial(policy_files, parts.loss_module.policy(), task=describe_task(eval_env))
    policy()  # refuses a policy that cannot be saved before the run begins
    if num_ranks() > 1 and parts.update.group is None:
        raise ConfigError("this recipe learns in one process: make Update(group=learner_group())")
    apply_schedules(parts.update, config.loss.schedules, {}, 0)  # refuses what cannot change
    directory = session.open_directory(config, recipe)
    print(f"{recipe} on {config.env.id} ({eval_env.device}): {directory.path}", flush=True)
    names, shows_bar = parts.update.scalar_names, config.logging.progress and rank() == 0
    with (
        directory,
        ProgressBar(config.collector.total_frames, enabled=shows_bar) as progress,
        ExitStack() as ended,
    ):
        log = TrainingLog(directory, progress, names, started=started, processes=num_ranks())
        if isinstance(parts.collector, WorkerCollector):  # `make_envs` closes other environments
            ended.callback(parts.collector.shutdown)
            parts.collector.on_gap = getattr(parts.replay.sampler, "mark_gap", None)
        ended.push(log.end)
        run = TrainingRun(config, session, parts, log, policy, eval_env)
        run._begin(_session_facts(config, session, parts, eval_env) | facts)
        with deferred_signals(config.time_limit) as run._stop:
            parts.update.announce_compiling(run._compiling)
            try:
                yield run
            except WorkersLost:
                if num_ranks() == 1:  # other ranks do not save now
                    run.save()  # the error came between two steps
                raise
            run.save()
        if rank() > 0:
            return
        # After the checkpoint, since a longer run would not write these rows.
        run.complete()
    print(report(directory, log))
    if config.evaluation.video:
        record_best(directory.path, parts.loss_module.policy())


def _session_facts(
    config: BaseRunConfig, session: Session, parts: Parts, eval_env: EnvBase
) -> dict[str, Any]:
    """Return the facts of this session that ``run.json`` records."""
    return {
        "device": str(eval_env.device),
        "num_threads": config.num_threads,
        "compile_from": parts.update.compile_from,
        **task_facts(eval_env),
        "parameters": sum(p.numel() for p in parts.loss_module.parameters()),
        **({"ranks": num_ranks()} if num_ranks() > 1 else {}),
        **({"env_function": True} if session.env_function else {}),
    }
