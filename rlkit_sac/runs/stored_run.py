"""The task of a stored run, and how the run evaluates its policy there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rlkit_sac.config import EnvConfig
from rlkit_sac.runs.checkpoints import step_of
from rlkit_sac.runs.checkpoints.resume import find_checkpoint, stored_options
from rlkit_sac.runs.random_streams import evaluation_seed
from rlkit_sac.runs.schedules import reward_weights_due


@dataclass(frozen=True)
class StoredRun:
    """What an evaluation of a run depends on, besides its policy.

    Attributes:
        path: the run directory.
        frames: at the checkpoint.
        task: of the run.
        seed: of its evaluations.
        episodes: of each evaluation.
        deterministic: whether evaluations take the mode of the policy.
        reward_weights: ``[M]``, those at the checkpoint; ``None`` for ones.
    """

    path: Path
    frames: int
    task: EnvConfig
    seed: int
    episodes: int
    deterministic: bool
    reward_weights: Tensor | None


def read_run(checkpoint: Path) -> StoredRun:
    """Read how a run evaluates the policy of a checkpoint.

    Args:
        checkpoint: one of its ``checkpoints/step_<frames>``.

    Raises:
        ConfigError: if the checkpoint is missing or damaged.
    """
    path, checkpoint = find_checkpoint(checkpoint)
    options = stored_options(checkpoint)
    due = {int(at): value for at, value in options.get("loss.reward_weights_at", {}).items()}
    frames = step_of(checkpoint) or 0
    weights = reward_weights_due(due, 0, frames)
    weights = weights or options.get("loss.reward_weights")
    of_task = {key.removeprefix("env."): options[key] for key in options if key.startswith("env.")}
    return StoredRun(
        path=path,
        frames=frames,
        task=EnvConfig(**of_task),
        seed=evaluation_seed(options["seed"]),
        episodes=options["evaluation.episodes"],
        deterministic=options["evaluation.deterministic"],
        reward_weights=None if weights is None else torch.tensor(weights),
    )
