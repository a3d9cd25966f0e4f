"""A packed buffer against TorchRL's own, with the same transitions and the same seed."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from rlkit_sac.data.replay.packed_buffer import PackedReplayBuffer
from tests.data.collect.test_light_collector import assert_same


def transitions(first: int, number: int) -> TensorDict:
    """Entries of every kind of shape and type, each telling the transition's number."""
    numbers = torch.arange(first, first + number)
    return TensorDict(
        {
            "observation": numbers.float().unsqueeze(-1) + torch.tensor([0.25, 0.5, 0.75]),
            "pixels": (numbers % 256).to(torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, 2, 5),
            "action": {"discrete": numbers, "continuous": numbers.double().unsqueeze(-1) / 7},
            "next": {
                "reward": -numbers.float().unsqueeze(-1),
                "done": (numbers % 3 == 0).unsqueeze(-1),
            },
        },
        batch_size=[number],
    )


def both(capacity: int = 10, batch_size: int = 6) -> list[TensorDictReplayBuffer]:
    plain = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=batch_size)
    return [PackedReplayBuffer(capacity=capacity, batch_size=batch_size), plain]


@pytest.mark.parametrize("size", [1, 3, 4, 10, 13, 27])
def test_samples_are_those_of_torchrls_buffer(size: int) -> None:
    packed, plain = both()
    for first in range(0, 60, size):
        indices = [buffer.extend(transitions(first, size)) for buffer in (packed, plain)]
        if size <= 10:  # of more, TorchRL writes some places twice
            assert torch.equal(*indices)
        batches = []
        for buffer in (packed, plain):
            torch.manual_seed(first)
            batches.append(buffer.sample())
        assert_same(*batches)
        assert (len(packed), packed.write_count) == (len(plain), plain.write_count)


def test_the_storage_shows_tensordicts() -> None:
    packed, _ = both()
    packed.extend(transitions(0, 7))
    wanted = transitions(0, 7).to("cpu")
    assert_same(packed.storage[:], wanted)
    assert_same(packed.storage[2:5], wanted[2:5])
    assert_same(packed.storage[torch.tensor([6, 0])], wanted[torch.tensor([6, 0])])
    assert packed.storage[3]["action", "discrete"] == 3


def test_a_state_comes_back_into_a_new_buffer() -> None:
    first, _ = both()
    first.extend(transitions(0, 7))
    second, _ = both()
    second.load_state_dict(first.state_dict())
    for buffer in (first, second):
        buffer.extend(transitions(7, 6))
    assert_same(second.storage[:], first.storage[:])
    torch.manual_seed(0)
    one = first.sample()
    torch.manual_seed(0)
    assert_same(second.sample(), one)


def test_an_index_beyond_the_end_is_refused() -> None:
    packed, _ = both()
    packed.extend(transitions(0, 7))
    with pytest.raises(IndexError, match="index 7 of a storage of 7 transitions"):
        packed.storage.get(torch.tensor([0, 7]))
