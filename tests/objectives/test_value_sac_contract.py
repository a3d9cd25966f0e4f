"""The loss with a value network as a part of TorchRL: its keys, its targets, its refusals."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import HardUpdate, SACLoss, SoftUpdate

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import state_action_critic, state_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ValueSACLoss

LOSSES = ("loss_actor", "loss_qvalue", "loss_alpha", "loss_value")


def own_loss(reward_dim: int = 1, **options) -> ValueSACLoss:
    sizes = {"num_cells": [16], "reward_dim": reward_dim}
    return ValueSACLoss(
        tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0], num_cells=[16]),
        state_action_critic(4, 2, **sizes),
        state_critic(4, **sizes),
        **options,
    )


def batch(*shape: int) -> TensorDict:
    ends = torch.rand(*shape, 1)
    return TensorDict(
        observation=torch.randn(*shape, 4),
        action=torch.rand(*shape, 2) * 2 - 1,
        next=TensorDict(
            observation=torch.randn(*shape, 4),
            reward=torch.randn(*shape, 1),
            done=ends < 0.4,
            terminated=ends < 0.2,
            batch_size=shape,
        ),
        batch_size=shape,
    )


def test_the_critic_loss_is_torchrls_with_one_critic():
    """With two, theirs shows each critic one half of the batch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=Bounded(-1, 1, (2,)),
        distribution_class=TanhNormal,
    )
    critic = state_action_critic(4, 2, num_cells=[16])
    value = ValueOperator(nn.Linear(4, 1), in_keys=["observation"])
    theirs = SACLoss(actor, [critic], value, num_qvalue_nets=1, loss_function="l2", alpha_init=0.3)
    ours = ValueSACLoss(actor, [critic], value, alpha_init=0.3, target_entropy="neg_dim")
    theirs.make_value_estimator(gamma=0.9)
    ours.make_value_estimator(gamma=0.9)
    data, outs = batch(12), []
    for loss in (theirs, ours):
        torch.manual_seed(1)
        outs.append(loss(data.clone()))
    torch.testing.assert_close(outs[1]["loss_qvalue"], outs[0]["loss_qvalue"])


def test_only_the_value_network_has_a_target():
    torch.manual_seed(0)
    loss = own_loss()
    names = {name.split(".")[0] for name, _ in loss.named_buffers()}
    assert names == {"target_value_network_params"}
    updater = SoftUpdate(loss, tau=0.25)
    before = loss.target_value_network_params.data.clone()
    for p in loss.parameters():
        p.data.add_(1.0)
    updater.step()
    moved = loss.target_value_network_params
    assert all(torch.allclose(moved[key], before[key] + 0.25) for key in before.keys(True, True))
    HardUpdate(loss, value_network_update_interval=1).step()


def test_the_batch_gains_its_priority_and_nothing_else():
    loss, data = own_loss(), batch(5)
    before = data.clone()
    loss(data)
    assert set(data.keys(True, True)) == {*before.keys(True, True), "td_error"}
    assert (data.exclude("td_error") == before).all()


def test_what_is_returned_is_declared():
    loss = own_loss(diagnostics=True)
    out = loss(batch(8))
    assert set(out.keys()) == set(loss.out_keys)
    assert out["v_min"] <= out["v_mean"] <= out["v_max"]
    assert own_loss().out_keys[:4] == ["loss_actor", "loss_qvalue", "loss_alpha", "loss_value"]


def test_copies_and_pickles_give_the_same_numbers():
    torch.manual_seed(0)
    loss, data = own_loss(normalize_entropy_reward=True), batch(5)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        found = []
        for each in (copy.deepcopy(loss), other):
            torch.manual_seed(1)
            found.append(each(data.clone()))
        assert all(torch.equal(found[0][name], found[1][name]) for name in LOSSES)
    fresh = own_loss(normalize_entropy_reward=True)
    fresh.load_state_dict(loss.state_dict())


def test_another_value_key_and_inputs_of_its_own():
    torch.manual_seed(0)
    value = TensorDictModule(nn.Linear(7, 1), in_keys=["privileged"], out_keys=["v"])
    loss = ValueSACLoss(
        tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0]), state_action_critic(4, 2), value
    )
    loss.set_keys(value="v")
    assert {"privileged", ("next", "privileged")} <= set(loss.in_keys)
    data = batch(5)
    data["privileged"], data["next", "privileged"] = torch.randn(2, 5, 7)
    assert loss(data)["loss_value"].isfinite()
    with pytest.raises(BatchError, match="privileged"):
        loss(batch(5))


def test_a_trunk_shared_with_the_actor_becomes_a_copy():
    torch.manual_seed(0)
    trunk = nn.Linear(4, 8)
    head = nn.Sequential(trunk, nn.Linear(8, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(head, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=Bounded(-1, 1, (2,)),
        distribution_class=TanhNormal,
    )
    value = TensorDictModule(
        nn.Sequential(trunk, nn.Linear(8, 1)), in_keys=["observation"], out_keys=["state_value"]
    )
    loss = ValueSACLoss(actor, state_action_critic(4, 2, num_cells=[8]), value)
    loss(batch(6))["loss_value"].backward()
    assert all(p.grad is None for p in loss.actor_network_params.parameters())
    assert all(p.grad.any() for p in loss.value_network_params.parameters())


def wrapped(module: nn.Module, inputs=("observation",), output="state_value") -> TensorDictModule:
    return TensorDictModule(module, in_keys=list(inputs), out_keys=[output])


class Joint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 1)

    def forward(self, observation, action):
        return self.net(torch.cat([observation, action], -1))


REFUSED = {
    "bare": (lambda: nn.Linear(4, 1), ConfigError, "Linear without in_keys"),
    "lazy": (lambda: wrapped(nn.LazyLinear(1)), ConfigError, "value_network has lazy layers"),
    "batch norm": (
        lambda: wrapped(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))),
        ConfigError,
        "value_network has a BatchNorm1d",
    ),
    "reads the action": (
        lambda: wrapped(Joint(), ("observation", "action")),
        BatchError,
        "and so the action 'action'",
    ),
    "other key": (
        lambda: wrapped(nn.Linear(4, 1), output="v"),
        BatchError,
        r"value_network writes \['v'\], not 'state_value'.*set_keys\(value=...\)",
    ),
    "two values": (
        lambda: wrapped(nn.Linear(4, 2)),
        BatchError,
        r"value_network wrote values of the shape \[5, 2\], wanted \[5, 1\]",
    ),
}


@pytest.mark.parametrize(("network", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_value_networks_that_cannot_be_are_refused(network, error, message):
    actor = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(error, match=message):
        ValueSACLoss(actor, state_action_critic(4, 2), network())(batch(5))


def test_evaluation_mode_reaches_the_value_network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    actor = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0])
    loss, data = ValueSACLoss(actor, state_action_critic(4, 2), wrapped(net)), batch(16)

    def qvalue(seed: int) -> float:
        torch.manual_seed(seed)
        return loss(data.clone())["loss_qvalue"].item()  # draws nothing but dropout

    assert qvalue(1) != qvalue(2)
    loss.eval()
    assert qvalue(1) == qvalue(2)


def test_a_fixed_regression_problem_is_learned():
    torch.manual_seed(0)
    loss, data, history = own_loss(), batch(64), []
    updater = SoftUpdate(loss, tau=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), 3e-3)
    data["next", "terminated"][:] = True
    for _ in range(300):
        out = loss(data)
        sum(out[name] for name in LOSSES).backward()
        optimizer.step()
        optimizer.zero_grad()
        updater.step()
        history.append(out["loss_qvalue"].item())
    assert history[-1] < 0.3 * history[0]
