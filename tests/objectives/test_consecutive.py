"""Losses over sequences refuse steps that do not follow each other, and take those that do."""

import warnings
from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from torchrl.data import SliceSampler as TorchRLSliceSampler
from torchrl.envs import (
    CatFrames,
    Compose,
    GymEnv,
    InitTracker,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.objectives import LossModule

from rlkit_sac.data import SliceSampler, TrajectorySampler, random_shift
from rlkit_sac.data.replay.packed_buffer import PackedReplayBuffer
from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.batch import check_consecutive
from rlkit_sac.valid_steps import valid_steps
from tests.objectives.acer_networks import make_acer, make_segments
from tests.objectives.losses import own_loss
from tests.objectives.memory_references import make_rows, memory_of, recurrent_loss
from tests.objectives.networks import make_data

ENVS, STEPS, T, CAPACITY = 2, 15, 4, 100
FRAMES = ENVS * STEPS


@pytest.fixture(scope="module")
def batches() -> list[TensorDictBase]:
    """Batches ``[2, 15]`` of episodes of 7 frames, with an image of each observation."""
    torch.manual_seed(0)
    env = TransformedEnv(
        SerialEnv(ENVS, lambda: GymEnv("Pendulum-v1")), Compose(InitTracker(), StepCounter(7))
    )
    env.set_seed(0)
    found = []
    for batch in Collector(env, frames_per_batch=FRAMES, total_frames=10 * FRAMES):
        for each in (batch, batch["next"]):
            pixels = (each["observation"] * 1e4).long() % 256
            each["pixels"] = pixels.byte().reshape(ENVS, STEPS, 1, 1, 3).expand(-1, -1, 1, 6, 3)
        found.append(batch.clone())
    return found


def own_replay(batches: list[TensorDictBase], kind: type) -> TensorDictBase:
    """A sample of a full ring."""
    sampler = kind(T, capacity=CAPACITY, num_envs=ENVS, frames_per_batch=FRAMES)
    replay = PackedReplayBuffer(capacity=CAPACITY, batch_size=32, sampler=sampler)
    for batch in batches:
        stored = batch.select("observation", "pixels", "is_init", "next")
        replay.extend(stored.exclude(("next", "is_init")).reshape(-1))
    return replay.sample()


def shifted(batches: list[TensorDictBase]) -> TensorDictBase:
    layout = [{"key": "pixels", "shape": [1, 6, 3], "scale": 255, "channels": "first"}]
    return random_shift(own_replay(batches, SliceSampler), layout, 2)


def torchrl_replay(batches: list[TensorDictBase], transform: CatFrames | None = None):
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(1000),
        sampler=TorchRLSliceSampler(slice_len=T, traj_key=("collector", "traj_ids")),
        batch_size=16 * T,
        transform=transform,
    )
    for batch in batches:
        replay.extend(batch.reshape(-1))
    return replay.sample().reshape(16, T)


def stacked(batches: list[TensorDictBase]) -> TensorDictBase:
    keys = ["observation", ("next", "observation")]
    return torchrl_replay(batches, CatFrames(N=3, dim=-1, in_keys=keys))


SOURCES: dict[str, Callable[[list[TensorDictBase]], TensorDictBase]] = {
    "a collector": lambda batches: batches[0],
    "slices": lambda batches: own_replay(batches, SliceSampler),
    "padded segments": lambda batches: own_replay(batches, TrajectorySampler),
    "shifted images": shifted,
    "slices of TorchRL": torchrl_replay,
    "stacked at sampling": stacked,
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_follows_is_taken(batches: list[TensorDictBase], source: str) -> None:
    torch.manual_seed(0)
    for _ in range(10):
        batch = SOURCES[source](batches)
        with warnings.catch_warnings(action="error"):
            for key in ("observation", "pixels"):
                done = batch["next", "done"]
                check_consecutive("it", batch, [key], done, valid_steps(batch))


def lambda_loss() -> tuple[LossModule, TensorDictBase]:
    loss = own_loss("continuous").double()
    return loss.make_value_estimator("TDLambda"), make_data("continuous", 6, 8)


def memory_loss() -> tuple[LossModule, TensorDictBase]:
    rows = make_rows("continuous", memory_of("continuous", "gru", 1)).exclude("begins")
    return recurrent_loss("continuous", "gru").double(), rows


def acer_loss() -> tuple[LossModule, TensorDictBase]:
    return make_acer("discrete")[0], make_segments("discrete", 6, 8, padded=False)


@pytest.mark.parametrize("make", [lambda_loss, memory_loss, acer_loss])
def test_what_does_not_follow_is_refused(make: Callable) -> None:
    torch.manual_seed(0)
    loss, rows = make()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*consecutive")
        loss(rows.clone())
    refused = r"needs rows \[\*, T\] of consecutive steps, but step \d+ of row "
    for kind in (ReplayBuffer, TensorDictReplayBuffer):
        replay = kind(storage=LazyTensorStorage(100), batch_size=16)
        replay.extend(rows.reshape(-1))
        with pytest.raises(BatchError, match=refused):
            loss(replay.sample())
        with pytest.raises(BatchError, match=refused):
            loss(replay.sample().select(*loss.in_keys))
    with pytest.raises(BatchError, match=refused):
        loss(replay.sample().reshape(2, 8))
    with pytest.raises(BatchError, match=refused):  # a row of two pieces
        loss(torch.cat([rows[:, 4:], rows[:, :4]], 1))
    apart = rows[:, ::2].clone()
    apart["index"] = 2 * torch.arange(apart.numel()).reshape(apart.shape)
    for states in (apart["observation"], apart["next", "observation"]):
        states[..., 0] = 1.0  # such as a goal: it tells nothing
    with pytest.raises(BatchError, match=refused):
        loss(apart)
    other = rows.clone()
    other["next", "observation"] = torch.randn_like(rows["next", "observation"])
    with pytest.warns(UserWarning, match=refused):
        loss(other)
