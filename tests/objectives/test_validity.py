import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from rlkit_sac.objectives.validity import cut_steps, fill_invalid, valid_steps

MASK = ("collector", "mask")
VALID = torch.tensor([[True, True, False], [True, False, True]])


def batch(**masks: Tensor) -> TensorDict:
    data = TensorDict(
        observation=torch.arange(12.0).reshape(2, 3, 2) + 1,
        index=torch.arange(6).reshape(2, 3) + 1,
        done=torch.ones(2, 3, 1, dtype=torch.bool),
        batch_size=[2, 3],
    )
    for name, mask in masks.items():
        data["collector", name] = mask
    return data


@pytest.mark.parametrize("mask", [VALID, VALID.unsqueeze(-1)])
def test_a_mask_may_have_a_trailing_dimension(mask: Tensor) -> None:
    found = valid_steps(batch(mask=mask), [MASK])
    assert found is not None
    assert torch.equal(found, VALID)


def test_a_step_is_valid_where_every_mask_says_so() -> None:
    other = torch.tensor([[True, False, True], [True, True, True]]).unsqueeze(-1)
    data = batch(mask=VALID, other=other)
    found = valid_steps(data, [MASK, ("collector", "other"), ("collector", "absent")])
    assert found is not None
    assert found.tolist() == [[True, False, False], [True, False, True]]


def test_without_masks_there_is_nothing_to_select() -> None:
    data = batch()
    assert valid_steps(data, [MASK]) is None
    assert valid_steps(batch(mask=VALID), []) is None
    assert fill_invalid(data, None) is data


def test_invalid_steps_are_filled_with_zeros_of_every_type() -> None:
    data = batch()
    data["observation"][~VALID] = torch.nan
    filled = fill_invalid(data, VALID)
    assert (filled["observation"][~VALID] == 0).all()
    assert filled["index"].tolist() == [[1, 2, 0], [4, 0, 6]]
    assert torch.equal(filled["done"].squeeze(-1), VALID)
    for name in ("observation", "index", "done"):
        assert torch.equal(filled[name][VALID], data[name][VALID])
        assert filled[name].dtype == data[name].dtype
    assert data["observation"][~VALID].isnan().all()  # the batch itself is left alone


def test_a_row_is_cut_where_it_ends_and_before_an_invalid_step() -> None:
    done = torch.tensor([[False, True, False, False, False]]).unsqueeze(-1)
    valid = torch.tensor([[True, True, True, False, True]])
    assert cut_steps(done, None).flatten().tolist() == [False, True, False, False, False]
    assert cut_steps(done, valid).flatten().tolist() == [False, True, True, False, False]


def test_rows_are_cut_on_their_own() -> None:
    done = torch.zeros(2, 3, 1, dtype=torch.bool)
    done[1, 0] = True
    assert cut_steps(done, VALID).squeeze(-1).tolist() == [
        [False, True, False],
        [True, False, False],
    ]
