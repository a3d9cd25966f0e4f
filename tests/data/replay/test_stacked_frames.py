"""Stacks out of replay, which stores each frame once, against stacks that are kept whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from rlkit_sac.data import (
    PrioritizedSampler,
    SliceSampler,
    StepSampler,
    TrajectorySampler,
    example_transition,
    make_collector,
    make_replay_buffer,
)
from rlkit_sac.data.entries import row_layout
from rlkit_sac.data.replay.stacked_frames import newest_frames
from rlkit_sac.envs import make_env, observation_layout
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import categorical_actor
from rlkit_sac.runs.saving import write_segments
from tests import image_tasks  # noqa: F401 (registers the tasks)
from tests.runs.checkpoints.segments import read_segments

IMAGES = ("image_gray", "image_planes")
STORED = [*IMAGES, "observation", "is_init", *(("next", key) for key in (*IMAGES, "done"))]


@dataclass
class Stream:
    """Frames of ``tests/Noise-v0``, each with a number, and their stacks."""

    num_envs: int
    steps: int
    frame_stack: int = 4
    task: str = "tests/Noise-v0"
    whole: TensorDictBase | None = None

    def __post_init__(self) -> None:
        env = make_env(self.task, num_envs=self.num_envs, frame_stack=self.frame_stack)
        actor = categorical_actor({"layout": observation_layout(env)}, 2, num_cells=[4])
        self.example = example_transition(env, STORED).set("number", torch.tensor(0))
        block = self.num_envs * self.steps
        options = {"total_frames": 100_000, "frames_per_batch": block}
        self._batches = iter(make_collector(env, actor, **options))

    def batch(self) -> TensorDictBase:
        """The next frames, as a recipe gives them to replay."""
        batch = next(self._batches).select(*STORED).reshape(-1)
        first = 0 if self.whole is None else len(self.whole)
        batch.set("number", torch.arange(first, first + len(batch)))
        self.whole = batch.clone() if self.whole is None else torch.cat([self.whole, batch])
        return batch

    def check(self, sample: TensorDictBase) -> int:
        """Compare every stack of a sample; returns how many there were."""
        wanted = self.whole[sample["number"].reshape(-1)]
        for key in (*IMAGES, *(("next", key) for key in IMAGES)):
            found = sample[key].flatten(0, sample.ndim - 1)
            assert found.dtype == wanted[key].dtype
            assert torch.equal(found, wanted[key]), key
        assert "frame_history" not in set(sample.keys())
        return wanted.numel()


def make_replay(stream: Stream, way: str, capacity: int = 101, **options: Any) -> Any:
    layout = {"num_envs": stream.num_envs, "frames_per_batch": stream.num_envs * stream.steps}
    layout |= {"capacity": capacity, "frame_stack": stream.frame_stack}
    sampler: Any = StepSampler(**layout)
    if way == "segments":
        sampler = TrajectorySampler(6, **layout)
    elif way == "slices":
        sampler = SliceSampler(5, **layout)
    elif way == "prioritized":
        sampler = PrioritizedSampler(capacity, steps=sampler)
    options |= {"capacity": capacity, "sampler": sampler}
    return make_replay_buffer(stream.example, batch_size=32, **options)


def continued(replay: Any, fresh: Any, folder: Path) -> Any:
    """Another buffer in the state of a first one, as a resumed run has it."""
    folder /= "replay"
    folder.mkdir(parents=True)
    files = write_segments(replay, folder, saved=0)
    read_segments(fresh, folder, files)
    if state := replay.sampler.state_dict():
        fresh.sampler.load_state_dict(state)
    return fresh


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def learn(replay: Any, sample: TensorDictBase) -> None:
    replay.update_tensordict_priority(sample.set("td_error", torch.rand(sample.shape) ** 4))


@pytest.mark.parametrize("way", ["uniform", "prioritized", "slices", "segments"])
@pytest.mark.parametrize(("num_envs", "steps"), [(1, 1), slow(1, 5), slow(3, 1), (3, 7)], ids=str)
@pytest.mark.parametrize("storage", ["tensor", slow("memmap")])
def test_sampled_stacks_are_the_stacks_that_were_given(
    way: str, num_envs: int, steps: int, storage: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    stream = Stream(num_envs, steps)
    replay, seen = make_replay(stream, way, storage=storage), 0
    batches = 220 // (num_envs * steps)  # around a buffer of 101 twice
    for number in range(batches):
        replay.extend(stream.batch())
        if number * steps < 15:
            continue
        if number in (batches // 5, batches // 2):  # before and after the buffer is full
            fresh = make_replay(stream, way, storage=storage)
            replay = continued(replay, fresh, tmp_path / str(number))
        for _ in range(1 + steps * num_envs):
            sample = replay.sample()
            seen += stream.check(sample)
            learn(replay, sample)
    assert seen >= 4_500


@pytest.mark.parametrize("way", ["uniform", "prioritized"])
def test_all_but_the_first_steps_that_are_left_are_drawn(way: str) -> None:
    stream = Stream(3, 2)
    replay = make_replay(stream, way, capacity=61)  # ten blocks, and a part of one
    for _ in range(50):
        replay.extend(stream.batch())
    drawn = {int(n) for _ in range(200) for n in replay.sample()["number"]}
    blocks = torch.arange(300).reshape(50, 3, 2).transpose(0, 1).reshape(3, -1)
    assert drawn >= set(blocks[:, -20 + 4 :].flatten().tolist())
    assert drawn <= set(blocks[:, -21 + 3 :].flatten().tolist())


def test_pictures_that_stand_still_and_several_frames_at_once() -> None:
    still = torch.randint(2, (40, 1, 1), dtype=torch.uint8).expand(40, 3, 3)
    frames = torch.cat([still[:1], still[:1], still])  # of one episode
    stacks = torch.stack([frames[n : n + 3] for n in range(40)])
    batch = TensorDict(image=stacks[:-1], next={"image": stacks[1:]}, batch_size=[39])
    batch["number"] = torch.arange(39)
    sampler = StepSampler(capacity=50, num_envs=1, frame_stack=3)
    replay = make_replay_buffer(batch[0], capacity=50, batch_size=500, sampler=sampler)
    for part in batch.split([1, 20, 18]):
        replay.extend(part)
    sample = replay.sample()
    assert torch.equal(sample["image"], batch["image"][sample["number"]])
    assert torch.equal(sample["next", "image"], batch["next", "image"][sample["number"]])
    assert set(sample["number"].tolist()) == set(range(2, 39))


def test_the_rows_of_atari_hold_two_frames() -> None:
    stack = torch.zeros(4, 84, 84, dtype=torch.uint8)
    flag = torch.tensor([False])
    after = {"observation": stack, "reward": torch.zeros(1), "done": flag, "terminated": flag}
    transition = TensorDict(observation=stack, action=torch.tensor(0), next=after)
    assert row_layout(newest_frames(transition, 4)).width <= 14_200
    assert row_layout(transition).width >= 56_464
    sampler = StepSampler(capacity=10, num_envs=1, frame_stack=4)
    replay = make_replay_buffer(transition, capacity=10, batch_size=2, sampler=sampler)
    replay.extend(transition.expand(5))
    rows = replay.storage[:]["observation"].untyped_storage()
    assert rows.nbytes() <= 10 * 14_200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frame_stack": 3}, r"frame_stack is 3, but the images .* \[4, 84, 84\]"),
        ({"frame_stack": 4, "within_batches": True}, "batches that follow each other"),
        ({"frame_stack": 4, "num_envs": 8}, "a replay capacity of at least 40, got 10"),
    ],
)
def test_what_cannot_be_stacked_is_refused(options: Any, message: str) -> None:
    image = torch.zeros(4, 84, 84, dtype=torch.uint8)

    def make() -> Any:
        sampler = StepSampler(capacity=10, **{"num_envs": 1} | options)
        return make_replay_buffer(
            TensorDict(image=image), capacity=10, batch_size=2, sampler=sampler
        )

    with pytest.raises(ConfigError, match=message):
        make()


def test_frames_of_several_environments_come_in_whole_batches() -> None:
    stream = Stream(2, 1)
    replay = make_replay(stream, "prioritized")
    batch = stream.batch()
    with pytest.raises(ConfigError, match="1 frames came at once, wanted batches of 2 frames"):
        replay.extend(batch[:1])
