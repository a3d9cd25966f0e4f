"""Each configuration of a published system updates as that system does."""

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from rlkit_sac.modules import state_action_critic, state_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss, ValueSACLoss
from rlkit_sac.updates import Update
from tests.objectives.networks import NoisyTanhGaussian
from tests.recipes.loading import RECIPES
from tests.recipes.running import Recipe
from tests.runs.recipe_updates import make_update
from tests.variants import published

OBSERVATIONS, ACTIONS, BATCH = 4, 2, 9

SYSTEMS = {
    "sac/pendulum_alf": published.ALF,
    "sac/halfcheetah_alf": published.ALFLocomotion,
    "sac/pendulum_spinning_up": published.SpinningUp,
    "sac/pendulum_prt_rl": published.PrtRL,
    "sac/pendulum_cleanrl": published.CleanRL,
    "sac/pendulum_sb3": published.StableBaselines3,
    "value_sac/pendulum_notebook": published.Notebook,
}


def configured(name: str) -> Any:
    recipe, file = name.split("/")
    path = RECIPES / "configs" / recipe / f"{file}.yaml"
    return Recipe(recipe).config("--config", str(path))


def build(config: Any, half: float) -> tuple[ContinuousSACLoss, Update]:
    """The loss and the update that the recipe builds, with one small hidden layer, in float64."""
    options = config.network.actor_arguments() | {"num_cells": [6], "output_init": None}
    critic = state_action_critic(OBSERVATIONS, ACTIONS, num_cells=[6])
    actor = tanh_gaussian_actor(OBSERVATIONS, [-half] * ACTIONS, [half] * ACTIONS, **options)
    actor[-1].distribution_class = NoisyTanhGaussian
    networks = [actor, critic]
    if config.update.trained[-1] == "value":
        networks.append(state_critic(OBSERVATIONS, num_cells=[6]))
    loss_class = ValueSACLoss if len(networks) == 3 else ContinuousSACLoss
    loss = loss_class(*networks, **config.loss.arguments()).double()
    update = make_update(loss, config.update)
    with torch.no_grad():  # as in the middle of a training
        for name, buffer in loss.named_buffers():
            if name.startswith("target"):
                buffer.add_(0.1 * torch.randn_like(buffer))
    return loss, update


def plain_networks(loss: ContinuousSACLoss) -> dict[str, published.Net]:
    """Every network's weights, by the names of the references."""

    def layers(params: Any, index: int | None = None) -> published.Net:
        flat = params.flatten_keys(".")
        found = {}
        for short, end in {
            "w1": "0.weight",
            "b1": "0.bias",
            "w2": "2.weight",
            "b2": "2.bias",
        }.items():
            (value,) = (v for k, v in flat.items() if k.endswith(f".{end}"))
            value = value.data if index is None else value.data[index]
            found[short] = value.clone().requires_grad_()
        return found

    out = {"actor": layers(loss.actor_network_params)}
    for i in range(2):
        out[f"q{i}"] = layers(loss.qvalue_network_params, i)
        if not isinstance(loss, ValueSACLoss):
            out[f"q{i}_target"] = layers(loss.target_qvalue_network_params, i)
    if isinstance(loss, ValueSACLoss):
        out["v"] = layers(loss.value_network_params)
        out["v_target"] = layers(loss.target_value_network_params)
    return out


def transitions(half: float) -> dict[str, Tensor]:
    return {
        "obs": torch.randn(BATCH, OBSERVATIONS).double(),
        "action": half * (2 * torch.rand(BATCH, ACTIONS).double() - 1),
        "next_obs": torch.randn(BATCH, OBSERVATIONS).double(),
        "reward": torch.randn(BATCH).double(),
        "terminated": (torch.rand(BATCH) < 0.3).double(),
    }


def as_batch(d: dict[str, Tensor]) -> TensorDict:
    terminated = d["terminated"].bool().unsqueeze(-1)
    after = TensorDict(
        observation=d["next_obs"],
        reward=d["reward"].unsqueeze(-1),
        terminated=terminated,
        done=terminated,
        batch_size=[BATCH],
    )
    return TensorDict(observation=d["obs"], action=d["action"], next=after, batch_size=[BATCH])


@pytest.mark.parametrize("name", SYSTEMS)
def test_four_updates_are_those_of_the_published_system(name: str) -> None:
    torch.manual_seed(0)
    config, kind = configured(name), SYSTEMS[name]
    half = kind.policy.half
    assert config.env.rescale_actions == (half == 1.0)
    loss, update = build(config, half)
    draws = torch.randn(40, 2, BATCH, ACTIONS).double()
    if isinstance(loss, ValueSACLoss):  # no draw at s', and one action for both forward passes
        draws = draws[:20].repeat_interleave(2, 0)
        NoisyTanhGaussian.queue = list(draws[:, 1])
    else:
        NoisyTanhGaussian.queue = list(draws.flatten(0, 1))
    system = kind(
        plain_networks(loss),
        loss.log_alpha.detach().clone().requires_grad_(),
        iter((at_next, here) for at_next, here in draws),
        ACTIONS,
    )
    before = plain_networks(loss)
    for number in range(1, 5):
        d = transitions(half)
        update(as_batch(d))
        system.update(d)
        for net, weights in plain_networks(loss).items():
            for layer, value in weights.items():
                wanted = system.nets[net][layer]
                torch.testing.assert_close(value, wanted, rtol=0, atol=1e-10, msg=f"{net}.{layer}")
        torch.testing.assert_close(loss.log_alpha.data, system.log_alpha.data, rtol=0, atol=1e-10)
        if number == 2:  # every network has moved by then
            moved = plain_networks(loss)
            assert all(not torch.equal(moved[net]["b2"], before[net]["b2"]) for net in moved)
    drawn = sum(1 for _ in system.noise)
    assert len(NoisyTanhGaussian.queue) == drawn * (1 if isinstance(loss, ValueSACLoss) else 2)
    NoisyTanhGaussian.queue = []
