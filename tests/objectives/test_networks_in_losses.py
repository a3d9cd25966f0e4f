"""What a loss does with its networks: modes, shared trunks, dropout, lists."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.modules import action_value_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.losses import make_batch


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
