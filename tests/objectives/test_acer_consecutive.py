"""Rows of a batch whose steps follow each other, as Retrace needs them, by their ids."""

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.acer.segments import check_consecutive
from rlkit_sac.objectives.batch import cut_steps

NO_CUT = torch.zeros(2, 3, dtype=torch.bool)


def of_trajectories(*rows: list[int]) -> TensorDict:
    ids = torch.tensor(rows)
    return TensorDict(collector=TensorDict(traj_ids=ids, batch_size=ids.shape), batch_size=[2, 3])


def test_steps_of_one_trajectory_pass_and_rows_without_ids_are_not_checked() -> None:
    check_consecutive(of_trajectories([4, 4, 4], [5, 5, 5]), NO_CUT, None)
    check_consecutive(TensorDict(batch_size=[2, 3]), NO_CUT, None)


def test_steps_of_different_trajectories_are_refused_by_their_place() -> None:
    with pytest.raises(BatchError, match=r"step 2 of row \[1\] does not follow step 1"):
        check_consecutive(of_trajectories([4, 4, 4], [5, 5, 6]), NO_CUT, None)


def test_an_episode_may_end_within_a_row_and_padding_have_any_id() -> None:
    batch = of_trajectories([4, 4, 5], [0, 5, 0])
    done, valid = NO_CUT.clone(), ~NO_CUT
    done[0, 1] = True
    valid[1, 0] = valid[1, 2] = False
    cut = cut_steps(done.unsqueeze(-1), valid).squeeze(-1)
    check_consecutive(batch, cut, valid)
    with pytest.raises(BatchError, match=r"step 1 of row \[1\]"):
        check_consecutive(batch, cut, None)
