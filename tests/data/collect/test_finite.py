import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import check_finite
from rlkit_sac.errors import RunError


@pytest.mark.parametrize("key", ["observation", ("next", "reward")])
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_the_first_bad_frame_of_a_batch_of_environments_is_named(key, number):
    frames = TensorDict(
        {
            "observation": torch.zeros(3, 5, 2),
            "next": {"reward": torch.zeros(3, 5, 1), "done": torch.ones(3, 5, 1, dtype=torch.bool)},
        },
        batch_size=[3, 5],
    )
    check_finite(frames, frames=100)
    frames[key][1, 4, -1] = number
    frames[key][2, 3, -1] = number
    # Three environments step together: their fourth step is the 12th frame of the batch.
    with pytest.raises(RunError) as error:
        check_finite(frames, frames=100)
    assert str(error.value).startswith(f"{key!r} is {number} at frame 112 in environment 2.")


def test_finite_numbers_may_be_large():
    frames = TensorDict(observation=torch.full((4, 2), 3e38), batch_size=[4])
    frames["observation"][0] *= -1
    check_finite(frames, frames=0)


def test_infinities_of_both_signs_are_seen():
    frames = TensorDict(reward=torch.tensor([[torch.inf], [-torch.inf]]), batch_size=[2])
    with pytest.raises(RunError, match="'reward' is inf at frame 1"):
        check_finite(frames, frames=0)
