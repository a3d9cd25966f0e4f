"""Saving, restoring and keeping checkpoints, with small parts."""

from pathlib import Path

import torch
from tensordict import TensorDict

from rlkit_sac.data import make_replay_buffer
from rlkit_sac.runs import Checkpoints
from rlkit_sac.runs.checkpoint import Checkpoint, step_folders


class Counter:
    """A part with a number and a tensor."""

    def __init__(self) -> None:
        self.count, self.weight = 0, torch.zeros(2)

    def state_dict(self):
        return {"count": self.count, "weight": self.weight}

    def load_state_dict(self, state) -> None:
        self.count, self.weight = state["count"], state["weight"]


class Run:
    """Checkpoints of a counter, with what they need."""

    def __init__(self, path: Path, *, capacity: int = 50, keep: int = 2) -> None:
        self.path, self.counter = path, Counter()
        self.means: dict[int, float] = {}
        example = TensorDict(x=torch.zeros(1))
        self.replay = make_replay_buffer(example, capacity=capacity, batch_size=1)
        self.checkpoints = Checkpoints(
            path,
            {"counter": self.counter},
            self.replay,
            policy=lambda: {"policy.json": b"{}"},
            config={"seed": 3},
            keep=keep,
            best=lambda among: max(
                (frames for frames in self.means if frames in among),
                key=lambda frames: (self.means[frames], frames),
                default=None,
            ),
        )

    @property
    def frames(self) -> list[int]:
        return list(step_folders(self.path / "checkpoints"))

    @property
    def segments(self) -> list[str]:
        return sorted(file.name for file in (self.path / "replay").iterdir())

    def advance(self, frames: int) -> None:
        start = self.replay.write_count
        rows = torch.arange(start, frames, dtype=torch.float32)[:, None]
        self.replay.extend(TensorDict(x=rows, batch_size=[frames - start]))
        self.counter.count = frames
        self.counter.weight = torch.full((2,), float(frames))

    def save(self, *steps: int) -> None:
        for frames in steps:
            self.advance(frames)
            self.checkpoints.save(frames)

    def restore(self, frames: int) -> list[str]:
        folder = self.path / "checkpoints" / f"step_{frames}"
        return self.checkpoints.restore(Checkpoint.find(folder))


def test_each_transition_is_written_once(tmp_path):
    run = Run(tmp_path)
    run.save(10, 20, 30)
    assert run.segments == [
        "segment_0-10.safetensors",
        "segment_10-20.safetensors",
        "segment_20-30.safetensors",
    ]
    again = Run(tmp_path)
    again.restore(30)
    again.save(45)
    assert run.segments[-1] == "segment_30-45.safetensors"
    assert len(run.segments) == 4


def test_segments_that_no_checkpoint_needs_are_deleted(tmp_path):
    run = Run(tmp_path, capacity=25, keep=2)
    run.save(10, 20, 30, 40, 50, 60)
    # Checkpoint 50 needs the transitions from 25 on, which lie in the segment that begins at 20.
    assert run.segments[0] == "segment_20-30.safetensors"
    for frames in run.frames:
        Run(tmp_path, capacity=25).restore(frames)


def test_the_newest_and_the_best_are_kept(tmp_path):
    run = Run(tmp_path, keep=2)
    run.means = {10: 1.0, 20: 5.0}
    run.save(10, 20, 30, 40)
    assert run.frames == [20, 30, 40]
    run.means[50] = 7.0
    run.save(50, 60, 70)
    assert run.frames == [50, 60, 70]


def test_going_on_from_an_older_one_discards_the_newer(tmp_path):
    run = Run(tmp_path, keep=5)
    run.save(10, 20, 30)
    again = Run(tmp_path, keep=5)
    again.restore(20)
    assert run.frames == [10, 20, 30]  # nothing is written by restoring
    again.checkpoints.discard_later()
    again.checkpoints.prune()
    assert run.frames == [10, 20]
    assert run.segments == ["segment_0-10.safetensors", "segment_10-20.safetensors"]
    again.save(25)
    Run(tmp_path).restore(25)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    run = Run(tmp_path)
    run.save(10)
    (tmp_path / "replay" / ".segment_10-20.safetensors.77.partial").write_bytes(b"half")
    (tmp_path / "checkpoints" / ".step_20.partial").mkdir()
    run.save(20)
    assert not [*tmp_path.rglob("*.partial")]
