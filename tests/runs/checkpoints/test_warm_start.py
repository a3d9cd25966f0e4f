"""First values from another run's checkpoint."""

from contextlib import nullcontext

import pytest
import torch

from rlkit_sac.config import LossConfig, RunConfig, WarmStartConfig
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    ObservationNormalizer,
    RewardNormalizer,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import warm_start
from rlkit_sac.runs.checkpoint import Checkpoint
from tests.recipes.loading import run_recipe

SHORT = [
    *("--collector.total_frames", "60", "--collector.init_random_frames", "20"),
    *("--collector.learning_starts", "20", "--replay.batch_size", "16"),
    *("--network.num_cells", "[8]", "--evaluation.interval", "60", "--evaluation.episodes", "1"),
    *("--logging.progress", "false"),
]


def loss(**options):
    """A loss whose networks some of the options change."""
    torch.manual_seed(99)
    layers = {"num_cells": [8], "activation": options.pop("activation", "relu")}
    head = {name: options.pop(name) for name in ("tanh_loc", "log_std_min") if name in options}
    return ContinuousSACLoss(
        tanh_gaussian_actor(3, [-1.0], [1.0], **layers, **head),
        state_action_critic(3, 1, **layers),
        **options,
    )


def normalized_loss(*, clip=10.0, bounded=False, **options):
    return loss(
        observation_normalizer=ObservationNormalizer(3, clip=clip),
        reward_normalizer=RewardNormalizer(0.99, clip=clip, bounded=bounded),
        **options,
    )


def start_from(run, modules, **schedules):
    return RunConfig(
        warm_start=WarmStartConfig(run=str(run), modules=modules),
        loss=LossConfig(schedules=schedules),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    options = ("--config", "published", "--logging.dir", str(folder / "runs"))
    return run_recipe("sac", *SHORT, *options)


def saved(run):
    return Checkpoint.read(run / "checkpoints" / "step_60").state()["loss"]


@pytest.mark.parametrize(
    ("modules", "prefixes"),
    [
        (["actor"], ("actor_network_params",)),
        (["qvalue"], ("qvalue_network_params", "target_qvalue_network_params")),
        (["alpha"], ("log_alpha",)),
        (["actor", "alpha"], ("actor_network_params", "log_alpha")),
    ],
)
def test_named_modules_get_the_values_of_the_run_and_others_stay(run, modules, prefixes):
    module = loss()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    warm_start(module, start_from(run, modules), make_env("Pendulum-v1"))
    for name, value in module.state_dict().items():
        source = saved(run) if name.startswith(prefixes) else before
        assert torch.equal(value, source[name]), name
    changed = [n for n, v in module.state_dict().items() if not torch.equal(v, before[n])]
    assert changed
    assert all(name.startswith(prefixes) for name in changed)


def test_statistics_that_networks_read_go_on(tmp_path):
    normalize = ["--normalization.observations", "true", "--normalization.rewards", "true"]
    folder = ("--logging.dir", str(tmp_path))
    first = run_recipe("sac", *SHORT, *normalize, *folder)
    second = run_recipe("sac", *SHORT, *normalize, *folder, "--warm_start.run", str(first))
    for name in ("observation_normalizer.statistics", "reward_normalizer.statistics"):
        (once,), (twice,) = (
            [value for key, value in saved(each).items() if key == f"{name}.count"]
            for each in (first, second)
        )
        assert twice == 2 * once > 0


@pytest.fixture(scope="module")
def normalized_run(tmp_path_factory):
    folder = ("--logging.dir", str(tmp_path_factory.mktemp("source")), "--config", "published")
    normalize = ("--normalization.observations", "true", "--normalization.rewards", "true")
    return run_recipe("sac", *SHORT, *folder, *normalize, "--normalization.clip", "10")


@pytest.mark.parametrize(
    ("option", "of_actor", "of_critics"),
    [
        ({}, False, False),
        ({"qvalue_coef": 0.5}, False, False),
        ({"activation": "elu"}, True, True),
        ({"clip": None}, True, True),
        ({"tanh_loc": True}, True, False),
        ({"log_std_min": -5.0}, True, False),
        ({"reward_scale": 100.0}, False, True),
        ({"gamma": 0.9}, False, True),
        ({"bounded": True}, False, True),
    ],
)
def test_weights_of_another_function_or_values_of_other_returns_are_refused(
    normalized_run, option, of_actor, of_critics
):
    env = make_env("Pendulum-v1")
    for module, refused in {"actor": of_actor, "qvalue": of_critics}.items():
        expected = pytest.raises(ConfigError, match=r"does not fit: .* was .* and is .* here")
        with expected if refused else nullcontext():
            warm_start(normalized_loss(**option), start_from(normalized_run, [module]), env)


def test_values_of_a_schedule_at_the_start_of_a_run_count_as_its_options(normalized_run):
    config = start_from(normalized_run, ["qvalue"], reward_scale={0: 100.0, 1000: 1.0})
    with pytest.raises(ConfigError, match=r"does not fit: reward_scale .* is 100"):
        warm_start(normalized_loss(), config, make_env("Pendulum-v1"))
