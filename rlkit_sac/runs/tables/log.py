"""The log of a run: three tables and a progress bar, fed by the loop as it goes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.runs.episodes import finished_episodes
from rlkit_sac.runs.evaluation import EvaluationResult
from rlkit_sac.runs.tables.best import evaluation_means
from rlkit_sac.runs.tables.metrics import MetricsAverage
from rlkit_sac.runs.tables.progress import ProgressBar
from rlkit_sac.runs.tables.run_directory import RunDirectory


class TrainingLog:
    """Counts frames and updates, and writes the rows of the tables.

    Args:
        run: where the tables are.
        progress: the bar to move.
        scalar_names: of what :meth:`updated` receives, the columns of ``metrics.csv``.
        started: ``time.perf_counter()`` at the start of the run; ``seconds`` count from there.
    """

    def __init__(
        self,
        run: RunDirectory,
        progress: ProgressBar,
        scalar_names: Sequence[str],
        *,
        started: float,
    ) -> None:
        self.frames = 0
        self.updates = 0
        self._run = run
        self._progress = progress
        self._scalar_names = tuple(scalar_names)
        self._average = MetricsAverage()
        self._started = started
        self._last_row = (0, self.seconds)
        self._shown: dict[str, float] = {}

    def state_dict(self) -> dict[str, Any]:
        """Counters, and the averages so far for the next row of ``metrics.csv``."""
        return {
            "frames": self.frames,
            "updates": self.updates,
            "seconds": self.seconds,
            "last_row": self._last_row,
            "average": self._average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; ``seconds`` continue from those it had."""
        self.frames, self.updates = state["frames"], state["updates"]
        self._started = time.perf_counter() - state["seconds"]
        self._last_row = state["last_row"]
        self._average.load_state_dict(state["average"])
        self._progress.start_at(self.frames)
        self._count()

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self._started

    def collected(self, batch: TensorDictBase, *, reward_weights: Tensor | None = None) -> None:
        """Count the frames of a batch and write the episodes that ended in it.

        Args:
            batch: collected frames.
            reward_weights: weights of a vector reward; default ones.
        """
        for row in finished_episodes(batch, frames=self.frames, reward_weights=reward_weights):
            self._run.write("episodes", row | {"seconds": self.seconds})
            self._shown["return"] = row["return"]
        self.frames += batch.numel()
        self._count()

    def _count(self) -> None:
        self._run.info |= {"frames": self.frames, "updates": self.updates}
        self._progress.update(self.frames, self._shown)

    def updated(self, scalars: Mapping[str, Tensor]) -> None:
        """Count an update and keep its scalars for the next row."""
        self.updates += 1
        self._run.info["updates"] = self.updates
        self._average.add(scalars)

    def write_metrics(self) -> None:
        """Write a row of ``metrics.csv`` over the updates since the last one."""
        values = self._average.compute()
        frames, seconds = self._last_row
        self._last_row = self.frames, self.seconds
        rate = (self.frames - frames) / max(self.seconds - seconds, 1e-9)
        row = {
            "frames": self.frames,
            "updates": self.updates,
            "seconds": self.seconds,
            "frames_per_second": rate,
        }
        self._run.write("metrics", row | {name: values.get(name) for name in self._scalar_names})
        self._shown |= {name: value for name, value in values.items() if name.startswith("alpha")}

    def evaluated(self, result: EvaluationResult) -> bool:
        """Write a row of ``evaluations.csv``.

        Returns:
            Whether no evaluation of the run was better.
        """
        row = result.row(self.frames, self.seconds)
        earlier = [mean for _, mean in evaluation_means(self._run.path)]
        self._run.write("evaluations", row)
        self._shown["evaluation"] = row["return_mean"]
        mean = row["return_mean"]
        return not isnan(mean) and not any(other > mean for other in earlier)  # one may be NaN
