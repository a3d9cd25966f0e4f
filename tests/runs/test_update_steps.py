import pytest
import torch
from torchrl.objectives import LossModule

from rlkit_sac.config import UpdateConfig, ValueUpdateConfig
from rlkit_sac.runs import update_steps
from rlkit_sac.updates import LossStep, TargetStep
from tests.objectives.losses import make_batch, own_loss
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


JOINT = ["joint", "target"]
APART = ["qvalue", "target", "actor", "alpha"]


@pytest.mark.parametrize("order", [JOINT, APART], ids=["joint", "apart"])
@pytest.mark.parametrize("kind", ["continuous", "hybrid", "categorical", "boltzmann"])
def test_the_actor_starts_after_its_frames_and_the_critics_before(kind: str, order: list) -> None:
    """Frame 3 has made 6 updates; the temperature alone waits where the critics are the policy."""
    loss = make_loss(kind)
    update = make_update(loss, UpdateConfig(order=order, actor_starts=3, utd_ratio=2.0))
    batch, states = make_batch(kind, 8), [loss.state_dict()]
    for _ in range(8):
        states[-1] = {name: value.clone() for name, value in states[-1].items()}
        update(batch.clone())
        states.append(loss.state_dict())
        for name, value in states[-1].items():
            waits = name.startswith(("actor_network", "log_alpha")) and update.count <= 6
            still = waits or not value.is_floating_point()
            assert torch.equal(value, states[-2][name]) == still, (name, update.count)


def test_updates_before_the_start_are_counted_from_the_first_one() -> None:
    config = UpdateConfig(order=JOINT, actor_starts=50, utd_ratio=0.5)
    critics = LossStep(("loss_qvalue",), ("qvalue",))
    late = LossStep(("loss_actor", "loss_alpha"), ("actor", "alpha"), start=15)
    groups = ["actor", "qvalue", "alpha"]
    assert update_steps(config, groups, learning_starts=20) == [critics, late, TargetStep()]
    whole = LossStep(("loss_actor", "loss_qvalue", "loss_alpha"), tuple(groups))
    assert update_steps(config, groups, learning_starts=50) == [whole, TargetStep()]
