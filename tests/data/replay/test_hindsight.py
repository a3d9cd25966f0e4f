"""Goals achieved later, against the steps of recorded episodes."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer

from rlkit_sac.data import HindsightTransform, PrioritizedSampler, make_replay_buffer
from rlkit_sac.data.replay.hindsight import Strategy
from rlkit_sac.errors import BatchError, ConfigError, RunError

NUM_ENVS, CAPACITY, NEAR = 3, 150, 0.5
#: Columns of a vector observation: two of the state, the achieved goal, the desired goal.
ACHIEVED, DESIRED = ("observation", [2, 3]), [("observation", [4, 5]), ("critic", [1, 0])]


def reward(achieved: torch.Tensor, desired: torch.Tensor) -> torch.Tensor:
    return -(achieved - desired).norm(dim=-1, keepdim=True)


def ends(achieved: torch.Tensor, desired: torch.Tensor) -> torch.Tensor:
    return (achieved - desired).norm(dim=-1, keepdim=True) < NEAR


def episode(number: int, length: int, truncated: bool, rng: np.random.Generator) -> TensorDict:
    """The frames ``[length]`` of an episode in float64."""
    state, achieved = rng.normal(size=(length + 1, 2)), rng.normal(size=(length + 1, 2))
    goal = np.tile(rng.normal(size=2), (length + 1, 1))
    vector = torch.tensor(np.concatenate([state, achieved, goal], 1))
    critic = torch.tensor(np.concatenate([goal[:, ::-1], state], 1))
    done = torch.zeros(length, 1, dtype=torch.bool)
    done[-1] = True
    after = {
        "observation": vector[1:],
        "critic": critic[1:],
        "reward": reward(vector[1:, 2:4], vector[1:, 4:]),
        "terminated": ends(vector[1:, 2:4], vector[1:, 4:]),
        "truncated": done & truncated,
        "done": done,
    }
    entries = {"observation": vector[:-1], "critic": critic[:-1], "next": after}
    entries["collector"] = {"traj_ids": torch.full((length,), number)}
    return TensorDict(entries, batch_size=[length])


def recorded(frames: int, *, seed: int = 0, longest: int = 50) -> TensorDict:
    """Frames ``[frames, 3]``, time first, of three environments; the last episodes go on."""
    rng, numbers = np.random.default_rng(seed), count()
    columns = []
    for _ in range(NUM_ENVS):
        parts: list[TensorDict] = []
        while sum(map(len, parts)) < frames:
            length = int(rng.integers(1, longest + 1))
            parts.append(episode(next(numbers), length, bool(rng.integers(2)), rng))
        columns.append(torch.cat(parts)[:frames])
    return torch.stack(columns, 1)


def buffer_with(
    frames: TensorDictBase, *, capacity: int = CAPACITY, **options: Any
) -> tuple[TensorDictReplayBuffer, HindsightTransform]:
    """A buffer that was given the frames step by step."""
    sampler = options.pop("sampler", None)
    storage = options.pop("storage", "tensor")
    replay = make_replay_buffer(
        frames[0, 0], capacity=capacity, batch_size=64, sampler=sampler, storage=storage
    )
    transform = _hindsight(replay, **options)
    replay.append_transform(transform)
    for step in frames:
        replay.extend(step)
    return replay, transform


def steps_of(frames: TensorDictBase, capacity: int = CAPACITY) -> dict[int, list[int]]:
    """For each stored index, the indices of the steps of its episode, oldest first."""
    rows = frames.reshape(-1)
    numbers = range(max(0, len(rows) - capacity), len(rows))
    episodes: dict[int, list[int]] = {}
    for number in numbers:
        episodes.setdefault(int(rows["collector", "traj_ids"][number]), []).append(number)
    return {
        number % capacity: [other % capacity for other in own]
        for own in episodes.values()
        for number in own
    }


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("frames", [30, 131])  # 131: across the end of the ring
def test_the_steps_of_goals_are_those_of_the_strategy(strategy: Strategy, frames: int) -> None:
    recording = recorded(frames)
    _, transform = buffer_with(recording, strategy=strategy)
    for index, steps in steps_of(recording).items():
        later = {
            "future": steps[steps.index(index) :],
            "final": steps[-1:],
            "episode": steps,
        }[strategy]
        uniform = [(k + 0.5) / len(later) for k in range(len(later))]
        found = transform._draw_indices([index] * len(later), uniform)
        assert found == later


def test_goals_rewards_and_terminations_are_those_of_the_other_goal() -> None:
    recording = recorded(131, seed=1)
    replay, transform = buffer_with(recording)
    rows = recording.reshape(-1)
    stored = {number % CAPACITY: rows[number] for number in range(len(rows) - CAPACITY, len(rows))}
    for index, steps in steps_of(recording).items():
        for later in steps:
            batch = replay.storage.get(torch.tensor([index, 0, index]))
            before = batch.clone()
            found = transform.relabel(batch, torch.tensor([2]), torch.tensor([later]))
            assert (found[:2] == before[:2]).all()
            assert (batch == before).all()  # the stored transition stays
            goal = stored[later]["next", "observation"].numpy()[2:4]
            state, after = (
                stored[index][key].numpy() for key in ("observation", ("next", "observation"))
            )
            distance = np.sqrt(((after[2:4] - goal) ** 2).sum())
            row = found[2]
            assert row["observation"].tolist() == [*state[:4], *goal]
            assert row["next", "observation"].tolist() == [*after[:4], *goal]
            assert row["critic"].tolist() == [*goal[::-1], *state[:2]]
            assert row["next", "critic"].tolist() == [*goal[::-1], *after[:2]]
            assert row["next", "reward"].item() == pytest.approx(-distance, abs=1e-12)
            assert row["next", "terminated"].item() == (distance < NEAR)
            for key in (("next", "done"), ("next", "truncated")):
                assert row[key] == stored[index][key]


def test_steps_and_relabeled_shares_are_drawn_with_their_probabilities() -> None:
    torch.manual_seed(0)
    recording = recorded(20, longest=20, seed=2)
    replay, _ = buffer_with(recording, her_ratio=0.7)
    goals = {
        tuple(goal): index
        for index, goal in enumerate(replay[:]["next", "observation"][:, 2:4].tolist())
    }
    own = replay[:]["observation"][:, 4:].tolist()
    drawn: Counter[tuple[int, int]] = Counter()
    kept = total = 0
    for _ in range(2_000):
        batch = replay.sample()
        for index, goal in zip(
            batch["index"].tolist(), batch["observation"][:, 4:].tolist(), strict=True
        ):
            total += 1
            if goal == own[index]:
                kept += 1
            else:
                drawn[index, goals[tuple(goal)]] += 1
    assert chisquare([kept, total - kept], [0.3 * total, 0.7 * total]).pvalue > 1e-4
    for index, steps in steps_of(recording).items():
        later = steps[steps.index(index) :]
        counts = [drawn[index, other] for other in later]
        assert sum(counts) == sum(n for (i, _), n in drawn.items() if i == index)
        assert len(later) == 1 or chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("kind", ["priorities", "memmap", "TorchRL's", "filled before"])
def test_every_buffer_of_single_transitions_has_the_same_goals(kind: str) -> None:
    recording = recorded(131, seed=3)
    replay, reference = buffer_with(recording)
    index = torch.randint(CAPACITY, (200,))
    batch = replay.storage.get(index).set("index", index)
    torch.manual_seed(5)
    expected = reference(batch)
    assert (expected["observation"] != batch["observation"]).any(-1).float().mean() > 0.6
    if kind == "TorchRL's":
        other = TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), batch_size=64)
        transform = _hindsight(other)
        other.append_transform(transform)
        for step in recording:
            other.extend(step)
    elif kind == "filled before":
        transform = _hindsight(replay)
    else:
        sampler = PrioritizedSampler(CAPACITY) if kind == "priorities" else None
        storage = "memmap" if kind == "memmap" else "tensor"
        other, transform = buffer_with(recording, sampler=sampler, storage=storage)
        sample = other.sample()
        assert (sample["observation"] != other.storage.get(sample["index"])["observation"]).any()
    torch.manual_seed(5)
    assert (transform(batch) == expected).all()


def test_a_buffer_that_was_loaded_has_the_same_goals() -> None:
    recording = recorded(131, seed=3)
    buffers = [
        TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), batch_size=64) for _ in "ab"
    ]
    for replay in buffers:
        replay.append_transform(_hindsight(replay, strategy="final"))
    for step in recording:
        buffers[0].extend(step)
    buffers[1].load_state_dict(buffers[0].state_dict())
    batches = []
    for replay in buffers:
        torch.manual_seed(0)
        batches.append(replay.sample())
    assert (batches[0] == batches[1]).all()


@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_goals_may_be_entries_of_their_own_in_any_shape(shape: tuple[int, ...]) -> None:
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(50), batch_size=20)
    goal = torch.zeros(10, *shape or (1,)) + torch.arange(10.0).reshape(
        10, *(1 for _ in shape or "g")
    )
    distance = lambda achieved, desired: (achieved - desired).abs().flatten(1).sum(-1)  # noqa: E731
    replay.append_transform(HindsightTransform(replay, distance, her_ratio=1.0, strategy="final"))
    after = TensorDict(achieved_goal=goal + 1, desired_goal=-goal, batch_size=[10])
    after["reward"] = distance(goal + 1, -goal).unsqueeze(-1)
    after["done"] = torch.zeros(10, 1, dtype=torch.bool)
    steps = TensorDict(achieved_goal=goal, desired_goal=-goal, next=after, batch_size=[10])
    replay.extend(steps.set(("collector", "traj_ids"), torch.zeros(10, dtype=torch.int64)))
    batch = replay.sample()
    assert (batch["desired_goal"] == 10).all()
    per_number = batch["next", "reward"].flatten() / goal[0].numel()
    assert torch.equal(per_number, 9.0 - batch["index"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frames: frames.exclude("collector"), "wanted [n] with the entry"),
        (lambda frames: frames.reshape(5, 2), "have the shape [5, 2]; wanted [n]"),
    ],
)
def test_transitions_in_another_form_are_refused(change, words: str) -> None:
    frames = recorded(10)[:, 0]
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(50), batch_size=20)
    replay.append_transform(_hindsight(replay))
    with pytest.raises(BatchError) as caught:
        replay.extend(change(frames))
    assert words in str(caught.value)


def test_other_ratios_and_buffers_are_refused() -> None:
    with pytest.raises(ConfigError, match="her_ratio is 4"):
        _hindsight(TensorDictReplayBuffer(storage=LazyTensorStorage(50)), her_ratio=4.0)
    with pytest.raises(ConfigError, match="use a TensorDictReplayBuffer, got a ReplayBuffer"):
        _hindsight(ReplayBuffer(storage=LazyTensorStorage(50)))


def test_prior_transitions_of_a_share_keep_their_goals() -> None:
    prior, recording = recorded(20, seed=4).reshape(-1), recorded(30, seed=5)
    replay = make_replay_buffer(
        recording[0, 0], capacity=CAPACITY, batch_size=64, prior_data=prior, prior_share=0.5
    )
    replay.append_transform(_hindsight(replay, her_ratio=1.0, strategy="final"))
    for step in recording:
        replay.extend(step)
    batch = replay.sample()
    given = {tuple(goal) for goal in prior["observation"][:, 4:].tolist()}
    assert [tuple(goal) in given for goal in batch["observation"][:, 4:].tolist()] == [
        *[False] * 32,
        *[True] * 32,
    ]


def test_episodes_after_a_cut_are_others() -> None:
    """As with a second collector, whose episodes have the same numbers."""
    frames = recorded(4, longest=9, seed=6)
    first = frames.clone()
    first["next", "done"].zero_()
    replay, transform = buffer_with(first, capacity=100, strategy="final")
    transform.mark_gap()
    for step in frames:
        replay.extend(step)
    assert set(transform._draw_indices(list(range(12)), [0.0] * 12)) <= set(range(12))


@pytest.mark.parametrize(("key", "change"), [("reward", 2.0), ("terminated", 0)])
def test_stored_rewards_that_depend_on_more_than_goals_are_refused(key: str, change: float) -> None:
    frames = recorded(30, seed=7)
    frames["next", key] = frames["next", key] * change
    replay, _ = buffer_with(frames)
    with pytest.raises(RunError) as caught:
        replay.sample()
    (line,) = str(caught.value).splitlines()
    row = (
        (
            frames["next", key]
            != (reward if key == "reward" else ends)(  # the first that differs
                frames["next", "observation"][..., 2:4], frames["next", "observation"][..., 4:]
            )
        )
        .reshape(-1)
        .nonzero()[0]
        .item()
    )
    assert line.startswith(f"replay.goals: {key!r} of transition {row + 1} is [")


def _hindsight(replay: Any, **options: Any) -> HindsightTransform:
    return HindsightTransform(
        replay,
        reward,
        terminated_function=ends,
        achieved=ACHIEVED,
        desired=DESIRED,
        **options,
    )
