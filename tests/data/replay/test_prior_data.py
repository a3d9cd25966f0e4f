"""Transitions from before the run, in the buffer or in a share of each batch."""

from pathlib import Path

import pytest
import torch

from rlkit_sac.data import PrioritizedSampler, SliceSampler, make_replay_buffer
from rlkit_sac.data.replay.packed_buffer import PriorShare
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import read_prior_data
from tests.data.replay.test_packed import transitions


@pytest.mark.parametrize(("share", "own"), [(0.5, 4), (0.25, 6), (0.0, 8), (1.0, 0)])
def test_a_share_of_each_batch_is_of_the_prior_data(share: float, own: int) -> None:
    prior = transitions(100, 30)
    buffer = make_replay_buffer(
        prior[0], capacity=50, batch_size=8, prior_data=prior, prior_share=share
    )
    buffer.extend(transitions(0, 20))
    assert len(buffer) == 20
    seen = set()
    for _ in range(400):
        batch = buffer.sample()
        numbers = batch["action", "discrete"]
        assert numbers.shape == (8,)
        assert (numbers[:own] < 20).all()
        assert (numbers[own:] >= 100).all()
        assert torch.equal(batch["next", "reward"][:, 0], -numbers.float())
        seen |= set(numbers.tolist())
        buffer.update_tensordict_priority(batch)  # as the recipes do
    # Each is drawn 27 times or more on average: one is left out with a chance below 1e-9.
    assert seen == {*range(20 if own else 0), *(range(100, 130) if own < 8 else ())}


def test_batches_with_a_share_are_transformed() -> None:
    prior = transitions(100, 30)
    buffer = make_replay_buffer(
        prior[0], capacity=50, batch_size=8, prior_data=prior, prior_share=0.5
    )
    buffer.extend(transitions(0, 20))
    buffer.append_transform(lambda batch: batch.set("twice", 2 * batch["next", "reward"]))
    batch = buffer.sample()
    assert torch.equal(batch["twice"], 2 * batch["next", "reward"])


def test_without_a_share_they_are_in_the_buffer_and_are_overwritten_first() -> None:
    prior = transitions(100, 6).unsqueeze(0)  # [1, 6], as of one environment
    buffer = make_replay_buffer(prior[0, 0], capacity=10, batch_size=4, prior_data=prior)
    assert buffer[:]["action", "discrete"].tolist() == [*range(100, 106)]
    buffer.extend(transitions(0, 7))
    assert sorted(buffer[:]["action", "discrete"].tolist()) == [*range(7), 103, 104, 105]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.exclude(("next", "reward")), "('next', 'reward') is missing there"),
        (lambda data: data.set("observation", torch.zeros(6, 2)), "'observation' is torch.float32"),
        (lambda data: data.set("action", torch.zeros(6)), "('action', 'discrete') is missing"),
        (lambda data: data.apply(lambda x: x / 0 if x.is_floating_point() else x), "NaN or inf"),
        (lambda data: data[:0], "no transition, but the shape [0]"),
    ],
)
def test_data_of_another_task_are_refused_in_one_line(change, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_replay_buffer(
            transitions(0, 1)[0], capacity=10, batch_size=4, prior_data=change(transitions(0, 6))
        )
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_data_at_a_resume_are_reported() -> None:
    first, same, other = (
        PriorShare(transitions(start, 6), 0.5, device="cpu") for start in (0, 0, 1)
    )
    for again in (same, other):
        again.load_state_dict(first.state_dict())
    assert same.inexact_reasons == []
    assert other.inexact_reasons == ["replay.prior_data holds other transitions than before"]


SLICES = SliceSampler(4, capacity=10, num_envs=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior_data": None}, "prior_share needs prior_data"),
        ({"sampler": PrioritizedSampler(10)}, "no sampler"),
        ({"storage": "memmap"}, "storage 'tensor'"),
        ({"sampler": SLICES}, "prior_data are for single transitions"),
        ({"sampler": SLICES, "prior_share": None}, "prior_data are for single transitions"),
    ],
)
def test_what_cannot_be_joined_with_prior_data_is_refused(
    options: dict[str, object], words: str
) -> None:
    given = {"prior_data": transitions(0, 6), "prior_share": 0.5} | options
    with pytest.raises(ConfigError, match=words):
        make_replay_buffer(transitions(0, 1)[0], capacity=10, batch_size=4, **given)


@pytest.mark.parametrize("key", [("collector", "mask"), "mask"])
@pytest.mark.parametrize("form", [torch.Tensor.bool, torch.Tensor.byte, lambda x: x.unsqueeze(-1)])
def test_padded_and_preempted_steps_are_left_out(form, key, tmp_path: Path) -> None:
    valid = torch.ones(2, 5, dtype=torch.bool)
    valid[1, 2:] = False
    data = transitions(0, 10).reshape(2, 5)
    numbers = data["action", "discrete"][valid].tolist()
    padded = data.clone().set(key, form(valid))
    padded.save(tmp_path / "padded")
    assert read_prior_data(tmp_path / "padded")["action", "discrete"].tolist() == numbers
    if key != "mask":
        replay = make_replay_buffer(data[0, 0], capacity=10, batch_size=4, prior_data=padded)
        assert replay[:]["action", "discrete"].tolist() == numbers
    preempted = data.clone().set(("collector", "traj_ids"), form(valid).long() - 1)
    preempted.save(tmp_path / "preempted")
    assert read_prior_data(tmp_path / "preempted")["action", "discrete"].tolist() == numbers
    masks = data.clone().set("mask", torch.ones(2, 5, 3, dtype=torch.bool))  # of three actions
    masks.save(tmp_path / "masks")
    assert read_prior_data(tmp_path / "masks").numel() == 10
