import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import state_action_critic, state_critic
from rlkit_sac.modules.layers import ACTIVATIONS


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


def test_last_layers_of_critics_may_start_small():
    torch.manual_seed(0)
    for critic in (
        state_critic(3, num_cells=[64], output_init=0.003),
        state_action_critic(3, 1, num_cells=[64], output_init=0.003),
    ):
        *_, weight, bias = critic.parameters()
        assert 0.001 < weight.abs().max() <= 0.003
        assert bias.abs().max() <= 0.003
