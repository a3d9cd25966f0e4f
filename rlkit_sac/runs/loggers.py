"""The rows of a run in TensorBoard and W&B."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrl.record.loggers import WandbLogger

from rlkit_sac.config import LoggingConfig
from rlkit_sac.errors import RunError, summary
from rlkit_sac.runs.files import os_errors_named

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class RunLoggers:
    """Sends the rows of a run's CSV files to TensorBoard and W&B, as options ask for.

    The column ``alpha`` of ``metrics.csv`` becomes ``metrics/alpha``, at the step ``frames``.
    Numbers and truth values (as 0 and 1) are sent; lists, text and empty cells are not. The files
    are in the folders ``tensorboard`` and ``wandb``. W&B obeys its own environment variables, such
    as ``WANDB_MODE=offline``.

    Args:
        config: which loggers, and the project of W&B.
        path: the run directory.
        name: what W&B calls the run.
        options: the run's whole configuration, which W&B shows.
        resumed_at: frames of the checkpoint the run continues from; TensorBoard drops the rows
            after it. W&B cannot: there they stay, below those of the resumed run.
        wandb_id: that of the run that is continued. Default: a new one.

    Attributes:
        wandb_id: id of the W&B run, which a resumed run passes on to continue it; ``None`` without
            W&B.

    Raises:
        RunError: if W&B does not start, or the files cannot be written.

    >>> loggers = RunLoggers(LoggingConfig(), Path("runs"), name="a", options={})
    >>> loggers.write("metrics", {"frames": 500, "alpha": 0.1})
    >>> loggers.close()
    """

    def __init__(
        self,
        config: LoggingConfig,
        path: Path,
        *,
        name: str,
        options: Mapping[str, Any],
        resumed_at: int | None = None,
        wandb_id: str | None = None,
    ) -> None:
        self._tensorboard: SummaryWriter | None = None
        self._wandb: WandbLogger | None = None
        self.wandb_id: str | None = None
        if config.wandb:
            import wandb

            try:
                self._wandb = WandbLogger(
                    name,
                    save_dir=str(path),
                    id=wandb_id,
                    project=config.wandb_project,
                    config=dict(options),
                    log_env_packages=False,  # W&B itself lists the packages
                )
            except (wandb.Error, OSError) as error:
                raise RunError(
                    f"W&B does not start: {summary(error)}; WANDB_MODE=offline keeps its files here"
                ) from error
            self.wandb_id = str(self._wandb.experiment.id)
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # TorchRL's logger does not pass on the step from which old rows are void.
            purge_step = None if resumed_at is None else resumed_at + 1
            with os_errors_named("cannot write the files of a logger"):
                self._tensorboard = SummaryWriter(str(path / "tensorboard"), purge_step=purge_step)

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
                for column, value in numbers.items():
                    self._tensorboard.add_scalar(column, value, step)
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
