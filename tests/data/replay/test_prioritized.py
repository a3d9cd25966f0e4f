"""Prioritized sampling: how often, how weighted, and what is refused."""

import math

import pytest
import torch
from scipy.stats import chisquare
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from rlkit_sac.data import PrioritizedSampler
from rlkit_sac.data.replay.packed_buffer import PackedReplayBuffer


def numbered(first: int, count: int) -> TensorDict:
    return TensorDict(number=torch.arange(first, first + count), batch_size=[count])


def packed(capacity: int, batch_size: int = 50_000, **options) -> PackedReplayBuffer:
    sampler = PrioritizedSampler(capacity, **options)
    return PackedReplayBuffer(capacity=capacity, batch_size=batch_size, sampler=sampler)


def frequencies(replay: TensorDictReplayBuffer) -> torch.Tensor:
    return torch.bincount(replay.sample()["index"], minlength=len(replay)).double()


@pytest.mark.parametrize(("alpha", "eps"), [(1.0, 0.0), (0.7, 1e-6), (0.5, 0.3), (0.0, 0.0)])
def test_frequencies_follow_the_priorities(alpha: float, eps: float) -> None:
    torch.manual_seed(0)
    replay = packed(60, alpha=alpha, eps=eps)
    replay.extend(numbered(0, 60))
    errors = torch.linspace(0.1, 4.0, 60, dtype=torch.float64)
    replay.sampler.update_priority(torch.arange(60), errors)
    share = (errors + eps) ** alpha
    counts = frequencies(replay)
    assert chisquare(counts, 50_000 * share / share.sum()).pvalue > 1e-3
    wrong = (errors + eps) ** (alpha + 0.1)
    assert chisquare(counts, 50_000 * wrong / wrong.sum()).pvalue < 1e-3


def test_weights_undo_the_frequencies_exactly() -> None:
    torch.manual_seed(0)
    replay = packed(200, alpha=0.7, beta=1.0, batch_size=20_000)
    replay.extend(numbered(0, 150))
    errors = torch.rand(150, dtype=torch.float64) * 5
    replay.sampler.update_priority(torch.arange(150), errors)
    probability = (errors + 1e-6) ** 0.7
    probability /= probability.sum()
    batch = replay.sample()
    assert len(batch["index"].unique()) == 150
    weights = torch.zeros(150, dtype=torch.float64)
    weights[batch["index"]] = batch["priority_weight"].double()
    values = torch.randn(150, dtype=torch.float64)
    expectation = (probability * weights * values).sum()
    torch.testing.assert_close(expectation, values.mean(), rtol=1e-6, atol=1e-7)
    # What samples give, within four standard errors; without weights they give something else.
    values = errors.square()
    drawn = values[batch["index"]]
    weighed = batch["priority_weight"].double() * drawn
    within = 4 * weighed.std() / math.sqrt(len(weighed))
    assert (weighed.mean() - values.mean()).abs() < within
    assert (drawn.mean() - values.mean()).abs() > 4 * within


def test_beta_rises_with_the_transitions_stored() -> None:
    replay = packed(8, beta=0.4, beta_frames=20, batch_size=64)
    betas = []
    for first in range(0, 30, 5):
        replay.extend(numbered(first, 5))
        betas.append(replay.sampler.beta)
    assert betas == pytest.approx([0.55, 0.7, 0.85, 1.0, 1.0, 1.0])
    replay = packed(8, beta=0.4, alpha=1.0, eps=0.0, beta_frames=16, batch_size=64)
    replay.extend(numbered(0, 8))
    replay.sampler.update_priority(torch.arange(8), torch.arange(1.0, 9.0))
    batch = replay.sample()
    wanted = (8 * (batch["index"] + 1) / 36) ** -0.7
    torch.testing.assert_close(batch["priority_weight"], wanted)


def test_new_transitions_have_the_largest_priority_so_far() -> None:
    replay = packed(4, alpha=1.0, eps=0.0)
    weights = replay.sampler._tree
    replay.extend(numbered(0, 3))
    assert weights._weights[:4].tolist() == [1.0, 1.0, 1.0, 0.0]
    replay.sampler.update_priority(torch.tensor([0, 1, 2]), torch.tensor([0.25, 5.0, 0.5]))
    replay.sampler.update_priority(torch.tensor([1]), torch.tensor([0.125]))
    replay.extend(numbered(3, 2))  # the second in the place of the first transition
    assert weights._weights[:4].tolist() == [5.0, 0.125, 0.5, 5.0]


def test_priorities_reach_the_buffer_by_the_key_of_the_loss() -> None:
    replay = packed(10, alpha=1.0, eps=0.0, batch_size=4)
    replay.extend(numbered(0, 10))
    batch = replay.sample()
    errors = batch["index"].double() + 2.0
    replay.update_tensordict_priority(batch.set("td_error", errors))
    found = replay.sampler._tree._weights[batch["index"]]
    assert torch.equal(found, errors)


def test_priorities_of_sequences_are_the_largest_of_their_steps() -> None:
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(4),
        sampler=PrioritizedSampler(4, alpha=1.0, eps=0.0),
        batch_size=3,
    )
    replay.extend(TensorDict(number=torch.arange(20).reshape(4, 5), batch_size=[4]))
    batch = replay.sample()
    errors = torch.rand(3, 5, dtype=torch.float64)
    replay.update_tensordict_priority(batch.set("td_error", errors))
    for place in batch["index"][:, 0] if batch["index"].ndim > 1 else batch["index"]:
        mine = errors[batch["index"].reshape(3, -1)[:, 0] == place]
        assert replay.sampler._tree._weights[place] == mine.max()
