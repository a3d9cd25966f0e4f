"""What a recipe says to names, tasks and sizes that are not for it."""

from __future__ import annotations

import re

import pytest

from rlkit_sac.config import EnvConfig
from rlkit_sac.config.command_line import Setting
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.config.flat import options_of
from rlkit_sac.config.names import USUAL_NAMES, unknown_option
from tests.recipes.loading import load_recipe

RECIPES = {
    "sac": "SACConfig",
    "discrete_sac": "DiscreteSACConfig",
    "hybrid_sac": "HybridSACConfig",
    "kl_prior_sac": "KLPriorSACConfig",
    "value_sac": "ValueSACConfig",
    "acer": "ACERConfig",
}
KINDS = {
    "continuous": ["sac", "kl_prior_sac", "value_sac", "acer"],
    "discrete": ["discrete_sac", "acer"],
    "hybrid": ["hybrid_sac"],
}
TASKS = {
    "continuous": ("Pendulum-v1", "a Box of shape (1,)"),
    "discrete": ("CartPole-v1", "Discrete(2)"),
    "hybrid": ("Platform-v0", "Discrete(3) and a Box of shape (3,) at once"),
}


def config(recipe: str, **options):
    return getattr(load_recipe(recipe), RECIPES[recipe])(device="cpu", **options)


def hint(recipe: str, name: str) -> str:
    setting = Setting(name, "1", f"--{name}", on_command_line=True)
    return unknown_option(setting, options_of(config(recipe)))


@pytest.mark.parametrize(
    ("recipe", "name", "meant"),
    [
        ("sac", "lr", "update.lr_actor or --update.lr_qvalue or --update.lr_alpha"),
        ("sac", "learning-rate", "update.lr_actor or --update.lr_qvalue or --update.lr_alpha"),
        ("sac", "update.lr", "update.lr_actor or --update.lr_qvalue or --update.lr_alpha"),
        ("sac", "tau", "update.target_update_tau"),
        ("sac", "alpha", "loss.alpha_init"),
        ("sac", "gamma", "loss.gamma"),
        ("sac", "batch_size", "replay.batch_size"),
        ("sac", "total_timesteps", "collector.total_frames"),
        ("sac", "n_steps", "replay.slice_length"),
        ("sac", "buffer_size", "replay.capacity"),
        ("sac", "hidden_sizes", "network.num_cells"),
        ("sac", "net_arch", "network.num_cells"),
        ("sac", "ent_coef", "loss.alpha_init"),
        ("sac", "target_entropy", "loss.target_entropy"),
        ("sac", "gradient_steps", "update.utd_ratio"),
        ("sac", "train_freq", "collector.frames_per_batch"),
        ("sac", "lstm", "network.memory"),
        ("sac", "sequence_length", "replay.slice_length"),
        ("sac", "memory_size", "network.memory_size or --replay.capacity"),
        ("acer", "rnn_hidden_size", "network.memory_size"),
        ("kl_prior_sac", "target_entropy", "loss.target_kld_per_dim"),
        ("acer", "lr", "update.lr"),
        ("acer", "ent_coef", "loss.beta"),
        ("acer", "n_steps", "collector.t_max"),
        ("acer", "gradient_steps", "update.n_times_replay"),
    ],
)
def test_the_usual_names_of_the_field_lead_to_ours(recipe: str, name: str, meant: str) -> None:
    assert hint(recipe, name) == f"unknown option --{name}; did you mean --{meant}?"


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_hint_names_an_option_that_the_recipe_lacks(recipe: str) -> None:
    options = options_of(config(recipe))
    for name in USUAL_NAMES.keys() - options:
        line = hint(recipe, name)
        asked = re.search(r"did you mean ([^?]*)\?", line)
        assert asked or line.endswith("see --help for all options")
        assert {key[2:] for key in asked[1].split(" or ")} <= options.keys() if asked else True


def test_each_usual_name_has_an_option_in_some_recipe() -> None:
    there = {key for recipe in RECIPES for key in options_of(config(recipe))}
    for name, keys in USUAL_NAMES.items():
        assert set(keys) <= there, name


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_of_another_recipe_names_those_that_train_it(recipe: str, kind: str) -> None:
    task, actions = TASKS[kind]
    found = config_errors(config(recipe, env=EnvConfig(id=task)))
    if recipe in KINDS[kind]:
        assert found == []
        return
    ((key, text),) = found
    names = " and".join(", ".join(KINDS[kind]).rsplit(",", 1))
    assert key == "env.id"
    recipes = f"recipe {names} trains" if len(KINDS[kind]) == 1 else f"recipes {names} train"
    assert text.endswith(f"but the actions are {actions}: the {recipes} this task")
