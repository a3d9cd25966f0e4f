"""Networks that do not fit a loss are refused by name; copies of critics differ."""

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import action_value_critic, state_action_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.losses import (
    CONTINUOUS,
    Joined,
    box_actor,
    foreign_actor,
    make_batch,
    own_loss,
)
from tests.objectives.networks import make_actor


def critic_of(inputs: int, outputs, reads: list, writes: str = "action_value") -> TensorDictModule:
    net = MLP(in_features=inputs, out_features=outputs, num_cells=[16])
    return TensorDictModule(Joined(net), reads, [writes])


BAD_NETWORKS = {
    "another key": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, 3, ["observation"], "q")),
        r"writes \['q'\], not 'action_value': .*set_keys\(action_value=...\)",
    ),
    "wrong dimensions": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, torch.Size([3, 2, 2]), ["observation"])),
        "wanted .* and K values",
    ),
    "other number of actions": (
        "boltzmann",
        lambda: own_loss("boltzmann", action_spec=Categorical(4)),
        "values of 3 discrete actions, but the action spec has 4",
    ),
    "hybrid critic without c": (
        "hybrid",
        lambda: HybridSACLoss(
            box_actor(action_key=CONTINUOUS), action_value_critic(4, 3, num_cells=[16])
        ),
        r"not the continuous action \('action', 'continuous'\)",
    ),
    "another key of Q(s, a)": (
        "continuous",
        lambda: ContinuousSACLoss(foreign_actor(), critic_of(6, 1, ["observation", "action"], "q")),
        r"writes \['q'\], not 'state_action_value'",
    ),
    "critic without the action": (
        "continuous",
        lambda: ContinuousSACLoss(
            foreign_actor(), critic_of(4, 1, ["observation"], "state_action_value")
        ),
        "not the action 'action'",
    ),
}


@pytest.mark.parametrize(("kind", "build", "message"), BAD_NETWORKS.values(), ids=BAD_NETWORKS)
def test_networks_that_do_not_fit_are_refused(kind, build, message):
    with pytest.raises(BatchError, match=message):
        build()(make_batch(kind, 5))


def test_batch_norm_is_refused():
    critic = TensorDictModule(
        Joined(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))),
        in_keys=["observation", "action"],
        out_keys=["state_action_value"],
    )
    with pytest.raises(ConfigError, match=r"BatchNorm1d at 'module.net.1'.*LayerNorm"):
        ContinuousSACLoss(foreign_actor(), critic)


# ------------------------------------------------------------------ copies of critics


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
