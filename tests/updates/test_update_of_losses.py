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
from rlkit_sac.runs.files import join_state, split_state
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


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_an_ordered_update_is_the_loop_one_would_write(fused: bool, recompute: bool) -> None:
    order = ("alpha", "qvalue", "actor")
    prefixes = {
        "actor": "actor_network_params",
        "qvalue": "qvalue_network_params",
        "alpha": "log_alpha",
    }

    def groups(loss: LossModule) -> dict[str, list[Tensor]]:
        return {
            name: [p for key, p in loss.named_parameters() if key.startswith(prefix)]
            for name, prefix in prefixes.items()
        }

    ours, theirs = continuous_sac().double(), continuous_sac().double()
    make = adam(fused)
    update = Update(
        ours,
        {name: make(parameters) for name, parameters in groups(ours).items()},
        [*(LossStep((f"loss_{name}",), (name,)) for name in order), TargetStep()],
        target_updater=SoftUpdate(ours, tau=0.1),
        recompute=recompute,
    )
    torch.manual_seed(2)
    for _ in range(5):
        update(sac_batch(torch.float64))

    parameters = groups(theirs)
    optimizers = {name: make(own) for name, own in parameters.items()}
    targets = SoftUpdate(theirs, tau=0.1)
    torch.manual_seed(2)
    for _ in range(5):
        batch = sac_batch(torch.float64)
        if not recompute:
            # Every loss trains its own parameters alone, so one backward gives each its gradient.
            theirs.zero_grad()
            out = theirs(batch)
            sum(out[name] for name in LOSSES).backward()
        for name in order:
            if recompute:
                theirs.zero_grad()
                theirs(batch)[f"loss_{name}"].backward()
            optimizers[name].step()
        targets.step()
    assert_same(ours, theirs, 1e-12)


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


@pytest.mark.parametrize("period", [1, 3])
def test_an_update_goes_on_where_its_state_was(period):
    def make():
        torch.manual_seed(0)
        loss = ContinuousSACLoss(*networks())
        steps = [LossStep(LOSSES, ("all",)), TargetStep(period)]
        adam = torch.optim.Adam(loss.parameters(), 1e-2, fused=True)
        return loss, Update(loss, {"all": adam}, steps, target_updater=SoftUpdate(loss, tau=0.1))

    loss, update = make()
    for _ in range(4):
        update(sac_batch())
    state = join_state(*split_state({"loss": loss.state_dict(), "update": update.state_dict()}))
    torch.manual_seed(1)
    for _ in range(3):
        update(sac_batch())
    again, further = make()
    again.load_state_dict(state["loss"])
    further.load_state_dict(state["update"])
    assert further.count == 4
    torch.manual_seed(1)
    for _ in range(3):
        further(sac_batch())
    assert_same(again, loss, 0)
