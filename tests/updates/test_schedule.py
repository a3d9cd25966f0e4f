import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.updates import EveryFrames, ReplaySchedule, UpdateSchedule


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
        due = schedule.due(frames, made=made)
        assert due >= 0
        made += due
        assert made == max(frames - learning_starts, 0) * eighths // 8


@given(batches=batches, learning_starts=st.integers(0, 300), ratio=st.floats(0.01, 20))
def test_any_ratio_is_kept_to_within_one_update(
    batches: list[int], learning_starts: int, ratio: float
) -> None:
    schedule = UpdateSchedule(learning_starts=learning_starts, utd_ratio=ratio)
    made = 0
    for frames in frames_of(batches):
        made += schedule.due(frames, made=made)
    assert made == math.floor(ratio * max(sum(batches) - learning_starts, 0))


def test_learning_starts_after_its_frames_and_owes_nothing_for_them() -> None:
    schedule = UpdateSchedule(learning_starts=10, utd_ratio=2.0)
    assert [schedule.due(frames, made=0) for frames in (9, 10, 11, 12)] == [0, 0, 2, 4]


@given(batches=batches, interval=st.integers(1, 100))
def test_an_interval_is_due_where_a_multiple_is_reached(batches: list[int], interval: int) -> None:
    every, before = EveryFrames(interval), 0
    for frames in frames_of(batches):
        multiples = [m for m in range(before + 1, frames + 1) if m % interval == 0]
        assert every.due(before, frames) == bool(multiples)
        before = frames


def test_random_numbers_of_replays_have_the_mean_and_the_spread_of_their_distribution() -> None:
    torch.manual_seed(0)
    schedule = ReplaySchedule(n_times_replay=2.5, poisson=True, replay_start_size=0)
    state = torch.get_rng_state()
    drawn = [schedule.due(1) for _ in range(2_000)]
    numbers = torch.tensor(drawn, dtype=torch.float64)
    assert numbers.mean() == pytest.approx(2.5, abs=0.15)
    assert numbers.var() == pytest.approx(2.5, abs=0.35)
    torch.set_rng_state(state)  # as a checkpoint does it
    assert [schedule.due(1) for _ in range(2_000)] == drawn
