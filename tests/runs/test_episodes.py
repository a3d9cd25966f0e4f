import pandas as pd
import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.analysis.report import episode_statistics
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


def test_more_episodes_than_rows_are_one_row_of_their_means() -> None:
    batch = TensorDict(batch_size=[3, 1])
    batch["next"] = TensorDict(
        done=torch.ones(3, 1, 1, dtype=torch.bool),
        terminated=torch.tensor([[[True]], [[False]], [[False]]]),
        episode_reward=torch.tensor([[[1.0]], [[3.0]], [[8.0]]], dtype=torch.float64),
        step_count=torch.tensor([[[2]], [[4]], [[6]]]),
        batch_size=[3, 1],
    )
    assert len(finished_episodes(batch, frames=10, most_rows=3)) == 3
    (row,) = finished_episodes(batch, frames=10, most_rows=2)
    wanted = {"frames": 13, "env": None, "return": 4.0, "length": 4.0, "episodes": 3}
    assert row == {**wanted, "terminated": pytest.approx(1 / 3)}
    rows = pd.DataFrame([*finished_episodes(batch, frames=0), row])
    rows["terminated"] = rows["terminated"].astype(str).str.lower()  # as pandas reads the file
    found = episode_statistics(rows.assign(run="a", task="X"), [])
    assert found["episodes"].item() == 6
    assert found["return"].item() == 4.0
    assert found["terminated"].item() == pytest.approx(1 / 3)
