"""Transitions that a run starts from, of another run or of a file."""

from __future__ import annotations

from pathlib import Path

import torch
from tensordict import TensorDict, TensorDictBase

from rlkit_sac.errors import ConfigError, summary
from rlkit_sac.runs.checkpoints.checkpoints import read_state
from rlkit_sac.runs.checkpoints.folders import Manifest, read_checked
from rlkit_sac.runs.checkpoints.replay_segments import segment_range, segment_rows
from rlkit_sac.runs.checkpoints.resume import find_checkpoint


def read_prior_data(path: Path | str) -> TensorDictBase:
    """Transitions of a run's replay, or of a TensorDict on disk.

    Args:
        path: run directory, for the replay of its newest checkpoint (under ``torchrun``, that of
            its first process), or one of its ``checkpoints/step_<frames>``; or a folder that
            ``TensorDict.save`` wrote.

    Returns:
        ``[*]``, on the CPU.

    Raises:
        ConfigError: naming the folder, if it holds neither, or a file is damaged.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = TensorDict(observation=torch.zeros(5, 3), batch_size=[5]).save(folder)
    >>> read_prior_data(folder).shape
    torch.Size([5])
    """
    folder = Path(path)
    try:
        if (folder / "meta.json").is_file():
            return TensorDict.load_memmap(folder, allow_pickle=False)
        run, checkpoint = find_checkpoint(folder)
        manifest = Manifest.read(checkpoint)
        parts = []
        for name, wanted in manifest.segments.items():
            start, stop = segment_range(name)
            content = read_checked(run / "replay" / name, wanted)
            parts.append(segment_rows(content, stop - start))
        return torch.cat(parts)[-read_state(manifest)["replay"]["capacity"] :]
    except Exception as error:  # any error that wrong content of a file can cause
        raise ConfigError(
            f"{path} has no transitions to read, as a run with a checkpoint or the folder of a "
            f"saved TensorDict has: {summary(error)}"
        ) from error
