import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import action_value_critic, hybrid_critic, state_action_critic, state_critic
from rlkit_sac.modules.perceptron import ACTIVATIONS


@pytest.mark.parametrize("batch", [(), (7,), (3, 5)])
@pytest.mark.parametrize("reward_dim", [1, 4])
def test_one_value_for_each_reward_dimension(batch: tuple[int, ...], reward_dim: int) -> None:
    critic = state_action_critic(3, 2, num_cells=[8], reward_dim=reward_dim)
    data = TensorDict(
        observation=torch.randn(*batch, 3), action=torch.randn(*batch, 2), batch_size=batch
    )
    assert critic.in_keys == ["observation", "action"]
    assert critic(data)["state_action_value"].shape == (*batch, reward_dim)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", torch.relu),
        ("tanh", torch.tanh),
        ("elu", torch.nn.functional.elu),
        ("silu", torch.nn.functional.silu),
        ("gelu", torch.nn.functional.gelu),
    ],
)
def test_the_value_is_that_of_the_layers(name: str, function) -> None:
    torch.manual_seed(0)
    critic = state_action_critic(3, 2, num_cells=[6, 5], activation=name)
    observation, action = torch.randn(4, 3), torch.randn(4, 2)
    w1, b1, w2, b2, w3, b3 = critic.parameters()
    hidden = function(torch.cat([observation, action], -1) @ w1.T + b1)
    wanted = function(hidden @ w2.T + b2) @ w3.T + b3
    data = TensorDict(observation=observation, action=action, batch_size=[4])
    torch.testing.assert_close(critic(data)["state_action_value"], wanted)
    assert name in ACTIVATIONS


@pytest.mark.parametrize("batch", [(), (7,), (3, 5)])
@pytest.mark.parametrize(("reward_dim", "shape"), [(1, (6,)), (4, (6, 4))])
def test_one_value_for_each_discrete_action(
    batch: tuple[int, ...], reward_dim: int, shape: tuple[int, ...]
) -> None:
    data = TensorDict(observation=torch.randn(*batch, 3), batch_size=batch)
    critic = action_value_critic(3, 6, num_cells=[8], reward_dim=reward_dim)
    assert critic(data)["action_value"].shape == (*batch, *shape)
    assert critic.in_keys == ["observation"]
    data["action", "continuous"] = torch.randn(*batch, 2)
    hybrid = hybrid_critic(3, 2, 6, num_cells=[8], reward_dim=reward_dim)
    assert hybrid(data)["action_value"].shape == (*batch, *shape)
    assert hybrid.in_keys == ["observation", ("action", "continuous")]


def test_last_layers_of_critics_may_start_small():
    torch.manual_seed(0)
    for critic in (
        state_critic(3, num_cells=[64], output_init=0.003),
        state_action_critic(3, 1, num_cells=[64], output_init=0.003),
    ):
        *_, weight, bias = critic.parameters()
        assert 0.001 < weight.abs().max() <= 0.003
        assert bias.abs().max() <= 0.003
