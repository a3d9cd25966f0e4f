import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.runs.log import finished_episodes


def collected(done: list, terminated: list, returns: list, lengths: list) -> TensorDict:
    """Nested lists ``[T]`` or ``[N, T]``."""
    shape = torch.tensor(done).shape
    after = TensorDict(
        done=torch.tensor(done).bool().unsqueeze(-1),
        terminated=torch.tensor(terminated).bool().unsqueeze(-1),
        episode_reward=torch.tensor(returns, dtype=torch.float32).unsqueeze(-1),
        step_count=torch.tensor(lengths).unsqueeze(-1),
        batch_size=shape,
    )
    return TensorDict(next=after, batch_size=shape)


def row(frames: int, env: int, value: float, length: int, terminated: bool) -> dict:
    return {
        "frames": frames,
        "env": env,
        "return": value,
        "length": length,
        "terminated": terminated,
    }


def test_several_ends_of_one_environment() -> None:
    batch = collected(
        done=[0, 1, 0, 0, 1], terminated=[0, 1, 0, 0, 0], returns=[4, 5, 1, 2, 3],
        lengths=[8, 9, 1, 2, 3],
    )  # fmt: skip
    assert list(finished_episodes(batch, frames=100)) == [
        row(102, 0, 5.0, 9, True),
        row(105, 0, 3.0, 3, False),
    ]


def test_several_environments_count_their_frames_together() -> None:
    batch = collected(
        done=[[0, 0, 1, 1], [0, 0, 1, 0], [1, 0, 0, 0]],
        terminated=[[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]],
        returns=[[1, 2, 3, -1], [5, 6, 7, 1], [9, 1, 2, 3]],
        lengths=[[1, 2, 3, 1], [4, 5, 6, 1], [7, 1, 2, 3]],
    )
    # By time first, so that the frames never fall; three frames for each step.
    assert list(finished_episodes(batch, frames=30)) == [
        row(33, 2, 9.0, 7, False),
        row(39, 0, 3.0, 3, False),
        row(39, 1, 7.0, 6, True),
        row(42, 0, -1.0, 1, True),
    ]


@pytest.mark.parametrize(("weights", "total"), [(None, 3.0), ([2.0, -1.0], 12.0)])
def test_a_vector_reward_has_a_column_for_each_dimension(weights, total) -> None:
    batch = collected(done=[0, 1], terminated=[0, 1], returns=[0, 0], lengths=[1, 2])
    batch["next", "episode_reward"] = torch.tensor([[1.0, 1.0], [5.0, -2.0]])
    weights = None if weights is None else torch.tensor(weights)
    (found,) = finished_episodes(batch, frames=0, reward_weights=weights)
    assert found == row(2, 0, total, 2, True) | {"return_0": 5.0, "return_1": -2.0}
    assert list(found)[2:5] == ["return", "return_0", "return_1"]
