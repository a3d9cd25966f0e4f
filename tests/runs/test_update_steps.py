import torch
from tensordict import TensorDict
from torchrl.objectives import LossModule

from rlkit_sac.config import ValueUpdateConfig
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
    assert not list(config.errors())
    at_once = LossStep(("loss_actor", "loss_qvalue"), ("actor", "qvalue"), recompute=True)
    update = make_update(make_loss("value"), config)
    assert update.steps == (step("alpha"), at_once, TargetStep(2), step("value"))
    assert not update.recompute
