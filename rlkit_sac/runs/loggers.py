"""The display of a run in progress: TensorBoard, W&B, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torchrl.record.loggers import WandbLogger
from tqdm import tqdm

from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.errors import RunError, as_run_error
from rlkit_sac.runs.directory import RunDirectory

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class RunLoggers:
    """Sends the rows of a run's CSV files to TensorBoard and W&B, as options ask for.

    The column ``alpha`` of ``metrics.csv`` becomes ``metrics/alpha``, at the step ``frames``.
    Numbers and truth values (as 0 and 1) are sent; lists, text and empty cells are not. The files
    are in the folders ``tensorboard`` and ``wandb``. W&B obeys its own environment variables, such
    as ``WANDB_MODE=offline``; its id of the run is in ``run.json``, and a resumed run continues it.

    Args:
        config: the options of the run, which choose the loggers; W&B shows all options.
        run: the run directory, begun.
        resumed_at: frames of the checkpoint the run continues from. TensorBoard drops the later
            rows. W&B cannot: there they stay, below the rows of the resumed run.

    Raises:
        RunError: if W&B does not start, or the files cannot be written.
    """

    def __init__(
        self, config: BaseRunConfig, run: RunDirectory, *, resumed_at: int | None = None
    ) -> None:
        self._tensorboard: SummaryWriter | None = None
        self._wandb: WandbLogger | None = None
        if config.logging.wandb:
            import wandb

            text = "W&B does not start (WANDB_MODE=offline keeps its files here)"
            with as_run_error(text, wandb.Error):
                self._wandb = WandbLogger(
                    f"{config.env.id}/{run.path.name}",
                    save_dir=str(run.path),
                    id=run.info.get("wandb_id"),
                    project=config.logging.wandb_project,
                    config=asdict(config),
                    log_env_packages=False,  # W&B itself lists the packages
                )
            run.update_info(wandb_id=str(self._wandb.experiment.id))
        if config.logging.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # TorchRL's logger does not pass on the step from which old rows are void.
            purge_step = None if resumed_at is None else resumed_at + 1
            with as_run_error("cannot write the files of a logger"):
                folder = str(run.path / "tensorboard")
                self._tensorboard = SummaryWriter(folder, purge_step=purge_step)

    def write(self, table: str, row: Mapping[str, Any]) -> None:
        """Send one row.

        Args:
            table: ``"metrics"``, ``"episodes"`` or ``"evaluations"``.
            row: the row as written to the CSV file; ``frames`` is the step.

        Raises:
            RunError: if a file cannot be written.
        """
        step = int(row["frames"])
        numbers = {
            f"{table}/{column}": float(value)
            for column, value in row.items()
            if isinstance(value, int | float) and column != "frames"
        }
        with as_run_error("cannot write the files of a logger"):
            if self._tensorboard is not None:
                for column, value in numbers.items():
                    self._tensorboard.add_scalar(column, value, step)
                self._tensorboard.flush()  # a killed run would lack what the writer still holds
            if self._wandb is not None:
                self._wandb.log_metrics(numbers, step=step)

    def close(self, *, failed: bool = False) -> None:
        """Write what is left and end the W&B run.

        Args:
            failed: if true, W&B shows the run as failed, and errors of the loggers are ignored.
        """
        ignored = suppress(RunError) if failed else nullcontext()
        with ignored, as_run_error("cannot write the files of a logger"):
            if self._wandb is not None:
                self._wandb.experiment.finish(exit_code=int(failed))
            if self._tensorboard is not None:
                self._tensorboard.close()


class ProgressBar:
    """A bar in frames that shows frames per second, the time left and some numbers.

    On a terminal it takes one line, cut to its width. Elsewhere, as in a file or a pipe, it writes
    a line every 30 seconds.

    Args:
        total_frames: frames of the whole run.
        enabled: ``False`` shows nothing.

    >>> with ProgressBar(100, enabled=False) as bar:
    ...     bar.update(50, {"evaluation": -150.0, "return": -120.0, "alpha": 0.2})
    """

    def __init__(self, total_frames: int, *, enabled: bool = True) -> None:
        self._on_terminal = enabled and sys.stderr.isatty()
        self._total = total_frames
        self._shown: Mapping[str, float] = {}
        self._bar = tqdm(
            total=total_frames,
            disable=not enabled,
            unit=" frames",
            unit_scale=True,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}%|{bar}| {rate_noinv_fmt}, {remaining}{postfix}",
            mininterval=0.1 if self._on_terminal else 30.0,
            miniters=1,  # by its default the bar stands still for seconds when updates begin
            delay=1e-9,  # nothing is shown before the first update
        )

    def start_at(self, frames: int) -> None:
        """Begin with the frames of earlier sessions; the speed shown counts later ones only."""
        self._bar.initial = self._bar.n = self._bar.last_print_n = frames

    def update(self, frames: int, shown: Mapping[str, float]) -> None:
        """Move the bar.

        Args:
            frames: frames of the run so far.
            shown: numbers to show from now on, by name.
        """
        if shown != self._shown:
            self._shown = dict(shown)
            self._show_numbers()
        self._bar.update(min(frames, self._total) - self._bar.n)  # the last batch is whole

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show the name of a phase on the bar during the block.

        Args:
            name: the name, such as ``"evaluating"``.
        """
        self._bar.set_postfix_str(name, refresh=self._on_terminal)
        try:
            yield
        finally:
            self._show_numbers()

    def _show_numbers(self) -> None:
        numbers = {name: f"{value:.5g}" for name, value in self._shown.items()}
        self._bar.set_postfix(numbers, refresh=False)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
