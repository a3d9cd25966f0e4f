from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import LossModule

from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.comparison import assert_same
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss

MASK = ("collector", "mask")
VALID = torch.tensor([[True, True, False], [True, False, True]])


def every_loss(kind: str, **options: Any) -> LossModule:
    torch.manual_seed(0)
    return make_loss(kind, **options)


def every_batch(kind: str, *shape: int) -> TensorDict:
    torch.manual_seed(1)
    return make_data(kind, *shape)


def outputs(loss: LossModule, data: TensorDict) -> dict[str, Tensor]:
    """Scalars and priorities, the policy's noise the same at every call."""
    torch.manual_seed(2)
    NoisyTanhGaussian.queue = list(torch.randn(2, *data.batch_size, ACTION_DIM).double())
    data = data.clone()
    return dict(loss(data).items()) | {"td_error": data["td_error"]}


def test_a_step_is_valid_where_every_mask_says_so() -> None:
    """TorchRL's losses read two masks by themselves."""
    loss, data = every_loss("continuous"), every_batch("continuous", 2, 3)
    data[MASK] = VALID
    data["shifted_valid"] = torch.tensor([[True, False, True], [True, True, True]]).unsqueeze(-1)
    found = outputs(loss, data)
    assert (found["td_error"] != 0).tolist() == [[True, False, False], [True, False, True]]
    del data["shifted_valid"]
    data[MASK] = torch.tensor([[True, False, False], [True, False, True]])
    assert_same(found, outputs(loss, data), rtol=0, atol=0)


def shown(data: TensorDict) -> tuple[Tensor, ...]:
    """What the critics see of the states of a batch: numbers, indices and flags."""
    seen = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 2).double()

        def forward(self, *inputs: Tensor) -> Tensor:
            seen.append(inputs)
            return self.net(inputs[0])

    critic = TensorDictModule(Watched(), ["observation", "index", "flag"], ["action_value"])
    data["index"] = torch.arange(1, 7).reshape(2, 3)
    data["flag"] = torch.ones(2, 3, 1, dtype=torch.bool)
    data["action"] = torch.zeros(2, 3, dtype=torch.int64)
    for name in ("index", "flag"):
        data["next", name] = data[name] + (100 if name == "index" else 0)
    loss = DiscreteSACLoss(critic, num_qvalue_nets=1, deactivate_vmap=True)
    loss(data)
    return next(inputs for inputs in seen if 0 < inputs[1].max() < 100)


def test_invalid_steps_are_filled_with_zeros_of_every_type() -> None:
    data = every_batch("continuous", 2, 3)
    data[MASK] = VALID
    data["observation"][~VALID] = torch.nan
    observation, index, flag = shown(data)
    assert (observation[~VALID] == 0).all()
    assert index.tolist() == [[1, 2, 0], [4, 0, 6]]
    assert torch.equal(flag.squeeze(-1), VALID)
    for found, name in ((observation, "observation"), (index, "index"), (flag, "flag")):
        assert torch.equal(found[VALID], data[name][VALID])
        assert found.dtype == data[name].dtype
    assert data["observation"][~VALID].isnan().all()  # the batch itself is left alone


KINDS = ["continuous", "boltzmann", "categorical", "hybrid"]


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
    torch.testing.assert_close(dict(found), dict(wanted), rtol=1e-12, atol=1e-12)
    centers = {name for name in twin.state_dict() if name.startswith("entropy_centers")}
    assert centers
    for name in centers:
        torch.testing.assert_close(loss.state_dict()[name], twin.state_dict()[name])
