"""First values from another run's checkpoint."""

import pytest
import torch

from rlkit_sac.config import WarmStartConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import read_config, warm_start
from tests.recipes.loading import load_recipe

SHORT = [
    *("--collector.total_frames", "60", "--collector.init_random_frames", "20"),
    *("--collector.learning_starts", "20", "--replay.batch_size", "16"),
    *("--network.num_cells", "[8]", "--evaluation.interval", "60", "--evaluation.episodes", "1"),
    *("--logging.progress", "false"),
]


def loss(**options):
    from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    from rlkit_sac.objectives import ContinuousSACLoss

    torch.manual_seed(99)
    sizes = {"num_cells": [8]} | options
    return ContinuousSACLoss(
        tanh_gaussian_actor(3, [-1.0], [1.0], **sizes), state_action_critic(3, 1, **sizes)
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = load_recipe("sac")
    folder = tmp_path_factory.mktemp("source")
    return recipe.main(
        read_config(recipe.SACConfig, [*SHORT, "--logging.dir", str(folder / "runs")])
    )


def saved(run):
    from rlkit_sac.runs.checkpoints import Manifest, read_state

    return read_state(Manifest.read(run / "checkpoints" / "step_60"))["loss"]


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
    warm_start(module, WarmStartConfig(run=str(run), modules=modules))
    for name, value in module.state_dict().items():
        source = saved(run) if name.startswith(prefixes) else before
        assert torch.equal(value, source[name]), name
    changed = [n for n, v in module.state_dict().items() if not torch.equal(v, before[n])]
    assert changed
    assert all(name.startswith(prefixes) for name in changed)


def test_other_shapes_are_refused_and_leave_the_loss_alone(run):
    module = loss(num_cells=[9])
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(ConfigError, match=r"is \[8\] there and \[9\] here"):
        warm_start(module, WarmStartConfig(run=str(run)))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_without_a_run_nothing_happens():
    module = loss()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    warm_start(module, WarmStartConfig())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_the_recipe_starts_from_another_run(run, tmp_path):
    recipe = load_recipe("sac")
    options = [*SHORT, "--collector.learning_starts", "60", "--seed", "5"]
    options += ["--logging.dir", str(tmp_path), "--warm_start.run", str(run)]
    second = recipe.main(read_config(recipe.SACConfig, options))
    for name, value in saved(second).items():  # no update was made
        assert torch.equal(value, saved(run)[name]), name


@pytest.fixture(scope="module")
def normalized_run(tmp_path_factory):
    recipe, folder = load_recipe("sac"), tmp_path_factory.mktemp("normalized")
    options = [*SHORT, "--normalization.observations", "true"]
    return recipe.main(
        read_config(recipe.SACConfig, [*options, "--logging.dir", str(folder / "runs")])
    )


def test_networks_bring_the_statistics_of_their_observations_along(normalized_run):
    from rlkit_sac.modules import ObservationNormalizer

    module = loss()
    module.observation_normalizer = ObservationNormalizer(3)
    warm_start(module, WarmStartConfig(run=str(normalized_run), modules=["actor"]))
    assert module.observation_normalizer.statistics.count == 60
    source = saved(normalized_run)["observation_normalizer.statistics.mean"]
    assert torch.equal(module.observation_normalizer.statistics.mean, source)


def test_networks_of_normalized_observations_do_not_begin_without(run, normalized_run):
    from rlkit_sac.modules import ObservationNormalizer

    with pytest.raises(ConfigError, match=r"set normalization\.observations to true"):
        warm_start(loss(), WarmStartConfig(run=str(normalized_run), modules=["qvalue"]))
    module = loss()
    module.observation_normalizer = ObservationNormalizer(3)
    with pytest.raises(ConfigError, match=r"set normalization\.observations to false"):
        warm_start(module, WarmStartConfig(run=str(run)))
    warm_start(module, WarmStartConfig(run=str(run), modules=["alpha"]))


def test_a_module_that_the_loss_has_not_is_refused(run):
    with pytest.raises(ConfigError, match="cannot warm-start value: ContinuousSACLoss has none"):
        warm_start(loss(), WarmStartConfig(run=str(run), modules=["value"]))
