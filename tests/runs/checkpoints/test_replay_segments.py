"""Replay in segments: every transition written once, each back in the slot it had."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlkit_sac.data import make_replay_buffer
from rlkit_sac.runs import saving
from rlkit_sac.runs.checkpoint import segment_range
from rlkit_sac.runs.saving import write_segments
from tests.runs.checkpoints.segments import read_segments


def rows(start: int, stop: int) -> TensorDict:
    number = torch.arange(start, stop)
    return TensorDict(
        {
            "observation": torch.stack([number, -number], -1).float(),
            ("next", "reward"): number[:, None].double() / 3,
            ("next", "done"): (number % 7 == 0)[:, None],
            "a/b.c": number.to(torch.uint8),
        },
        batch_size=[stop - start],
    )


def buffer(capacity: int, **options):
    return make_replay_buffer(rows(0, 1)[0], capacity=capacity, batch_size=1, **options)


def content(replay) -> TensorDict:
    return replay.storage.get(torch.arange(len(replay))).exclude("index")  # files have it


def assert_same(first, second) -> None:
    assert len(first) == len(second)
    assert first.write_count == second.write_count
    assert set(content(first).keys(True, True)) == set(content(second).keys(True, True))
    assert (content(first) == content(second)).all()
    following = rows(first.write_count, first.write_count + 1)
    for replay in (first, second):
        replay.extend(following.clone())
    assert (content(first) == content(second)).all()


@given(
    capacity=st.integers(1, 30),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    saves=st.sets(st.integers(0, 11)),
)
@settings(max_examples=60, deadline=None)
def test_a_ring_comes_back_slot_by_slot(tmp_path_factory, capacity, sizes, saves):
    folder = tmp_path_factory.mktemp("run") / "replay"
    folder.mkdir()
    replay, files, total = buffer(capacity), {}, 0
    for number, size in enumerate(sizes):
        size = min(size, capacity)  # one batch never laps the ring
        replay.extend(rows(total, total + size))
        total += size
        if number in saves or number == len(sizes) - 1:
            saved = max((segment_range(name)[1] for name in files), default=0)
            files |= write_segments(replay, folder, saved=saved)
    needed = {name: files[name] for name in files if segment_range(name)[1] > total - capacity}
    again = buffer(capacity)
    read_segments(again, folder, needed)
    assert_same(replay, again)


def test_overwritten_transitions_are_not_written(tmp_path):
    replay = buffer(10)
    for start in (0, 8, 16):
        replay.extend(rows(start, start + 8))
    (name,) = write_segments(replay, tmp_path, saved=3)
    assert segment_range(name) == (14, 24)


def test_long_histories_are_cut_into_files_of_bounded_size(tmp_path, monkeypatch):
    replay = buffer(100)
    replay.extend(rows(0, 10))
    row = sum(value[0].nbytes for value in content(replay).values(True, True))
    monkeypatch.setattr(saving, "_SEGMENT_BYTES", 4 * row)
    folder = tmp_path / "replay"
    folder.mkdir()
    files = write_segments(replay, folder, saved=0)
    assert [segment_range(name) for name in files] == [(0, 4), (4, 8), (8, 10)]
    again = buffer(100)
    read_segments(again, folder, files)
    assert_same(replay, again)
