import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.training import Every, UpdateSchedule


def frames_of(batches: list[int]) -> list[int]:
    """Frames of the run after each batch."""
    total, counts = 0, []
    for size in batches:
        total += size
        counts.append(total)
    return counts


batches = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(batches=batches, learning_starts=st.integers(0, 300), eighths=st.integers(1, 64))
def test_updates_made_are_those_owed_whatever_the_batches(
    batches: list[int], learning_starts: int, eighths: int
) -> None:
    schedule = UpdateSchedule(learning_starts=learning_starts, utd_ratio=eighths / 8)
    made = 0
    for frames in frames_of(batches):
        due = schedule.due(frames)
        assert due >= 0
        made += due
        assert made == max(frames - learning_starts, 0) * eighths // 8


@given(batches=batches, learning_starts=st.integers(0, 300), ratio=st.floats(0.01, 20))
def test_any_ratio_is_kept_to_within_one_update(
    batches: list[int], learning_starts: int, ratio: float
) -> None:
    schedule = UpdateSchedule(learning_starts=learning_starts, utd_ratio=ratio)
    made = sum(schedule.due(frames) for frames in frames_of(batches))
    assert made == math.floor(ratio * max(sum(batches) - learning_starts, 0))


def test_learning_starts_after_its_frames_and_owes_nothing_for_them() -> None:
    schedule = UpdateSchedule(learning_starts=10, utd_ratio=2.0)
    assert [schedule.due(frames) for frames in (9, 10, 11, 12)] == [0, 0, 2, 2]
    late = UpdateSchedule(learning_starts=10, utd_ratio=1.0)
    assert late.due(500) == 490


def test_a_second_question_at_the_same_frame_owes_nothing() -> None:
    schedule = UpdateSchedule(learning_starts=0, utd_ratio=1.0)
    assert [schedule.due(7), schedule.due(7), schedule.due(8)] == [7, 0, 1]


@given(batches=batches, interval=st.integers(1, 100))
def test_an_interval_is_due_where_a_multiple_is_reached_and_at_the_end(
    batches: list[int], interval: int
) -> None:
    counts = frames_of(batches)
    every = Every(interval, total_frames=counts[-1])
    due = [frames for frames in counts if every.due(frames)]
    wanted, before = [], 0
    for frames in counts:
        multiples = [m for m in range(before + 1, frames + 1) if m % interval == 0]
        if multiples or frames == counts[-1]:
            wanted.append(frames)
        before = frames
    assert due == wanted


@pytest.mark.parametrize(("total", "due"), [(20, [10, 20]), (25, [10, 20, 25])])
def test_the_end_is_due_once(total: int, due: list[int]) -> None:
    every = Every(10, total_frames=total)
    assert [frames for frames in range(1, total + 1) if every.due(frames)] == due
    assert not every.due(total)
