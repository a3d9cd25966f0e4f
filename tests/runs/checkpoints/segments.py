"""Segments of replay read as a checkpoint reads them."""

from collections.abc import Mapping
from pathlib import Path

from torchrl.data import TensorDictReplayBuffer

from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.saving import fill_replay


def read_segments(
    replay: TensorDictReplayBuffer, folder: Path, segments: Mapping[str, str]
) -> None:
    """Fill a buffer with the segments of ``folder``, which is called replay."""
    checkpoint = Checkpoint(
        folder.parent / "checkpoints" / "step_1", 1, {}, dict(segments), config={}, tree={}
    )
    for start, rows in checkpoint.replay():
        fill_replay(replay, start, rows)
