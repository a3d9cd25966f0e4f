"""Segments from replay against a list of every environment's frames."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import TrajectorySampler, make_replay_buffer

EXAMPLE = TensorDict(
    env=torch.tensor(0), step=torch.tensor(0), is_init=torch.tensor([True]), nested={"a": 0.0}
)


@dataclass
class Stream:
    """Frames of N environments as a collector hands them out, and the episodes among them.

    Attributes:
        episodes: (environment, first step, one after the last) of those that another followed.
    """

    num_envs: int
    steps: int
    chance: float = 0.3
    time: int = 0
    begun: list[int] = field(default_factory=list)
    episodes: list[tuple[int, int, int]] = field(default_factory=list)

    def batch(self) -> TensorDict:
        """The next ``[N, T]`` frames, each telling its environment and its step."""
        is_init = torch.rand(self.num_envs, self.steps) < self.chance
        if not self.time:
            is_init[:, 0] = True
            self.begun = [0] * self.num_envs
        for env, t in is_init.nonzero().tolist():
            if self.time + t:
                self.episodes.append((env, self.begun[env], self.time + t))
                self.begun[env] = self.time + t
        step = torch.arange(self.time, self.time + self.steps).expand(self.num_envs, -1)
        env = torch.arange(self.num_envs).unsqueeze(1).expand_as(step)
        self.time += self.steps
        nested = TensorDict(a=-step.float(), batch_size=step.shape)
        return TensorDict(
            env=env, step=step, is_init=is_init.unsqueeze(-1), nested=nested, batch_size=step.shape
        )

    def stored(self, capacity: int) -> set[tuple[int, int, int]]:
        """The episodes in whole blocks of a buffer, without the frames that are lost."""
        block = self.num_envs * self.steps
        lost = max(0, self.time * self.num_envs - capacity)
        oldest = -(-lost // block) * self.steps
        running = [(env, first, self.time) for env, first in enumerate(self.begun)]
        found = [(env, max(first, oldest), stop) for env, first, stop in self.episodes + running]
        return {each for each in found if each[1] < each[2]}


def make_replay(stream: Stream, *, length: int, capacity: int, batch_size: int = 8, **options):
    sampler = TrajectorySampler(
        length,
        capacity=capacity,
        num_envs=stream.num_envs,
        frames_per_batch=stream.num_envs * stream.steps,
    )
    return make_replay_buffer(
        EXAMPLE, capacity=capacity, batch_size=batch_size, sampler=sampler, **options
    )


def segments(batch: TensorDict) -> list[tuple[int, int, int]]:
    """Environment, first step and the one after the last of each row, after a look at all of it."""
    mask = batch["collector", "mask"]
    found = []
    for row, valid in zip(batch, mask, strict=True):
        count = int(valid.sum())
        assert count
        assert valid[:count].all()  # padding comes last
        steps, envs = row["step"][:count].tolist(), row["env"].tolist()
        assert steps == list(range(steps[0], steps[0] + count))
        assert set(envs) == {envs[0]}
        assert (row["step"][count:] == steps[-1]).all()  # padded by the last frame
        assert torch.equal(row["nested", "a"], -row["step"].float())
        found.append((envs[0], steps[0], steps[0] + count))
    return found


@pytest.mark.parametrize(
    ("num_envs", "steps", "storage"),
    [(1, 1, "tensor"), (1, 5, "memmap"), (3, 1, "tensor"), (3, 4, "memmap")],
)
@pytest.mark.parametrize("length", [1, 3, 7])
@pytest.mark.parametrize("chance", [0.3, 0.01])  # of episodes that outlive the buffer
def test_segments_lie_in_one_stored_episode_and_are_as_long_as_it_lets_them(
    num_envs: int,
    steps: int,
    length: int,
    storage: str,
    chance: float,
) -> None:
    torch.manual_seed(0)
    stream = Stream(num_envs, steps, chance)
    replay = make_replay(stream, length=length, capacity=50, storage=storage)
    for number in range(70):
        replay.extend(stream.batch().reshape(-1))
        if 10 < number < 20:  # others are taken in together
            continue
        episodes = stream.stored(50)
        batch = replay.sample()
        assert batch.batch_size == (8, length)
        for env, first, stop in segments(batch):
            (episode,) = [
                each for each in episodes if each[0] == env and each[1] <= first < each[2]
            ]
            assert stop <= episode[2]
            assert stop - first == min(length, episode[2] - episode[1])


def test_episodes_and_starts_are_drawn_uniformly() -> None:
    torch.manual_seed(0)
    stream = Stream(2, 4, chance=0.15)
    replay = make_replay(stream, length=3, capacity=64)
    for _ in range(20):
        replay.extend(stream.batch().reshape(-1))
    episodes = stream.stored(64)
    found = Counter(segments(replay.sample(4_000)))
    wanted = {}
    for env, first, stop in episodes:
        starts = range(first, max(first, stop - 3) + 1)
        for start in starts:
            share = 1 / len(episodes) / len(starts)
            wanted[env, start, min(start + 3, stop)] = share
    assert set(found) == set(wanted)
    for segment, share in wanted.items():  # five standard deviations
        error = (share * (1 - share) / 4_000) ** 0.5
        assert found[segment] / 4_000 == pytest.approx(share, abs=5 * error)


@pytest.mark.parametrize("seen", [True, False])
def test_a_sampler_goes_on_from_its_state(seen: bool) -> None:
    """Also where the last frames before it were not sampled from."""
    torch.manual_seed(0)
    stream = Stream(2, 3)
    first = make_replay(stream, length=4, capacity=40)
    for _ in range(10):
        first.extend(stream.batch().reshape(-1))
    if seen:
        first.sample()
    numbers = torch.arange(20, 60)  # a ring of 40 places, in which the oldest come first
    rest = first.storage.get(numbers % 40).clone()
    other = make_replay(stream, length=4, capacity=40)
    # As a checkpoint does it: in pieces that are no batches.
    other.writer.load_state_dict({"_cursor": 20, "_write_count": 20})
    other.extend(rest[:17])
    other.extend(rest[17:])
    other.sampler.load_state_dict(first.sampler.state_dict())
    for number in range(10):
        batch = stream.batch().reshape(-1)
        found = []
        for replay in (first, other):
            torch.manual_seed(number)
            found.append(replay.sample())
            replay.extend(batch)
        for name in ("step", "env"):
            assert torch.equal(found[0][name], found[1][name])
