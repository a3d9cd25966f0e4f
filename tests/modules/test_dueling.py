import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from rlkit_sac.modules import StochasticDuelingNetwork, state_action_critic, state_critic

SIZES = {"num_cells": [8]}


def make(num_samples: int = 5, **options) -> StochasticDuelingNetwork:
    torch.manual_seed(0)
    value, advantage = state_critic(3, **SIZES), state_action_critic(3, 2, **SIZES)
    return StochasticDuelingNetwork(value, advantage, num_samples, **options).double()


def inputs(*batch: int) -> TensorDict:
    return TensorDict(
        observation=torch.randn(*batch, 3).double(),
        action=torch.randn(*batch, 2).double(),
        loc=torch.randn(*batch, 2).double().requires_grad_(),
        scale=(torch.rand(*batch, 2).double() + 0.1).requires_grad_(),
        batch_size=batch,
    )


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_the_value_is_that_of_the_formula(batch: tuple[int, ...]) -> None:
    noise = torch.randn(5, *batch, 2).double()
    critic = make(sampler=lambda dist, n: dist.base_dist.loc + noise[:n] * dist.base_dist.scale)
    data = inputs(*batch)
    out = critic(data.clone())

    def advantage(action: Tensor) -> Tensor:
        return critic.advantage_network(data.clone().set("action", action))["state_action_value"]

    drawn = data["loc"] + noise * data["scale"]
    value = critic.value_network(data.clone())["state_value"]
    wanted = value + advantage(data["action"]) - sum(map(advantage, drawn)) / 5
    torch.testing.assert_close(out["state_value"], value)
    torch.testing.assert_close(out["state_action_value"], wanted)


def test_the_mean_over_the_policy_is_the_value() -> None:
    """The advantage network is linear here, so that 20000 samples come close."""
    value = TensorDictModule(nn.Linear(3, 1), ["observation"], ["v"])
    advantage = TensorDictModule(nn.Linear(2, 1), ["action"], ["a"])
    torch.manual_seed(0)
    critic = StochasticDuelingNetwork(value, advantage, 2)
    data = inputs(20_000).float()
    data["action"] = torch.normal(data["loc"], data["scale"]).detach()
    out = critic(data)
    relative = (out["state_action_value"] - out["state_value"]).detach()
    assert relative.mean().abs() < 4 * relative.std() / 20_000**0.5
    assert relative.std() > 0.05
