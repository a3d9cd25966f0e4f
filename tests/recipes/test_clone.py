"""Policies cloned from data."""

import math

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.config import EnvConfig
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import PolicyPrior, hybrid_critic, tanh_gaussian_actor
from rlkit_sac.objectives import HybridSACLoss
from rlkit_sac.runs import load_policy, save_policy
from tests.recipes.loading import load_recipe
from tests.reliability.runs import assert_equal

recipe = load_recipe("clone")


def clone_policy(data, env, **options):
    return recipe.clone(data, env, recipe.CloneConfig(**options))


def hybrid_data(number: int) -> TensorDict:
    """Choice 2 where the first entry of the observation is positive, else 0 or 1 at even odds."""
    observation = torch.rand(number, 9) * 2 - 1
    positive = observation[:, 0] > 0
    discrete = torch.where(positive, 2, torch.randint(2, (number,)))
    middle = torch.where(positive, 0.5, -0.5).unsqueeze(-1)
    continuous = torch.tanh(middle + 0.3 * torch.randn(number, 3))
    action = TensorDict(continuous=continuous, discrete=discrete, batch_size=[number])
    return TensorDict(observation=observation, action=action, batch_size=[number])


@pytest.fixture(scope="module")
def cloned():
    torch.manual_seed(0)
    return clone_policy(hybrid_data(4_000), make_env("Platform-v0"), num_cells=[64], updates=1_500)


def test_a_cloned_policy_has_the_distribution_of_the_data(cloned) -> None:
    states = hybrid_data(2_000)
    states = states[states["observation"][:, 0].abs() > 0.2]
    positive = states["observation"][:, 0] > 0
    dists = PolicyPrior(cloned).get_dist(states).dists
    probs = dists["action", "discrete"].probs.detach()
    wanted = torch.where(positive[:, None], torch.tensor([0.0, 0, 1]), torch.tensor([0.5, 0.5, 0]))
    assert (probs - wanted).abs().mean() < 0.04
    acted = cloned(states)
    middle = torch.where(positive, 0.5, -0.5).unsqueeze(-1)
    assert (acted["loc"] - middle).abs().mean() < 0.08
    assert abs(acted["scale"].log().mean().item() - math.log(0.3)) < 0.1


def test_it_is_saved_loaded_and_the_prior_of_a_hybrid_loss(cloned, tmp_path) -> None:
    save_policy(tmp_path, cloned)
    prior = PolicyPrior(load_policy(tmp_path))
    env = make_env("Platform-v0")
    actor = tanh_gaussian_actor(9, [-1.0] * 3, [1.0] * 3, action_key=("action", "continuous"))
    spec = env.full_action_spec_unbatched
    loss = HybridSACLoss(actor, hybrid_critic(9, 3, 3), action_spec=spec, prior_network=prior)
    batch = hybrid_data(8)
    ended = torch.zeros(8, 1, dtype=torch.bool)
    after = {"observation": batch["observation"], "reward": torch.ones(8, 1)}
    batch["next"] = TensorDict(**after, done=ended, terminated=ended, batch_size=[8])
    found = loss(batch)
    assert found["kl_discrete"].isfinite()
    assert found["kl_continuous"].isfinite()


def test_actions_at_their_bounds_are_cloned() -> None:
    torch.manual_seed(0)
    data = TensorDict(observation=torch.rand(64, 3), action=torch.ones(64, 1), batch_size=[64])
    policy = clone_policy(data, make_env("Pendulum-v1"), num_cells=[32], updates=300)
    acted = policy(data)
    assert (acted["action"] > 0.8).all()
    assert (acted["scale"] < 0.2).all()  # as if the bounds were not there, exp(-2)
    with pytest.raises(ConfigError, match=r"'action' of the prior data goes from 2 to 2, in the"):
        clone_policy(data.set("action", torch.full((64, 1), 2.0)), make_env("Pendulum-v1"))


def test_data_of_another_task_are_refused() -> None:
    with pytest.raises(ConfigError, match="'observation' is"):
        clone_policy(hybrid_data(4), make_env("rlkit_sac/Moving-v0"))


def test_images_are_cloned() -> None:
    torch.manual_seed(0)
    env = make_env("rlkit_sac/PendulumImages-v0")
    with torch.no_grad():
        data = env.rollout(20)
    data["action"] = torch.full_like(data["action"], 0.5)
    policy = clone_policy(data, env, num_cells=[16], updates=60, log_std_min=-1.0)
    assert (policy(data)["loc"].tanh() - 0.5).abs().mean() < 0.2


def test_the_seed_decides_and_other_files_are_refused(tmp_path) -> None:
    task = {"env": EnvConfig(id="Platform-v0"), "num_cells": [8], "updates": 20}
    hybrid_data(200).save(tmp_path / "data")
    weights = []
    for number, seed in enumerate((1, 1, 2)):
        torch.rand(number)  # what came before does not matter
        config = recipe.CloneConfig(f"{tmp_path}/data", f"{tmp_path}/{number}", seed=seed, **task)
        weights.append(load_policy(recipe.main(config)).state_dict())
    assert_equal(weights[0], weights[1], "policy")
    with pytest.raises(AssertionError):
        assert_equal(weights[0], weights[2], "policy")
    (tmp_path / "x.npz").touch()
    for wrong in ("x.npz", "nowhere", "."):
        config = recipe.CloneConfig(str(tmp_path / wrong), str(tmp_path / "none"), **task)
        with pytest.raises(ConfigError, match=r"^data: wanted a folder that TensorDict.save wrote"):
            recipe.main(config)


def test_what_is_constant_in_the_data_is_shifted_but_not_scaled() -> None:
    observation = torch.randn(500, 3) * torch.tensor([5.0, 1.0, 0.0]) + 0.1
    data = TensorDict(observation=observation, action=torch.zeros(500, 1), batch_size=[500])
    options = {"num_cells": [8], "updates": 1, "normalize_observations": True}
    policy = clone_policy(data, make_env("Pendulum-v1"), **options)
    found = policy.normalizer(torch.tensor([[0.1, 0.1, 0.6]]))[0]
    torch.testing.assert_close(found[2].item(), 0.5, rtol=1e-5, atol=1e-6)
    scaled = policy.normalizer(observation)[:, :2]
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(2), rtol=1e-4, atol=1e-4)
