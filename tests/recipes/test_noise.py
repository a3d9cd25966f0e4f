"""Correlated exploration noise in collectors and recipes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchrl.collectors import Collector

from rlkit_sac.data import make_collector
from rlkit_sac.envs import make_env
from rlkit_sac.envs.exploration_noise import EpisodeNoise
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import CorrelatedNoise, tanh_gaussian_actor
from rlkit_sac.modules.distributions import TanhGaussian, sampling_noise
from tests.recipes.running import ACER, DISCRETE, HYBRID, PRIOR, SAC, Recipe

PINK = ("--collector.noise_color", "1")


@pytest.mark.parametrize("kind", ["one", "several", "TorchRL's collector", "batched"])
def test_actions_use_the_noise_of_their_episode(kind: str) -> None:
    limit, num_envs = 7, 1 if kind == "one" else 3
    task = "torchrl.envs:PendulumEnv" if kind == "batched" else "Pendulum-v1"
    env = make_env(task, num_envs=num_envs, noise_color=1.0, max_episode_steps=limit, seed=2)
    policy = CorrelatedNoise(tanh_gaussian_actor(observed(env), [-1.0], [1.0]))
    if kind == "TorchRL's collector":
        collector = Collector(env, policy, frames_per_batch=60, total_frames=60)
    else:
        collector = make_collector(env, policy, total_frames=60, frames_per_batch=60)
    (batch,) = collector
    rows = batch.reshape(num_envs, -1)
    expected = TanhGaussian(rows["loc"], rows["scale"])._squash(
        rows["loc"] + rows["scale"] * rows["exploration_noise"]
    )
    torch.testing.assert_close(rows["action"], expected)
    noise = rows["exploration_noise"][..., 0]
    follows = ~rows["next", "done"][:, :-1, 0]
    assert torch.equal(rows["next", "exploration_noise"][:, :-1, 0][follows], noise[:, 1:][follows])
    episodes = {tuple(own[k : k + limit].tolist()) for own in noise for k in (0, limit)}
    assert len(episodes) == 2 * num_envs  # each has its own
    collector.shutdown()


def observed(env) -> int:
    return env.observation_spec["observation"].shape[-1]


def test_an_episode_longer_than_its_sequence_has_more_of_it() -> None:
    noise = EpisodeNoise(2, 1.0, 5)
    steps = [noise(3, step) for step in range(10)]
    assert len({tuple(step) for step in steps}) == 10
    assert (noise(3, 1) == steps[1]).all()


def test_other_modes_and_samples_are_as_without_the_noise() -> None:
    actor = tanh_gaussian_actor(3, [-1.0], [1.0])
    env = make_env("Pendulum-v1", noise_color=2.0)
    state = env.reset()
    acted, plain = CorrelatedNoise(actor)(state.clone()), actor(state.clone())
    assert torch.equal(acted["action"], plain["action"])  # deterministic
    with sampling_noise(torch.full((1,), 0.5)):
        dist = actor.get_dist(state)
        action, log_prob = dist.rsample_and_log_prob()
    torch.testing.assert_close(action, (dist.loc + 0.5 * dist.scale).tanh())
    torch.testing.assert_close(log_prob, actor.get_dist(state).log_prob(action))
    with pytest.raises(ConfigError, match="no TanhGaussian"), sampling_noise(torch.zeros(1)):
        pass
    first, second = (actor.get_dist(state).rsample() for _ in range(2))  # the noise is used up
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        (SAC, ["--env.num_envs", "2", "--collector.frames_per_batch", "6"]),
        (HYBRID, []),
        (PRIOR, ["--prior.kind", "same_action"]),
    ],
    ids=lambda value: value.name if isinstance(value, Recipe) else "",
)
def test_a_run_with_noise_resumes_exactly(
    workplace: Path, capsys: pytest.CaptureFixture[str], recipe: Recipe, options: list[str]
) -> None:
    recipe.assert_resumes_exactly(capsys, 54, *PINK, *options)


def test_a_batched_environment_trains_with_noise(workplace: Path) -> None:
    task = ("--env.id", "torchrl.envs:PendulumEnv", "--env.num_envs", "4")
    SAC.train(*task, *PINK, "--collector.frames_per_batch", "8")


def test_tasks_and_networks_without_such_noise_are_refused(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "env.id: CartPole-v1: collector.noise_color is for continuous actions"
    DISCRETE.assert_refused(capsys, workplace, " ".join(PINK), message)
    ACER.assert_refused(capsys, workplace, " ".join(PINK), "collector.noise_color")
