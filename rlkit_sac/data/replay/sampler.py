"""The base of samplers, whose state is saved by ``state_dict``."""

from __future__ import annotations

from pathlib import Path

from torchrl.data.replay_buffers.samplers import Sampler


class StatefulSampler(Sampler):
    """A sampler of TorchRL's replay buffers without files of its own.

    ``state_dict`` and ``load_state_dict`` save and restore it, also as parts of those of a buffer.
    """

    def dumps(self, path: Path | str) -> None:
        """Not supported."""
        raise NotImplementedError(f"{type(self).__name__} has no files: save its state_dict()")

    def loads(self, path: Path | str) -> None:
        """Not supported."""
        raise NotImplementedError(f"{type(self).__name__} has no files: use load_state_dict()")
