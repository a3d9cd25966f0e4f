"""The log of a run: its counters, the rows of its tables, and the summary at its end."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.envs.torchrl_env import SUCCESS
from rlkit_sac.errors import ConfigError, RlkitSacError
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.output import summary_table
from rlkit_sac.runs.directory import RunDirectory
from rlkit_sac.runs.evaluation import EvaluationResult, per_dimension
from rlkit_sac.runs.loggers import ProgressBar, RunLoggers

# The columns of metrics.csv besides the scalars of updates and the user's metrics.
_COLUMNS = ("frames", "updates", "seconds", "frames_per_second")
_OF_EPISODES = tuple(
    ("next", n) for n in ("done", "terminated", "episode_reward", "step_count", SUCCESS)
)
# The columns that `load_runs` adds, and the numbers of the progress bar.
_TAKEN = ("run", "recipe", "task", "seed", "status", "return", "evaluation", "success_rate")


class TrainingLog:
    """Counts frames and updates, and writes the rows of the tables.

    Args:
        run: the run directory with the tables.
        progress: the progress bar.
        scalar_names: names of the scalars that :meth:`updated` receives, columns of
            ``metrics.csv``.
        started: ``time.perf_counter()`` at the start of the run, where ``seconds`` is 0.
        processes: number of processes that collect at the same time, with this one; the frames of
            all are counted.

    Attributes:
        run: the run directory with the tables.
        progress: the progress bar.
        latest: numbers for the progress bar, by name.
        last_row: frames and seconds at the last row of ``metrics.csv``; 0 frames before the first.
        evaluations: mean, deviation and number of the returns of each evaluation, and its success
            rate or None, by frames.
        loggers: TensorBoard and W&B, which receive the rows of the tables, if any.
    """

    def __init__(
        self,
        run: RunDirectory,
        progress: ProgressBar,
        scalar_names: Sequence[str],
        *,
        started: float,
        processes: int = 1,
    ) -> None:
        self.frames = 0
        self.updates = 0
        self.run, self.progress, self._processes = run, progress, processes
        self._scalar_names = tuple(scalar_names)
        self._average, self._user_metrics = MetricsAverage(), MetricsAverage()
        self._started = started
        self.last_row = (0, self.seconds)
        self.latest: dict[str, float] = {}
        self._unread: list[TensorDictBase] = []
        self.evaluations: dict[int, tuple[float, float, int, float | None]] = {}
        self.loggers: RunLoggers | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the counters, and the averages so far for the next row of ``metrics.csv``."""
        self._write_episodes()
        return {
            "frames": self.frames,
            "updates": self.updates,
            "seconds": self.seconds,
            "latest": dict(self.latest),
            "last_row": self.last_row,
            "average": self._average.state_dict(),
            "own": self._user_metrics.state_dict(),
            "evaluations": self.evaluations,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; its ``seconds`` go on counting."""
        self.frames, self.updates = state["frames"], state["updates"]
        self._started = time.perf_counter() - state["seconds"]
        self.last_row = state["last_row"]
        self._average.load_state_dict(state["average"])
        self._user_metrics.load_state_dict(state["own"])
        self.latest.update(state["latest"])
        self.evaluations = state["evaluations"]
        self.progress.start_at(self.frames)
        self.progress.update(self.frames, self.latest)

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self._started

    def collected(self, batch: TensorDictBase, **options: Any) -> None:
        """Count the frames of a batch and write the episodes that ended in it.

        Reading frames on a GPU would wait for it: their episodes are written with the next row of
        ``metrics.csv``.

        Args:
            batch: collected frames.
            options: further arguments of :func:`finished_episodes`.
        """
        self._row_options = options
        self.frames += batch.numel() * self._processes
        on_cpu = batch.get(("next", "done")).is_cpu
        self._unread.append(batch if on_cpu else batch.select(*_OF_EPISODES, strict=False).clone())
        if on_cpu:
            self._write_episodes()
        self.progress.update(self.frames, self.latest)

    def _write_episodes(self) -> None:
        if self._unread:
            batch = torch.cat(self._unread, -1) if self._unread[1:] else self._unread[0]
            options = {"processes": self._processes, **self._row_options}
            frames = self.frames - batch.numel() * self._processes
            for row in finished_episodes(batch, frames=frames, **options):
                self._write("episodes", row | {"seconds": self.seconds})
                self.latest["return"] = row["return"]
            self._unread = []

    def updated(self, scalars: Mapping[str, Tensor]) -> None:
        """Count an update and keep its scalars for the next row."""
        self.updates += 1
        self._average.add(scalars)

    def log(self, values: Mapping[str, float]) -> None:
        """Keep metrics of a user for the next row.

        Raises:
            ConfigError: for a name that is a column of the package.
        """
        taken = {*_COLUMNS, *_TAKEN, *self._scalar_names}.intersection(values)
        if taken:
            raise ConfigError(f"a run has {min(taken)!r} already: log another name")
        if not values:
            return
        numbers = {name: float(value) for name, value in values.items()}
        self._user_metrics.add({n: torch.tensor(x, dtype=torch.double) for n, x in numbers.items()})
        self.latest |= numbers

    def write_metrics(self) -> None:
        """Write a row of ``metrics.csv`` over the updates since the last one."""
        self._write_episodes()
        values = self._average.compute()
        frames, seconds = self.last_row
        self.last_row = self.frames, self.seconds
        rate = (self.frames - frames) / max(self.seconds - seconds, 1e-9)
        moment = self.frames, self.updates, self.seconds, rate
        row: dict[str, Any] = dict(zip(_COLUMNS, moment, strict=True))
        row |= {name: values.get(name) for name in self._scalar_names}
        self._write("metrics", row | self._user_metrics.compute())
        self.latest |= {name: value for name, value in values.items() if name.startswith("alpha")}

    def evaluated(self, result: EvaluationResult) -> bool:
        """Write a row of ``evaluations.csv``.

        Returns:
            Whether no evaluation of the run was better.
        """
        row = result.row(self.frames, self.seconds)
        self._write("evaluations", row)
        mean = self.latest["evaluation"] = row["return_mean"]
        success = row.get("success_rate")
        self.evaluations[self.frames] = mean, row["return_std"], row["episodes"], success
        if success is not None:
            self.latest["success_rate"] = success
        self.progress.update(self.frames, self.latest)
        return self.best_evaluation() == self.frames

    def best_evaluation(self, among: Collection[int] | None = None) -> int | None:
        """Return the frames of the best evaluation, the last of equal ones; ``None`` without any.

        Args:
            among: the frames to choose from. Default: all.
        """
        candidates = set(self.evaluations) if among is None else set(self.evaluations) & set(among)
        return max(candidates, key=lambda n: (self.evaluations[n][0], n), default=None)

    def reached(self, stop_at: float | None, success: float | None = None) -> bool:
        """Return whether an evaluation at this frame had this mean return or success rate."""
        mean, _, _, rate = self.evaluations.get(self.frames, (None, None, None, None))
        wanted = (mean, stop_at), (rate, success)
        return any(x is not None and least is not None and x >= least for x, least in wanted)

    def end(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Note the counters for ``run.json`` and end the loggers; the exit of a context."""
        self.run.info |= {"frames": self.frames, "updates": self.updates}
        if self.loggers is not None:
            self.loggers.close(failed=error is not None)

    def _write(self, table: str, row: Mapping[str, Any]) -> None:
        self.run.write(table, row)
        if self.loggers is not None:
            self.loggers.write(table, row)


def finished_episodes(
    batch: TensorDictBase,
    *,
    frames: int,
    reward_weights: Tensor | None = None,
    most_rows: int | None = None,
    processes: int = 1,
) -> list[dict[str, Any]]:
    """Return a row of ``episodes.csv`` for each episode that ends in a batch, first ends first.

    Args:
        batch: collected frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        frames: frames of the run before this batch.
        reward_weights: weights ``[M]`` of a vector reward; default ones.
        most_rows: the limit of rows. More episodes become one row of means, with their number as
            ``episodes`` and an empty ``env``. Default: no limit.
        processes: number of processes that collect at the same time.

    Returns:
        Rows with ``frames`` (of the run at the episode's end), ``env``, ``return`` (undiscounted),
        ``length`` in frames, ``terminated`` (false: a time limit) and, where the task says so,
        ``success`` of the last step. For vector rewards
        ``return`` is the weighted sum of ``return_0``, ``return_1``, …

    >>> import torch
    >>> from tensordict import TensorDict
    >>> batch = TensorDict(batch_size=[2])
    >>> batch["next"] = TensorDict(
    ...     done=torch.tensor([[False], [True]]),
    ...     terminated=torch.tensor([[False], [False]]),
    ...     episode_reward=torch.tensor([[1.0], [3.0]]),
    ...     step_count=torch.tensor([[1], [2]]),
    ...     batch_size=[2],
    ... )
    >>> finished_episodes(batch, frames=10)
    [{'frames': 12, 'env': 0, 'return': 3.0, 'length': 2, 'terminated': False}]
    """
    if not batch.get(("next", "done")).any():
        return []
    after = batch.select(*_OF_EPISODES, strict=False).get("next")
    after = after.reshape(-1, batch.shape[-1]).transpose(0, 1)  # [T, N]: time first
    step, env = after.get("done").squeeze(-1).nonzero(as_tuple=True)
    ends = after[step, env]
    sums = ends.get("episode_reward")
    columns = {
        "frames": frames + (step + 1) * (after.shape[1] * processes),
        "env": env,
        "return": weigh_rewards(sums, reward_weights),
        **per_dimension("return", list(sums.unbind(-1))),
        "length": ends.get("step_count").squeeze(-1),
        "terminated": ends.get("terminated").squeeze(-1),
    }
    if (success := ends.get(SUCCESS, None)) is not None and (success >= 0).any():
        columns["success"] = success.reshape(len(step)) > 0
    if most_rows is not None and len(step) > most_rows:
        means = {name: values.cpu().double().mean().item() for name, values in columns.items()}
        last = frames + batch.numel() * processes
        return [means | {"frames": last, "env": None, "episodes": len(step)}]
    lists = (values.tolist() for values in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


class MetricsAverage:
    """Collects scalars on their device and reduces them once for each row.

    Names that end in ``_min`` and ``_max`` are reduced by minimum and maximum, the others by mean.
    The values reach the host only in :meth:`compute`, so logging does not stall a GPU, and take no
    more memory however many updates a row covers.

    >>> average = MetricsAverage()
    >>> average.add({"alpha": torch.tensor(1.0), "q0_min": torch.tensor(-2.0)})
    >>> average.add({"alpha": torch.tensor(2.0), "q0_min": torch.tensor(-1.0)})
    >>> average.compute()
    {'alpha': 1.5, 'q0_min': -2.0}
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, ...], tuple[int, Tensor, Tensor, Tensor]] = {}

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Add the scalars of one update."""
        names = tuple(scalars)
        values = torch.stack(tuple(scalars.values())).detach()
        if names not in self._parts:
            self._parts[names] = 1, values, values, values
            return
        count, *reduced = self._parts[names]
        # A state may come from another device.
        total, low, high = (tensor.to(values.device) for tensor in reduced)
        total, low, high = total + values, torch.minimum(low, values), torch.maximum(high, values)
        self._parts[names] = count + 1, total, low, high

    def compute(self) -> dict[str, float]:
        """Return the reduced values since the last call, in the order of first appearance."""
        means: dict[str, tuple[int, float]] = {}
        out: dict[str, float] = {}
        for names, (added, *reduced) in self._parts.items():
            rows = torch.stack(reduced).tolist()
            for name, total, low, high in zip(names, *rows, strict=True):
                if name.endswith("_min"):
                    out[name] = min(out.get(name, low), low)
                elif name.endswith("_max"):
                    out[name] = max(out.get(name, high), high)
                else:
                    count, sum_so_far = means.get(name, (0, 0.0))
                    means[name] = count + added, sum_so_far + total
                    out[name] = means[name][1] / means[name][0]
        self._parts = {}
        return out

    def state_dict(self) -> dict[str, Any]:
        """Return the sums, minima and maxima since the last row."""
        return {"parts": [(list(names), *part) for names, part in self._parts.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, which may lie on another device."""
        self._parts = {tuple(names): tuple(part) for names, *part in state["parts"]}


def report(run: RunDirectory, log: TrainingLog) -> str:
    """Draw ``figures/learning_curve.png`` and return a table about the run.

    The table has the last and best evaluation, the cost, and the place of the files; without
    matplotlib it says how to get the figure.

    Args:
        run: a run with at least one evaluation.
        log: the log of the run.

    Returns:
        The text to print.
    """
    rows = {
        "last evaluation": _evaluation(log, max(log.evaluations, default=None)),
        "best evaluation": _evaluation(log, log.best_evaluation()),
        "frames": f"{log.frames:,}",
        "updates": f"{log.updates:,}",
        "wall time": f"{timedelta(0, int(log.seconds))} ({log.frames / log.seconds:,.0f} frames/s)",
        "results": str(run.path),
    }
    summary = summary_table(rows)
    figure = run.path / "figures" / "learning_curve.png"
    try:
        episodes = load_runs(run.path, table="episodes")
        plot_learning_curves(load_runs(run.path), episodes=episodes, path=figure)
        return f"{summary}\nlearning curve   {figure}"
    except (RlkitSacError, ImportError, OSError) as error:
        return f"{summary}\n{error}"


def _evaluation(log: TrainingLog, frames: int | None) -> str:
    if frames is None:
        return "none"
    mean, deviation, count, rate = log.evaluations[frames]
    spread = "" if count == 1 else f" ± {deviation:.2f}"
    success = "" if rate is None else f", success rate {rate:.2f}"
    episodes = "1 episode" if count == 1 else f"{count} episodes"
    return f"{mean:.2f}{spread}{success} ({episodes} at frame {frames:,})"
