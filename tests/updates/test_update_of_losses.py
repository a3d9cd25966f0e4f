"""Updates of real losses against loops written out by hand, with the same draws."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss, HardUpdate, LossModule, SACLoss, SoftUpdate, TD3Loss

from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.updates import LossStep, TargetStep, Update
from tests.objectives.losses import make_batch
from tests.objectives.networks import make_data

LOSSES = ("loss_actor", "loss_qvalue", "loss_alpha")
JOINT = LossStep(LOSSES, ("all",))


def sac_batch(dtype: torch.dtype = torch.float32) -> TensorDict:
    return (make_batch if dtype == torch.float32 else make_data)("continuous", 16)


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(1)
    actor = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0], num_cells=[7, 5])
    return actor, state_action_critic(4, 2, num_cells=[7, 5])


def continuous_sac() -> LossModule:
    return ContinuousSACLoss(*networks())


def torchrl_sac() -> LossModule:
    loss = SACLoss(*networks(), num_qvalue_nets=3)
    loss.make_value_estimator(gamma=0.97)
    return loss


def adam(fused: bool) -> Callable[[list[Tensor]], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adam(parameters, lr=1e-2, fused=fused)


def everything(loss: LossModule) -> dict[str, Tensor]:
    """Parameters, targets and temperature."""
    return {name: value.detach().clone() for name, value in loss.state_dict().items()}


def assert_same(found: LossModule, wanted: LossModule, tolerance: float) -> None:
    states = everything(found), everything(wanted)
    torch.testing.assert_close(*states, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make_loss", [continuous_sac, torchrl_sac])
def test_a_joint_update_is_the_loop_one_would_write(make_loss, dtype, fused: bool) -> None:
    ours, theirs = make_loss().to(dtype), make_loss().to(dtype)
    start = everything(ours)
    assert_same(ours, theirs, 0)
    update = Update(
        ours,
        {"all": adam(fused)(list(ours.parameters()))},
        [JOINT, TargetStep()],
        target_updater=SoftUpdate(ours, tau=0.1),
    )
    torch.manual_seed(2)
    for _ in range(5):
        update(sac_batch(dtype))

    optimizer = adam(fused)(list(theirs.parameters()))
    targets = SoftUpdate(theirs, tau=0.1)
    torch.manual_seed(2)
    for _ in range(5):
        out = theirs(sac_batch(dtype))
        optimizer.zero_grad()
        sum(out[name] for name in LOSSES).backward()
        optimizer.step()
        targets.step()

    assert_same(ours, theirs, 1e-12 if dtype == torch.float64 else 1e-6)
    moved = {name for name, value in everything(ours).items() if not value.equal(start[name])}
    assert {name for name, _ in ours.named_parameters()} <= moved
    assert any(name.startswith("target_qvalue") for name in moved)


def test_only_scalars_of_a_loss_are_scalars_of_its_update() -> None:
    actor = TensorDictModule(nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])
    loss = TD3Loss(actor, networks()[1], bounds=(-1.0, 1.0))  # which returns state values, too
    step = LossStep(("loss_actor", "loss_qvalue"), ("all",))
    update = Update(
        loss,
        {"all": adam(False)(list(loss.parameters()))},
        [step, TargetStep()],
        target_updater=SoftUpdate(loss, tau=0.1),
    )
    assert update(sac_batch()).keys() == {"loss_actor", "loss_qvalue", "grad_norm_all"}


def test_it_runs_a_dqn_loss_of_torchrl() -> None:
    def make() -> DQNLoss:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        actor = QValueActor(network, in_keys=["observation"], action_space="one-hot")
        return DQNLoss(actor, action_space="one-hot", delay_value=True)

    def batch() -> TensorDict:
        data = sac_batch()
        data["action"] = nn.functional.one_hot(torch.randint(3, (16,)), 3)
        return data

    ours, theirs = make(), make()
    update = Update(
        ours,
        {"value": torch.optim.Adam(ours.parameters(), 1e-2)},
        [LossStep(("loss",), ("value",)), TargetStep(period=2)],
        target_updater=HardUpdate(ours, value_network_update_interval=1),
        max_grad_norm=0.5,
    )
    torch.manual_seed(2)
    for _ in range(5):
        update(batch())

    optimizer = torch.optim.Adam(theirs.parameters(), 1e-2)
    targets = HardUpdate(theirs, value_network_update_interval=1)
    torch.manual_seed(2)
    for number in range(1, 6):
        optimizer.zero_grad()
        theirs(batch())["loss"].backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimizer.step()
        if number % 2 == 0:
            targets.step()
    assert_same(ours, theirs, 1e-6)
