"""Slices from replay: consecutive, of one environment, uniform, also where the buffer is full."""

import itertools

import pytest
import torch
from scipy.stats import chisquare
from tensordict import TensorDict

from rlkit_sac.data import SliceSampler, make_replay_buffer

EXAMPLE = TensorDict(env=torch.tensor(0), step=torch.tensor(0))


def filled(batches: int, *, num_envs: int, steps: int, slice_length: int, capacity: int, **options):
    """A buffer of batches [num_envs, steps], and the environments' frames that it still holds."""
    layout = {"num_envs": num_envs, "frames_per_batch": num_envs * steps}
    sampler = SliceSampler(slice_length, capacity=capacity, **layout)
    replay = make_replay_buffer(EXAMPLE, capacity=capacity, sampler=sampler, **options)
    for first in range(0, batches * steps, steps):
        step = torch.arange(first, first + steps).expand(num_envs, -1)
        env = torch.arange(num_envs).unsqueeze(1).expand(-1, steps)
        batch = TensorDict(env=env, step=step, batch_size=[num_envs, steps])
        replay.extend(batch.reshape(-1))
    return replay


CASES = [
    {"num_envs": 1, "steps": 1, "batches": 7, "slice_length": 3, "capacity": 20},
    {"num_envs": 1, "steps": 1, "batches": 33, "slice_length": 3, "capacity": 20},
    {"num_envs": 3, "steps": 1, "batches": 5, "slice_length": 5, "capacity": 18},
    {"num_envs": 3, "steps": 1, "batches": 40, "slice_length": 4, "capacity": 20},
    {"num_envs": 2, "steps": 3, "batches": 4, "slice_length": 4, "capacity": 30},
    {"num_envs": 2, "steps": 3, "batches": 19, "slice_length": 4, "capacity": 31},
    {"num_envs": 2, "steps": 4, "batches": 9, "slice_length": 2, "capacity": 16},
]


@pytest.mark.parametrize("storage", ["tensor", "memmap"])
@pytest.mark.parametrize("case", CASES)
def test_all_whole_slices_are_equally_likely_and_nothing_else(case, storage) -> None:
    torch.manual_seed(0)
    draws = 2_000
    replay = filled(**case, storage=storage, batch_size=min(case["capacity"], 16))
    length, block = case["slice_length"], case["num_envs"] * case["steps"]
    # Of the batches that were not overwritten in part, by counting frames one after the other.
    whole = [
        b for b in range(case["batches"]) if b * block >= replay.write_count - case["capacity"]
    ]
    first, stop = whole[0] * case["steps"], (whole[-1] + 1) * case["steps"]
    expected = set(itertools.product(range(case["num_envs"]), range(first, stop - length + 1)))
    counts = dict.fromkeys(sorted(expected), 0)
    for _ in range(draws // replay.batch_size + 1):
        batch = replay.sample()
        assert batch.shape == (replay.batch_size, length)
        assert (batch["env"] == batch["env"][:, :1]).all()
        assert (batch["step"] == batch["step"][:, :1] + torch.arange(length)).all()
        for start in zip(batch["env"][:, 0].tolist(), batch["step"][:, 0].tolist(), strict=True):
            counts[start] += 1  # a KeyError for any other
    assert chisquare(list(counts.values())).pvalue > 1e-3


def extend(sampler: SliceSampler, frames: int, block: int = 4) -> None:
    for _ in range(frames // block):
        sampler.extend(torch.arange(block))


def test_slices_end_at_a_cut() -> None:
    torch.manual_seed(0)
    sampler = SliceSampler(3, capacity=40, num_envs=2, frames_per_batch=4)
    for frames in (12, 4, 16):  # 6, 2 and 8 steps of each environment: 4, none and 6 slices
        extend(sampler, frames)
        sampler.mark_gap()
    places, _ = sampler.sample([None], 20_000)
    block, within = places // 4, places % 4
    env, step = within // 2, block * 2 + within % 2
    assert (step.diff(dim=1) == 1).all()
    assert (env == env[:, :1]).all()
    starts = env[:, 0] * 100 + step[:, 0]
    expected = [100 * env + step for env in (0, 1) for step in (0, 1, 2, 3, 8, 9, 10, 11, 12, 13)]
    assert starts.unique().tolist() == expected
    assert chisquare(starts.unique(return_counts=True)[1]).pvalue > 1e-3
    extend(sampler, 16)  # the first 4 steps go, the cuts at 6 and 8 stay
    places, _ = sampler.sample([None], 1_000)
    assert sampler.state_dict() == {"frames": 48, "cuts": [6, 8, 16]}
    extend(sampler, 16)
    sampler.sample([None], 1)
    assert sampler.state_dict() == {"frames": 64, "cuts": [16]}
