"""What a run writes and shows."""

from __future__ import annotations

from dataclasses import dataclass

from rlkit_sac.config.bounds import PositiveInt


@dataclass
class LoggingConfig:
    """Where a run is written, and what it shows.

    >>> LoggingConfig().dir
    'runs'
    """

    dir: str = "runs"
    """Folder under which each run gets its own directory."""

    interval: PositiveInt = 500
    """Frames between two rows of metrics.csv."""

    progress: bool = True
    """Show a progress bar."""

    tensorboard: bool = False
    """Also write the numbers of the CSV files for TensorBoard."""

    wandb: bool = False
    """Also send the numbers of the CSV files to Weights & Biases."""

    wandb_project: str = "rlkit_sac"
    """Project of Weights & Biases that the run belongs to."""
