"""One trial of a sweep while it runs, in a process of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optuna.trial import Trial, TrialState

from rlkit_sac.analysis.files import read_rows
from rlkit_sac.runs.checkpoints import step_folders
from rlkit_sac.runs.seeds.processes import SeedProcess
from rlkit_sac.runs.sweeps.study import HEARTBEAT, Sweep, number_of
from rlkit_sac.runs.tables.run_directory import RunDirectory


def _finished(config: Any) -> Path:
    return Path(config.resume)


class RunningTrial:
    """A trial whose ``process`` was made, which is to be started.

    A trial that was run before goes on with its last checkpoint.

    Args:
        main: the recipe.
        sweep: that it belongs to.
        trial: of Optuna.
    """

    def __init__(self, main: Callable[[Any], Path], sweep: Sweep, trial: Trial) -> None:
        self.number, self._sweep, self._trial = number_of(trial), sweep, trial
        self._pruned, self._beat = False, time.monotonic()
        self._reported: set[int] = set()
        self._folder = sweep.folder / f"trial_{self.number:04d}"
        self._folder.mkdir(exist_ok=True)
        config = sweep.space.configure(sweep.config, trial.params)
        config.logging.dir = str(self._folder)
        self._interval = config.evaluation.interval
        self._frames = config.collector.total_frames
        if (run := self.run_path()) is not None:
            if RunDirectory(run).info["status"] == "finished":
                # The sweep was killed before it could note so.
                config.resume, main = str(run), _finished
            elif step_folders(run / "checkpoints"):
                config.resume = str(run)
            else:
                shutil.rmtree(run)  # killed before it had saved anything
        self.process = SeedProcess(main, config, self._folder)

    def run_path(self) -> Path | None:
        """The run directory, once there is one."""
        return next((file.parent for file in self._folder.glob("*/*/*/run.json")), None)

    def watch(self) -> None:
        """Report new evaluations, and end a trial that is to be pruned: it saves and ends."""
        if time.monotonic() - self._beat > HEARTBEAT:
            self._beat = time.monotonic()
            self._sweep.beat(self._trial)
        for frames, value in self._evaluations():
            step = frames // self._interval * self._interval  # of batches that end in between too
            if step not in self._reported:
                self._reported.add(step)
                self._trial.report(value, step)
                if not self._pruned and frames < self._frames and self._trial.should_prune():
                    self._pruned = True
                    self.process.terminate()

    def end(self) -> str:
        """Tell how it ended, once its process has; the error if it failed."""
        self.watch()
        run, study = self.process.result(), self._sweep.study
        rows = self._evaluations()
        self._trial.set_user_attr("frames", rows[-1][0] if rows else 0)
        self._trial.set_user_attr("run", str(self.run_path() or ""))
        killed = (self.process.exitcode or 0) < 0
        if run.exit_code == 0 and rows:
            study.tell(self._trial, rows[-1][1], skip_if_finished=True)
        elif self._pruned and run.exit_code > 128:
            study.tell(self._trial, state=TrialState.PRUNED, skip_if_finished=True)
        elif run.exit_code > 128 or killed or (run.exit_code == 2 and self.number == 0):
            self._sweep.again(self._trial, killed=killed)
        else:
            self._trial.set_user_attr("error", run.error)
            study.tell(self._trial, state=TrialState.FAIL, skip_if_finished=True)
        return run.error

    def _evaluations(self) -> list[tuple[int, float]]:
        """Frames and mean return of each evaluation so far."""
        if (run := self.run_path()) is None:
            return []
        rows = read_rows(run / "evaluations.csv", ("frames", "return_mean"))
        return list(zip(rows["frames"].tolist(), rows["return_mean"].tolist(), strict=True))
