import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import state_action_critic
from rlkit_sac.objectives import ContinuousSACLoss
from tests.objectives.networks import make_actor, make_critic

IN, OUT = ["observation", "action"], ["state_action_value"]


def critic(**options) -> TensorDictModule:
    return state_action_critic(3, 2, num_cells=[8], **options)


def members(network, count: int = 2) -> list[dict[str, torch.Tensor]]:
    """The parameters of each critic of a loss."""
    loss = ContinuousSACLoss(make_actor(), network, num_qvalue_nets=count)
    stacked = loss.qvalue_network_params.flatten_keys(".")
    return [{name: p[i] for name, p in stacked.items()} for i in range(loss.num_qvalue_nets)]


def wrapped(network: nn.Module) -> TensorDictModule:
    return TensorDictModule(network, IN, OUT)


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


def test_copies_are_drawn_from_the_distribution_of_the_layers() -> None:
    # nn.Linear draws weights and biases within 1 / sqrt(fan in).
    torch.manual_seed(0)
    for member in members(wrapped(nn.Linear(25, 400)), 3):
        assert 0.19 < member["module.weight"].abs().max() <= 0.2
        assert 0.19 < member["module.bias"].abs().max() <= 0.2


def test_a_single_member_is_the_network_itself() -> None:
    first = critic()
    (only,) = members(first, 1)
    assert_kept(only, first)


@pytest.mark.parametrize("container", [list, tuple, nn.ModuleList])
def test_a_list_is_kept(container) -> None:
    networks = [critic() for _ in range(3)]
    for count in (2, 3):  # 2 is the default, which a list overrules
        kept = members(container(networks), count)
        assert len(kept) == 3
        for member, network in zip(kept, networks, strict=True):
            assert_kept(member, network)


def test_layers_without_parameters_need_no_reset() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.LayerNorm(4), nn.Linear(4, 1))
    first, second = members(wrapped(network), 2)
    assert (first["module.0.weight"] != second["module.0.weight"]).all()


@pytest.mark.parametrize("count", [0, -1])
def test_a_number_below_one_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"num_qvalue_nets must be at least 1, not {count}"):
        members(critic(), count)


@pytest.mark.parametrize("empty", [[], nn.ModuleList()])
def test_an_empty_list_is_refused(empty) -> None:
    with pytest.raises(ConfigError, match="empty list: pass one critic, or one per member"):
        members(empty, 2)


def test_a_number_that_contradicts_the_list_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="num_qvalue_nets is 4, but qvalue_network is a list of 3"
    ):
        members([critic() for _ in range(3)], 4)


def test_the_same_module_twice_is_refused() -> None:
    first = critic()
    with pytest.raises(
        ConfigError, match=r"qvalue_network\[2\] shares parameters with qvalue_network\[0\]"
    ):
        members([first, critic(), first], 2)


def test_a_shared_trunk_is_refused() -> None:
    trunk = nn.Linear(5, 8)
    networks = [
        TensorDictModule(nn.Sequential(trunk, nn.ReLU(), nn.Linear(8, 1)), IN, OUT)
        for _ in range(2)
    ]
    with pytest.raises(ConfigError, match=r"\[1\] shares parameters with qvalue_network\[0\]"):
        members(networks, 2)


def test_another_width_is_refused() -> None:
    other = state_action_critic(3, 2, num_cells=[9])
    with pytest.raises(
        ConfigError,
        match=r"\[1\] is built differently .*of shape \(9, 5\), .* \(8, 5\)",
    ):
        members([critic(), other], 2)


def test_another_depth_is_refused() -> None:
    other = state_action_critic(3, 2, num_cells=[8, 8])
    with pytest.raises(ConfigError, match=r"qvalue_network\[1\] is built differently"):
        members([critic(), other], 2)


def test_another_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the layer 'module.1' is Tanh, wanted ReLU"):
        members([critic(), critic(activation="tanh")], 2)


@pytest.mark.parametrize("single", [True, False])
def test_lazy_layers_are_refused(single: bool) -> None:
    def lazy() -> TensorDictModule:
        return TensorDictModule(nn.LazyLinear(1), ["observation"], OUT)

    name = "qvalue_network" if single else r"qvalue_network\[0\]"
    with pytest.raises(ConfigError, match=f"{name} has lazy layers .* call it once on a batch"):
        members(lazy() if single else [lazy(), lazy()], 2)


class Scale(nn.Module):
    in_keys, out_keys = IN, OUT

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x


def test_a_layer_that_cannot_be_initialized_afresh_is_refused() -> None:
    network = wrapped(nn.Sequential(nn.Linear(3, 1), Scale()))
    with pytest.raises(
        ConfigError, match=r"Scale at 'module.1' of .*no reset_parameters\(\).*pass a list"
    ):
        members(network, 2)
    with pytest.raises(ConfigError, match="Scale at 'the root' of qvalue_network"):
        members(Scale(), 2)
    # There is nothing to draw for a single member, nor for a list.
    assert len(members(network, 1)) == 1
    assert len(members([Scale(), Scale()], 2)) == 2


def test_the_loss_evaluates_each_member_with_its_own_weights() -> None:
    torch.manual_seed(0)
    members = [make_critic() for _ in range(3)]
    frozen = [[p.detach().clone() for p in member.parameters()] for member in members]
    loss = ContinuousSACLoss(make_actor(), nn.ModuleList(members))
    assert loss.num_qvalue_nets == 3
    for params in (loss.qvalue_network_params, loss.target_qvalue_network_params):
        for i in range(3):
            assert torch.equal(params["module", "net", "0", "weight"][i], frozen[i][0])
            assert torch.equal(params["module", "net", "2", "bias"][i], frozen[i][3])
