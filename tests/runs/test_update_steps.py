from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives import LossModule

from rlkit_sac.config import UpdateConfig, ValueUpdateConfig
from rlkit_sac.runs import parameter_groups
from rlkit_sac.updates import LossStep, TargetStep
from tests.objectives.losses import make_batch, own_loss
from tests.runs.recipe_updates import make_update

ALL = ("actor", "qvalue", "alpha")


def make_loss(kind: str = "continuous") -> LossModule:
    torch.manual_seed(0)
    return own_loss(kind)


def batch() -> TensorDict:
    return make_batch("continuous", 6)


def step(name: str, period: int = 1) -> LossStep:
    return LossStep((f"loss_{name}",), (name,), period)


def test_every_parameter_is_in_one_group() -> None:
    loss = make_loss()
    groups = parameter_groups(loss)
    assert tuple(groups) == ALL
    ids = [id(p) for group in groups.values() for p in group]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in loss.parameters()}
    assert groups["alpha"] == [loss.log_alpha]


ORDERS = {
    "all at once": ({}, (LossStep(tuple(f"loss_{n}" for n in ALL), ALL), TargetStep())),
    "actor, critic, target": (
        {"order": ["actor", "qvalue", "target"]},
        (step("actor"), step("qvalue"), TargetStep()),
    ),
    "temperature, critic, actor, target": (
        {"order": ["alpha", "qvalue", "actor", "target"], "recompute": True},
        (step("alpha"), step("qvalue"), step("actor"), TargetStep()),
    ),
    "delayed actor and target": (
        {
            "order": ["alpha", "actor", "target", "qvalue"],
            "periods": {"actor": 2, "target": 2},
        },
        (step("alpha"), step("actor", 2), TargetStep(2), step("qvalue")),
    ),
}


@pytest.mark.parametrize(("options", "steps"), ORDERS.values(), ids=ORDERS)
def test_published_orders(options: dict[str, Any], steps: tuple) -> None:
    config = UpdateConfig(**options)
    assert not config.errors()
    update = make_update(make_loss(), config)
    assert update.steps == steps
    for _ in range(2):
        scalars = update(batch())
    trained = {name for step in steps if isinstance(step, LossStep) for name in step.optimizers}
    assert {name for name in ALL if f"grad_norm_{name}" in scalars} == trained


def test_a_value_network_has_a_group_of_its_own() -> None:
    loss = make_loss("value")
    update = make_update(loss, ValueUpdateConfig(lr_value=5e-4))
    assert tuple(update.optimizers) == ("actor", "qvalue", "value", "alpha")
    (group,) = update.optimizers["value"].param_groups
    assert group["lr"] == 5e-4
    assert group["params"] == list(loss.value_network_params.parameters())
    scalars = update(batch())
    assert {"loss_value", "grad_norm_value"} <= set(scalars)
    ((field, text),) = ValueUpdateConfig(order=["actor", "qvalue", "target"]).errors()
    assert (field, text) == ("order", "must also name 'value' for the policy to learn")


def test_steps_taken_at_once_and_forward_passes_from_some_steps_on() -> None:
    config = ValueUpdateConfig(
        order=["alpha", ["actor", "qvalue"], "target", "value"],
        periods={"target": 2},
        recompute=["actor"],
    )
    assert not config.errors()
    at_once = LossStep(("loss_actor", "loss_qvalue"), ("actor", "qvalue"), recompute=True)
    update = make_update(make_loss("value"), config)
    assert update.steps == (step("alpha"), at_once, TargetStep(2), step("value"))
    assert not update.recompute
