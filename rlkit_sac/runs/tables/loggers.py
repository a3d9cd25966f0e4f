"""TensorBoard and Weights & Biases beside the CSV files, through TorchRL's loggers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrl.record.loggers import TensorboardLogger, WandbLogger

from rlkit_sac.config import LoggingConfig
from rlkit_sac.errors import RunError, summary
from rlkit_sac.runs.files import os_errors_named

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class RunLoggers:
    """Sends the rows of a run's CSV files to loggers, under the names of table and column.

    The column ``alpha`` of ``metrics.csv`` becomes ``metrics/alpha``, at the step ``frames``.
    Numbers and truth values (as 0 and 1) are sent; lists, text and empty cells are not.

    Args:
        tensorboard: an open logger, or ``None``.
        wandb: an open logger, or ``None``.

    >>> loggers = RunLoggers()
    >>> loggers.write("metrics", {"frames": 500, "alpha": 0.1})
    >>> loggers.close()
    """

    def __init__(
        self, tensorboard: TensorboardLogger | None = None, wandb: WandbLogger | None = None
    ) -> None:
        self._tensorboard, self._wandb = tensorboard, wandb

    @property
    def wandb_id(self) -> str | None:
        """Id of the W&B run, which a resumed run passes on to continue it; ``None`` without W&B."""
        return None if self._wandb is None else str(self._wandb.experiment.id)

    def write(self, table: str, row: Mapping[str, Any]) -> None:
        """Send one row.

        Args:
            table: ``"metrics"``, ``"episodes"`` or ``"evaluations"``.
            row: as written to the CSV file; ``frames`` is the step.

        Raises:
            RunError: if a file cannot be written.
        """
        step = int(row["frames"])
        numbers = {
            f"{table}/{column}": float(value)
            for column, value in row.items()
            if isinstance(value, int | float) and column != "frames"
        }
        with os_errors_named("cannot write the files of a logger"):
            if self._tensorboard is not None:
                self._tensorboard.log_metrics(numbers, step=step)
                self._tensorboard.flush()  # a killed run would lack what the writer still holds
            if self._wandb is not None:
                self._wandb.log_metrics(numbers, step=step)

    def close(self, *, failed: bool = False) -> None:
        """Write what is left and end the W&B run.

        Args:
            failed: whether W&B shall show the run as failed, whose own error is then reported.
        """
        ignored = suppress(RunError) if failed else nullcontext()
        with ignored, os_errors_named("cannot write the files of a logger"):
            if self._wandb is not None:
                self._wandb.experiment.finish(exit_code=int(failed))
            if self._tensorboard is not None:
                self._tensorboard.close()


def make_loggers(
    config: LoggingConfig,
    path: Path,
    *,
    name: str,
    options: Mapping[str, Any],
    resumed_at: int | None = None,
    wandb_id: str | None = None,
) -> RunLoggers:
    """Open the loggers asked for, with their files in the folders ``tensorboard`` and ``wandb``.

    W&B obeys its own environment variables, such as ``WANDB_MODE=offline``.

    Args:
        config: which loggers, and the project of W&B.
        path: the run directory.
        name: what W&B calls the run.
        options: the run's whole configuration, which W&B shows.
        resumed_at: frames of the checkpoint the run continues from; TensorBoard drops the rows
            after it. W&B cannot: there they stay, below those of the resumed run.
        wandb_id: ``RunLoggers.wandb_id`` of the run that is continued; default a new one.

    Raises:
        RunError: if W&B does not start, or the files cannot be written.

    >>> make_loggers(LoggingConfig(), Path("runs"), name="a", options={}).wandb_id is None
    True
    """
    tensorboard = wandb = None
    if config.wandb:
        wandb = _start_wandb(config.wandb_project, path, name, options, wandb_id)
    if config.tensorboard:
        with os_errors_named("cannot write the files of a logger"):
            tensorboard = _PurgingTensorboardLogger(path, resumed_at)
    return RunLoggers(tensorboard, wandb)


class _PurgingTensorboardLogger(TensorboardLogger):
    """TorchRL's logger with what it does not pass on: the step from which old rows are void."""

    def __init__(self, path: Path, resumed_at: int | None) -> None:
        self._purge_step = None if resumed_at is None else resumed_at + 1
        super().__init__(exp_name="tensorboard", log_dir=str(path))

    def _create_experiment(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(self.log_dir) / self.exp_name
        return SummaryWriter(str(folder), purge_step=self._purge_step)


def _start_wandb(
    project: str, path: Path, name: str, options: Mapping[str, Any], wandb_id: str | None
) -> WandbLogger:
    import wandb

    try:
        return WandbLogger(
            name,
            save_dir=str(path),
            id=wandb_id,
            project=project,
            config=dict(options),
            log_env_packages=False,  # W&B itself lists the packages
        )
    except (wandb.Error, OSError) as error:
        raise RunError(
            f"W&B does not start: {summary(error)}; WANDB_MODE=offline keeps its files on this "
            "machine"
        ) from error
