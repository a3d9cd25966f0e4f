"""Rows whose steps do not follow each other are refused, where the batch tells."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from tensordict import TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import (
    LazyTensorStorage,
    RandomSampler,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
)
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TransformedEnv

from rlkit_sac import data as replays
from rlkit_sac.data import TrajectorySampler, make_collector
from rlkit_sac.data.replay.packed import PackedReplayBuffer
from rlkit_sac.envs import make_env
from rlkit_sac.errors import BatchError
from rlkit_sac.modules import action_value_critic, categorical_actor
from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import make_acer, make_segments

B, T = 8, 6
IDS = ("collector", "traj_ids")
REFUSED = r"step \d+ of row \d+ does not follow step \d+: "


@cache
def loss() -> ACERLoss:
    torch.manual_seed(0)
    return ACERLoss(
        categorical_actor(4, 2, num_cells=[8]), action_value_critic(4, 2, num_cells=[8])
    )


def torchrl_batches(frames: int = 400) -> Iterator[TensorDictBase]:
    """Batches ``[4, 20]`` of TorchRL's collector, with many short episodes."""

    def make() -> TransformedEnv:
        return TransformedEnv(
            GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker()
        )

    collector = Collector(
        SerialEnv(4, make), loss().policy(), frames_per_batch=80, total_frames=frames
    )
    yield from collector
    collector.shutdown()


def torchrl_replay(sampler, ndim: int = 2, **options) -> TensorDictReplayBuffer:
    """A full ring of 200 transitions."""
    storage = LazyTensorStorage(200, ndim=ndim)
    replay = TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=B * T, **options)
    for batch in torchrl_batches():
        replay.extend(batch if ndim == 2 else batch.reshape(-1))
    return replay


def light_replay(sampler, steps: int) -> PackedReplayBuffer:
    """A full ring of 210 transitions of 4 environments, stored in blocks of some steps each."""
    torch.manual_seed(0)
    replay = PackedReplayBuffer(capacity=210, batch_size=B, sampler=sampler)
    env = make_env("CartPole-v1", num_envs=4)
    env.set_seed(0)
    for batch in make_collector(
        env, loss().policy(), total_frames=400, frames_per_batch=4 * steps, kind="light"
    ):
        replay.extend(batch.select(*loss().in_keys, "is_init").reshape(-1))
    return replay


def samples(replay, count: int = 40) -> Iterator[TensorDictBase]:
    for _ in range(count):
        batch = replay.sample()
        yield batch.reshape(B, T) if batch.ndim == 1 else batch


# ------------------------------------------------------------------ what is accepted


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("sampler", [TrajectorySampler, replays.SliceSampler])
def test_segments_of_the_package_pass(sampler: type, steps: int) -> None:
    """Across the blocks of environments, the end of the buffer, and with padding."""
    torch.manual_seed(0)  # with some seeds no segment reaches the end of the buffer
    options = {"capacity": 210, "num_envs": 4, "frames_per_batch": 4 * steps}
    jumps, wraps, episodes = 0, 0, 0
    for batch in samples(light_replay(sampler(T, **options), steps), 80):
        loss()(batch)
        step = batch["index"].diff()
        jumps += int((step > 1).sum())
        wraps += int((step < 0).sum())
        episodes += int(batch["next", "done"][:, :-1].sum())
    assert jumps
    assert wraps
    assert episodes or sampler is TrajectorySampler


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("kept", ["all", "what the loss reads", "no index"])
def test_slices_of_torchrl_pass(ndim: int, kept: str) -> None:
    replay = torchrl_replay(SliceSampler(slice_len=T, traj_key=IDS), ndim)
    assert len(replay) == 200
    for batch in samples(replay):
        if kept == "what the loss reads":
            batch = batch.select(*loss().in_keys)
        loss()(batch.exclude("index") if kept == "no index" else batch)


def test_padded_slices_of_torchrl_pass() -> None:
    replay = torchrl_replay(
        SliceSampler(slice_len=T, traj_key=IDS, strict_length=False, pad_output=True)
    )
    for batch in samples(replay):
        loss()(batch)


def test_fresh_rows_with_several_episodes_pass() -> None:
    batches = list(torchrl_batches())
    assert any(batch["next", "done"][:, :-1].any() for batch in batches)
    for batch in batches:
        for on_policy in (False, True):
            loss()(batch, on_policy=on_policy)


def test_states_with_nan_pass() -> None:
    segments = next(torchrl_batches(80))
    for state in (segments, segments["next"]):
        state["observation"][..., 0] = torch.nan
    loss()(segments)


def test_states_that_are_changed_at_sampling_pass() -> None:
    """As an augmentation changes them: of each step anew, here and under ``next``."""

    def augment(batch: TensorDictBase) -> TensorDictBase:
        for state in (batch, batch["next"]):
            state["observation"] = state["observation"] + torch.randn_like(state["observation"])
        return batch

    replay = torchrl_replay(SliceSampler(slice_len=T, traj_key=IDS), transform=augment)
    for batch in samples(replay, 5):
        loss()(batch)
        batch["observation"][:, 2:] = batch["next", "observation"][:, 1:-1]  # all but the first
        loss()(batch)
        loss()(batch.exclude("index", "collector")[:, :2])


def test_states_of_other_types_are_not_compared() -> None:
    segments = next(torchrl_batches(80))
    segments["next", "observation"] = segments["next", "observation"].double()
    segments["observation"][0, 0] = segments["next", "observation"][0, 0] = 0
    with pytest.raises(RuntimeError, match="dtype"):  # of the network, not of the check
        loss()(segments)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_random_segments_pass(kind: str) -> None:
    torch.manual_seed(0)
    acer, _ = make_acer(kind)
    acer(make_segments(kind, 3, 5))


# ------------------------------------------------------------------ what is refused


def test_transitions_drawn_one_by_one_are_refused() -> None:
    replay = torchrl_replay(RandomSampler())
    for batch in samples(replay):
        for kept in (batch, batch.exclude("collector"), batch.exclude("index")):
            with pytest.raises(BatchError, match=REFUSED):
                loss()(kept)
    flat = torchrl_replay(RandomSampler(), ndim=1)
    for batch in samples(flat):
        with pytest.raises(BatchError, match=REFUSED + r"index goes from .*\(TrajectorySampler"):
            loss()(batch.exclude("collector"))


@pytest.mark.parametrize("sampler", [TrajectorySampler, replays.SliceSampler])
def test_shuffled_rows_are_refused(sampler: type) -> None:
    """Two steps changed places in one row of a batch from replay."""
    options = {"capacity": 210, "num_envs": 4, "frames_per_batch": 20}
    for batch in samples(light_replay(sampler(T, **options), 5)):
        ends = batch["next", "done"][..., 0]
        if sampler is TrajectorySampler:
            ends = ends | ~batch["collector", "mask"]
        row = next(row for row in range(B) if not ends[row].any())
        order = torch.tensor([0, 2, 1, *range(3, T)])
        batch[row] = batch[row][order].clone()
        for kept in (batch, batch.exclude("index")):
            with pytest.raises(BatchError, match=rf"step [12] of row {row} does not follow"):
                loss()(kept)


def test_time_must_be_last() -> None:
    for batch in samples(torchrl_replay(SliceSampler(slice_len=T, traj_key=IDS)), 5):
        for on_policy in (False, True):
            with pytest.raises(BatchError, match=REFUSED):
                loss()(batch.transpose(0, 1).contiguous(), on_policy=on_policy)


def test_slices_across_environments_are_refused() -> None:
    """Places that follow each other hold another environment where those of one end."""
    batch = next(torchrl_batches(80)).reshape(-1)
    batch["next", "done"][:] = batch["next", "terminated"][:] = False
    rows = batch[15:25].reshape(1, 10)
    rows["index"] = torch.arange(15, 25).unsqueeze(0)
    with pytest.raises(BatchError, match=r"step 5 of row 0 .*: they are of trajectories . and ."):
        loss()(rows)
    rows["next", "observation"][0, :4] = rows["observation"][0, 1:5]
    with pytest.raises(
        BatchError, match=r"row 0 .*: its 'observation' is not the next one of that step"
    ):
        loss()(rows.exclude("collector"))


def test_environments_of_a_storage_are_not_mixed() -> None:
    batch = next(torchrl_batches(80)).exclude("collector")
    place = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(20), indexing="ij"), -1)
    loss()(batch.set("index", place.flip(-1)))
    with pytest.raises(BatchError, match="they are stored for different environments"):
        loss()(batch.set("index", place))


def test_a_single_row_is_named_without_a_number() -> None:
    row = next(torchrl_batches(80))[0].clone()
    row["collector", "traj_ids"] = torch.arange(20)
    row["next", "done"][:] = row["next", "terminated"][:] = False
    with pytest.raises(
        BatchError, match=r"^step 1 does not follow step 0: .* trajectories 0 and 1"
    ):
        loss()(row)
    row["next", "done"][:] = True
    loss()(row)


def test_plain_replay_buffers_tell_by_their_states() -> None:
    """They write no index."""
    replay = ReplayBuffer(
        storage=LazyTensorStorage(200), sampler=RandomSampler(), batch_size=200 * T
    )
    for batch in torchrl_batches():
        replay.extend(batch.select(*loss().in_keys).reshape(-1))
    batch = replay.sample().reshape(200, T)
    with pytest.raises(BatchError, match="'observation' is not the next one"):
        loss()(batch)


def test_what_invalid_steps_hold_tells_nothing() -> None:
    segments = next(torchrl_batches(80))
    mask = torch.ones(4, 20, dtype=torch.bool)
    mask[:, 9:12] = mask[:, 17:] = False
    noise = torch.randint_like(segments["collector", "traj_ids"], 99)
    segments["collector", "traj_ids"] = segments["collector", "traj_ids"].where(mask, noise)
    segments["index"] = torch.arange(80).reshape(4, 20).where(mask, -noise)
    observation = segments["observation"]
    segments["observation"] = observation.where(mask.unsqueeze(-1), torch.nan)
    with pytest.raises(BatchError, match=REFUSED):
        loss()(segments)
    loss()(segments.set(("collector", "mask"), mask))


def test_whole_segments_as_elements_of_a_buffer_pass() -> None:
    segments = make_segments("discrete", 32, 6, padded=False)
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(64), batch_size=4)
    replay.extend(segments)
    sample = replay.sample()
    assert sample["index"].shape[:2] == (4, 6)  # one index for each segment
    loss, _ = make_acer("discrete")
    loss(sample)
