from typing import Any

import pytest
import torch
from tensordict import NestedKey, TensorDict
from torch import Tensor

from rlkit_sac.objectives.checks.validity import cut_steps, fill_invalid, valid_steps
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss

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


# ------------------------------------------------------------------ in the losses


def every_loss(kind: str, **options: Any) -> SoftActorCriticLoss[Any]:
    torch.manual_seed(0)
    if kind == "continuous":
        return make_loss(**options)
    return make_discrete_loss(kind, **options)


def every_batch(kind: str, *shape: int) -> TensorDict:
    torch.manual_seed(1)
    return make_data(*shape) if kind == "continuous" else make_discrete_data(kind, *shape)


def outputs(loss: SoftActorCriticLoss[Any], data: TensorDict) -> dict[str, Tensor]:
    """Scalars and priorities, the policy's noise the same at every call."""
    torch.manual_seed(2)
    NoisyTanhGaussian.queue = list(torch.randn(2, *data.batch_size, ACTION_DIM).double())
    data = data.clone()
    return dict(loss(data).items()) | {"td_error": data["td_error"]}


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)


KINDS = ["continuous", "boltzmann", "categorical", "hybrid"]
OTHER_FLAGS: list[NestedKey] = [
    "mask",
    "valid",
    "is_init",
    "truncated",
    ("collector", "valid"),
    ("collector", "traj_ids"),
    ("next", "mask"),
    ("next", "truncated"),
    ("next", "collector", "mask"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lmbda", [0.0, 0.9])
def test_no_other_flag_takes_a_step_out_of_the_losses(kind: str, lmbda: float) -> None:
    loss = every_loss(kind, diagnostics=True)
    if lmbda:
        loss.make_value_estimator("TDLambda", lmbda=lmbda)
    data = every_batch(kind, 3, 4)
    wanted = outputs(loss, data)
    for key in OTHER_FLAGS:
        data[key] = torch.zeros(3, 4, 1, dtype=torch.bool)
    assert_same(outputs(loss, data), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_has_the_name_the_loss_gives_it(kind: str) -> None:
    """``loss_mask_key`` of TorchRL's losses: another entry, or none."""
    loss = every_loss(kind)
    data = every_batch(kind, 2, 3)
    unmasked = outputs(loss, data)
    data[MASK] = VALID
    masked = outputs(loss, data)
    assert masked["loss_qvalue"] != unmasked["loss_qvalue"]
    assert (masked["td_error"][~VALID] == 0).all()
    loss.loss_mask_key = None
    assert_same(outputs(loss, data), unmasked)
    loss.loss_mask_key = ("mine", "valid")
    assert_same(outputs(loss, data), unmasked)
    data["mine", "valid"] = VALID
    data[MASK] = ~VALID
    assert_same(outputs(loss, data), masked)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, "random", "zero", "nan"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_batch_without_a_valid_step_asks_for_nothing(
    kind: str, weights: str | None, reduction: Any
) -> None:
    loss = every_loss(kind, normalize_entropy_reward=True, reduction=reduction)
    data = every_batch(kind, 2, 3)
    outputs(loss, data)  # the running means have moved once
    before = {name: tensor.clone() for name, tensor in loss.state_dict().items()}
    data["collector", "mask"] = torch.zeros(2, 3, dtype=torch.bool)
    if weights is not None:
        fill = {"random": torch.rand(2, 3), "zero": torch.zeros(2, 3)}
        data["priority_weight"] = fill.get(weights, torch.full((2, 3), torch.nan)).double()
    out = outputs(loss, data)
    assert all(out[name] == 0 for name in out if name.startswith(("loss", "entropy")))
    assert (out["td_error"] == 0).all()
    sum(out[name] for name in out if name.startswith("loss")).backward()  # type: ignore[union-attr]
    assert all(p.grad is not None and (p.grad == 0).all() for p in loss.parameters())
    after = loss.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_a_valid_step_is_as_if_it_were_not_there(kind: str) -> None:
    loss = every_loss(kind, normalize_entropy_reward=True, reduction="sum")
    twin = every_loss(kind, normalize_entropy_reward=True, reduction="sum")
    data = every_batch(kind, 2, 3)
    data["priority_weight"] = torch.rand(2, 3).double()
    for each in (loss, twin):
        each.make_value_estimator("TDLambda", lmbda=0.9)
    torch.manual_seed(2)
    noise = torch.randn(2, 2, 3, ACTION_DIM).double()
    NoisyTanhGaussian.queue = list(noise[:, :1])
    wanted = twin(data[:1].clone())
    data["collector", "mask"] = torch.tensor([[True], [False]]).expand(2, 3)
    NoisyTanhGaussian.queue = list(noise)
    found = loss(data.clone())
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)
    for name, center in twin.entropy_centers.named_buffers():
        torch.testing.assert_close(loss.entropy_centers.get_buffer(name), center)


def test_weights_that_are_all_zero_ask_for_nothing() -> None:
    loss = every_loss("continuous")
    data = every_batch("continuous", 5)
    data["priority_weight"] = torch.zeros(5).double()
    out = outputs(loss, data)
    assert all(out[name] == 0 for name in out if name.startswith("loss"))
