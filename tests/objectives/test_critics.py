import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import state_action_critic
from rlkit_sac.objectives import ContinuousSACLoss
from tests.objectives.losses import make_batch
from tests.objectives.networks import make_actor

IN, OUT = ["observation", "action"], ["state_action_value"]


def critic(**options) -> TensorDictModule:
    return state_action_critic(3, 2, num_cells=[8], **options)


def members(network, count: int = 2) -> list[dict[str, torch.Tensor]]:
    """The parameters of each critic of a loss."""
    loss = ContinuousSACLoss(make_actor(), network, num_qvalue_nets=count)
    stacked = loss.qvalue_network_params.flatten_keys(".")
    return [{name: p[i] for name, p in stacked.items()} for i in range(loss.num_qvalue_nets)]


def assert_kept(member: dict[str, torch.Tensor], network: nn.Module) -> None:
    """A critic's parameters are those of a network."""
    assert member.keys() == dict(network.named_parameters()).keys()
    assert all(torch.equal(member[name], p) for name, p in network.named_parameters())


def test_the_first_is_kept_and_the_others_start_elsewhere() -> None:
    first = critic()
    before = {name: p.clone() for name, p in first.named_parameters()}
    found = members(first, 4)
    assert len(found) == 4
    assert_kept(found[0], first)
    assert all(torch.equal(before[name], p) for name, p in first.named_parameters())
    for i in range(4):
        for j in range(i):
            for name, weight in found[i].items():
                assert not name.endswith("weight") or (weight != found[j][name]).any()


def test_a_shared_trunk_is_refused() -> None:
    trunk = nn.Linear(5, 8)
    networks = [
        TensorDictModule(nn.Sequential(trunk, nn.ReLU(), nn.Linear(8, 1)), IN, OUT)
        for _ in range(2)
    ]
    with pytest.raises(ConfigError, match=r"\[1\] shares parameters with qvalue_network\[0\]"):
        members(networks, 2)


def test_a_trunk_shared_with_the_actor_leaves_the_critics_a_gradient() -> None:
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
    loss = ContinuousSACLoss(actor, TensorDictModule(Shared(1, 2), IN, OUT))
    loss(make_batch("continuous", 6))["loss_qvalue"].backward()
    for p in loss.qvalue_network_params.parameters():
        assert p.grad is not None
        assert p.grad.abs().sum() > 0


def test_another_width_is_refused() -> None:
    other = state_action_critic(3, 2, num_cells=[9])
    with pytest.raises(
        ConfigError,
        match=r"\[1\] is built differently .*of shape \(9, 5\), .* \(8, 5\)",
    ):
        members([critic(), other], 2)
