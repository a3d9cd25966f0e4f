"""Networks by a function of one's own, from the option to the exported policy."""

from typing import Any

import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

import rlkit_sac
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import hybrid_critic, tanh_gaussian_actor
from rlkit_sac.runs import export_policy
from tests.recipes.running import QUICK

HERE = "tests.recipes.test_network_builder"


class Sum(nn.Module):
    """A value of all that it reads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.layers(torch.cat(inputs, -1))
        return value


def own_critic(default: Any, observation_dim: int, **options: Any) -> Any:
    if default is tanh_gaussian_actor:
        return default(observation_dim=observation_dim, **options)
    network = Sum(observation_dim + options["action_dim"])
    return TensorDictModule(network, ["observation", "action"], ["state_action_value"])


def own_actor(default: Any, **options: Any) -> Any:
    network = default(**options)
    if default is tanh_gaussian_actor:
        network.module[0].module[0][1] = nn.Hardswish()  # which no option has
    return network


def no_network(default: Any, **options: Any) -> Any:
    return None if default is not hybrid_critic else default(**options)


@pytest.mark.parametrize("builder", ["own_critic", "own_actor"])
def test_a_run_is_loaded_evaluated_exported_and_resumed_with_its_networks(builder: str) -> None:
    run = rlkit_sac.train("sac", **QUICK, **{"network.builder": f"{HERE}:{builder}"})
    policy = run.policy()
    layers = [type(each) for each in policy.modules()]
    assert (nn.Hardswish in layers) == (builder == "own_actor")
    assert run.evaluate(episodes=1).returns[0] == run.evaluations["return_mean"].iloc[-1]
    export_policy(run.path, run.path / "policy.pt2", format="torch")
    assert np.isfinite(policy.act(np.zeros(3))).all()
    run.resume(**{"collector.total_frames": 140})
    assert run.evaluations["frames"].iloc[-1] == 140


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (f"{HERE}:no_network", "returned None, wanted a TensorDictModule"),
        (f"{HERE}:absent", "AttributeError"),
        ("absent_module:build", "No module named 'absent_module'"),
    ],
)
def test_what_makes_no_network_is_refused(builder: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"network.builder: .*{words}"):
        rlkit_sac.train("sac", **QUICK, **{"network.builder": builder})
