"""What a recipe says to names, tasks and sizes that are not for it."""

from __future__ import annotations

import pytest

from rlkit_sac.config import EnvConfig
from rlkit_sac.config.conditions import config_errors
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
