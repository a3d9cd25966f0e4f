"""Slices and segments within the batches of several workers."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlkit_sac.data import SliceSampler, TrajectorySampler, make_replay_buffer

LAYOUTS = st.tuples(
    st.integers(1, 3),  # environments of a block
    st.integers(1, 6),  # its steps
    st.integers(1, 9),  # blocks
    st.integers(2, 40),  # capacity beyond two blocks
    st.integers(0, 2**31),
)


def filled(layout: tuple[int, ...], *, segments: bool):
    """A buffer of blocks, each of another worker, whose frames tell block, environment, step."""
    num_envs, steps, blocks, more, seed = layout
    generator = torch.Generator().manual_seed(seed)
    length = int(torch.randint(1, steps + 1, (), generator=generator))
    block = num_envs * steps
    layout_options = {"num_envs": num_envs, "frames_per_batch": block, "within_batches": True}
    capacity = 2 * block + more
    kind = TrajectorySampler if segments else SliceSampler
    sampler = kind(length, capacity=capacity, **layout_options)
    example = TensorDict(block=torch.tensor(0), env=torch.tensor(0), step=torch.tensor(0))
    example["is_init"] = torch.tensor([True])
    replay = make_replay_buffer(
        example, capacity=capacity, batch_size=min(capacity, 32), sampler=sampler
    )
    for number in range(blocks):
        env = torch.arange(num_envs).unsqueeze(1).expand(-1, steps)
        is_init = torch.rand(num_envs, steps, 1, generator=generator) < 0.3
        batch = TensorDict(
            block=torch.full((num_envs, steps), number),
            env=env,
            step=torch.arange(steps).expand(num_envs, -1),
            is_init=is_init,
            batch_size=[num_envs, steps],
        )
        replay.extend(batch.reshape(-1))
    return replay, length


@settings(max_examples=40, deadline=None)
@given(LAYOUTS)
def test_slices_lie_in_one_block(layout) -> None:
    replay, length = filled(layout, segments=False)
    num_envs, steps, blocks, more, _ = layout
    found = set()
    for _ in range(20):
        batch = replay.sample()
        for key in ("block", "env"):
            assert (batch[key] == batch[key][:, :1]).all()
        assert (batch["step"].diff(dim=1) == 1).all()
        assert batch.shape[1] == length
        found |= {tuple(row) for row in batch["block"][:, :1].tolist()}
    oldest = -(-max(0, (blocks - 2) * num_envs * steps - more) // (num_envs * steps))
    assert found <= {(number,) for number in range(oldest, blocks)}


def test_all_slices_of_a_block_are_drawn() -> None:
    replay, length = filled((2, 4, 3, 30, 5), segments=False)
    rows = torch.cat([replay.sample() for _ in range(40)])
    starts = {
        (int(b), int(e), int(s))
        for b, e, s in zip(*(rows[k][:, 0] for k in ("block", "env", "step")), strict=True)
    }
    assert starts == {(b, e, s) for b in range(3) for e in range(2) for s in range(5 - length)}


@settings(max_examples=40, deadline=None)
@given(LAYOUTS)
def test_segments_lie_in_one_block_and_one_episode(layout) -> None:
    replay, _ = filled(layout, segments=True)
    for _ in range(5):
        batch = replay.sample()
        mask = batch["collector", "mask"]
        for key in ("block", "env"):
            assert (batch[key] == batch[key][:, :1]).all()
        assert (batch["step"].diff(dim=1) == mask[:, 1:].long()).all()
        assert not (batch["is_init"].squeeze(-1) & mask)[:, 1:].any()
