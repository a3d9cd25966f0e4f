"""What a loss does with its networks: modes, shared trunks, dropout, lists."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.modules import action_value_critic, state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.losses import Joined, foreign_actor, make_batch


def test_a_single_critic_and_a_list_keep_their_weights():
    critics = [action_value_critic(4, 3, num_cells=[16]) for _ in range(3)]
    loss = DiscreteSACLoss(critics)
    first = loss.qvalue_network_params["module", "0", "weight"]
    for i, critic in enumerate(critics):
        assert torch.equal(first[i], critic.module[0].weight)
    alone = DiscreteSACLoss(critics[0], num_qvalue_nets=1)
    assert torch.equal(
        alone.qvalue_network_params["module", "0", "weight"][0], critics[0].module[0].weight
    )


def test_dropout_and_layer_norm_in_critics():
    torch.manual_seed(0)

    def critic():
        net = nn.Sequential(
            nn.Linear(6, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1)
        )
        return TensorDictModule(
            Joined(net), in_keys=["observation", "action"], out_keys=["state_action_value"]
        )

    loss = ContinuousSACLoss(foreign_actor(), critic())
    data = make_batch("continuous", 32)
    out = loss(data)
    out["loss_qvalue"].backward()
    assert all(p.grad.abs().sum() > 0 for p in loss.qvalue_network_params.parameters())
    torch.manual_seed(1)
    first = loss(data.clone())["loss_qvalue"]
    torch.manual_seed(2)
    assert loss(data.clone())["loss_qvalue"] != first


def test_evaluation_mode_reaches_the_networks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    critic = TensorDictModule(
        Joined(net), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )
    loss, data = ContinuousSACLoss(foreign_actor(), critic).eval(), make_batch("continuous", 16)
    torch.manual_seed(1)
    first = loss(data.clone())["loss_qvalue"]
    loss.set_vmap_randomness("error")  # nothing random is left in the critics
    torch.manual_seed(1)
    assert loss(data.clone())["loss_qvalue"] == first


def test_evaluation_mode_reaches_the_value_network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    actor = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0])
    loss, data = (
        ContinuousSACLoss(
            actor,
            state_action_critic(4, 2),
            TensorDictModule(net, ["observation"], ["state_value"]),
        ),
        make_batch("value", 16),
    )

    def qvalue(seed: int) -> float:
        torch.manual_seed(seed)
        return loss(data.clone())["loss_qvalue"].item()  # draws nothing but dropout

    assert qvalue(1) != qvalue(2)
    loss.eval()
    assert qvalue(1) == qvalue(2)


def test_a_trunk_shared_with_the_actor_leaves_the_critics_a_gradient():
    torch.manual_seed(0)
    trunk = nn.Linear(4, 8)

    class Shared(nn.Module):
        def __init__(self, outputs: int, extra: int) -> None:
            super().__init__()
            self.trunk, self.head = trunk, nn.Linear(8 + extra, outputs)

        def forward(self, observation, *rest):
            return self.head(torch.cat([self.trunk(observation), *rest], -1))

    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(Shared(4, 0), NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=Bounded(-1.0, 1.0, (2,)),
        distribution_class=TanhNormal,
    )
    critic = TensorDictModule(
        Shared(1, 2), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )
    loss = ContinuousSACLoss(actor, critic)
    loss(make_batch("continuous", 6))["loss_qvalue"].backward()
    for p in loss.qvalue_network_params.parameters():
        assert p.grad is not None
        assert p.grad.abs().sum() > 0


def test_a_trunk_of_the_value_network_shared_with_the_actor_becomes_a_copy():
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
    loss = ContinuousSACLoss(actor, state_action_critic(4, 2, num_cells=[8]), value)
    loss(make_batch("value", 6))["loss_value"].backward()
    assert all(p.grad is None for p in loss.actor_network_params.parameters())
    assert all(p.grad.any() for p in loss.value_network_params.parameters())
