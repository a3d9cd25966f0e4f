"""Each recipe makes the update that its options ask for."""

import pytest
import torch

from rlkit_sac.runs import parameter_groups
from rlkit_sac.updates import LossStep, TargetStep
from tests.recipes.running import Recipe
from tests.recipes.updates import update_of

RECIPES = {
    "sac": (),
    "kl_prior_sac": (),
    "value_sac": ("--update.lr_value", "4e-3"),
    "hybrid_sac": (),
    "discrete_sac": ("--actor", "true"),
}
OPTIONS = (
    *("--device", "cpu", "--update.lr_actor", "1e-3", "--update.lr_qvalue", "2e-3"),
    *("--update.lr_alpha", "3e-3", "--update.adam_eps", "1e-5", "--update.max_grad_norm", "0.7"),
    *("--update.target_update_tau", "0.25", "--update.recompute", "true"),
    *("--update.matmul_precision", "exact", "--compile", "true"),
    *("--update.order", "[qvalue, [actor, alpha], target]", "--update.periods", "{target: 2}"),
)
RATES = {"actor": 1e-3, "qvalue": 2e-3, "value": 4e-3, "alpha": 3e-3}


@pytest.mark.parametrize("name", RECIPES)
def test_an_update_has_the_options_of_its_configuration(name: str) -> None:
    options = [
        each.replace("[qvalue,", "[qvalue, value,") if name == "value_sac" else each
        for each in (*OPTIONS, *RECIPES[name])
    ]
    update = update_of(name, Recipe(name).config(*options))
    groups = parameter_groups(update.loss_module)
    assert list(update.optimizers) == list(groups) == [each for each in RATES if each in groups]
    for group, optimizer in update.optimizers.items():
        assert type(optimizer) is torch.optim.Adam
        assert (optimizer.defaults["lr"], optimizer.defaults["eps"]) == (RATES[group], 1e-5)
        assert optimizer.defaults["fused"]
        (parameters,) = optimizer.param_groups
        assert parameters["params"] == groups[group]
    parameters = [id(each) for group in groups.values() for each in group]
    assert sorted(parameters) == sorted(map(id, update.loss_module.parameters()))
    first = [LossStep((f"loss_{each}",), (each,)) for each in ("qvalue", "value") if each in groups]
    both = LossStep(("loss_actor", "loss_alpha"), ("actor", "alpha"))
    assert update.steps == (*first, both, TargetStep(2))
    assert update.target_updater.eps == 0.75
    assert (update.max_grad_norm, update.recompute) == (0.7, True)
    assert (update.matmul_precision, update.compile_from) == ("exact", 1)


@pytest.mark.parametrize("name", RECIPES)
def test_a_fixed_temperature_has_no_optimizer(name: str) -> None:
    config = Recipe(name).config("--loss.fixed_alpha", "true", *RECIPES[name])
    assert "alpha" not in update_of(name, config).optimizers
