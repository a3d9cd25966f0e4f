"""The log of a run: three tables and a progress bar, fed by the loop as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.errors import RunError
from rlkit_sac.training.episodes import finished_episodes
from rlkit_sac.training.evaluation import EvaluationResult
from rlkit_sac.training.metrics import MetricsAverage
from rlkit_sac.training.progress import ProgressBar
from rlkit_sac.training.run_directory import RunDirectory

# What only parameters beyond repair turn into NaN; statistics may lack a value without harm.
_FATAL = ("loss", "alpha", "grad_norm")


class TrainingLog:
    """Counts frames and updates and writes what they bring.

    Args:
        run: where the tables are.
        progress: the bar to move.
        scalar_names: what :meth:`updated` will report, the columns of ``metrics.csv``.
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

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self._started

    def collected(self, batch: TensorDictBase) -> None:
        """Count the frames of a batch and write the episodes that ended in it."""
        for row in finished_episodes(batch, frames=self.frames):
            self._run.episodes.write(row | {"seconds": self.seconds})
            self._shown["return"] = row["return"]
        self.frames += batch.numel()
        self._progress.update(self.frames, self._shown)

    def updated(self, scalars: Mapping[str, Tensor]) -> None:
        """Count an update and keep its scalars for the next row."""
        self.updates += 1
        self._average.add(scalars)

    def write_metrics(self) -> None:
        """Write a row of ``metrics.csv`` over the updates since the last one.

        Raises:
            RunError: for a loss, temperature or gradient that is not finite, once the row is
                written.
        """
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
        self._run.metrics.write(row | {name: values.get(name) for name in self._scalar_names})
        for name, value in values.items():
            if name.startswith(_FATAL) and not math.isfinite(value):
                raise RunError(
                    f"{name} became {value} between the frames {frames} and {self.frames}: "
                    "the parameters are no longer of use. Lower the learning rates, bound the "
                    "gradients (update.max_grad_norm) or scale the rewards (loss.reward_scale)"
                )
        self._shown |= {name: value for name, value in values.items() if name.startswith("alpha")}

    def evaluated(self, result: EvaluationResult) -> None:
        """Write a row of ``evaluations.csv``."""
        row = result.row(self.frames, self.seconds)
        self._run.evaluations.write(row)
        self._shown["evaluation"] = row["return_mean"]
