import torch
from torchrl.objectives import LossModule

from rlkit_sac.config import ValueUpdateConfig
from rlkit_sac.updates import LossStep, TargetStep
from tests.objectives.losses import own_loss
from tests.runs.recipe_updates import make_update


def make_loss(kind: str = "continuous") -> LossModule:
    torch.manual_seed(0)
    return own_loss(kind)


def step(name: str, period: int = 1) -> LossStep:
    return LossStep((f"loss_{name}",), (name,), period)


def test_steps_taken_at_once_and_forward_passes_from_some_steps_on() -> None:
    config = ValueUpdateConfig(
        order=["alpha", ["actor", "qvalue"], "target", "value"],
        periods={"target": 2},
        recompute=["actor"],
    )
    assert not list(config.errors())
    (error,) = ValueUpdateConfig(order=["actor", "qvalue", "target"]).errors()
    assert error == ("order", "must also name 'value' for the policy to learn")
    at_once = LossStep(("loss_actor", "loss_qvalue"), ("actor", "qvalue"), recompute=True)
    update = make_update(make_loss("value"), config)
    assert update.steps == (step("alpha"), at_once, TargetStep(2), step("value"))
    assert not update.recompute
