import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import state_action_critic
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.objectives.sac.critics import critic_list
from tests.objectives.networks import make_actor, make_critic

IN, OUT = ["observation", "action"], ["state_action_value"]


def critic(**options) -> TensorDictModule:
    return state_action_critic(3, 2, num_cells=[8], **options)


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p for name, p in module.named_parameters() if name.endswith("weight")}


def test_the_first_is_kept_and_the_others_start_elsewhere() -> None:
    first = critic()
    before = {name: p.clone() for name, p in first.named_parameters()}
    members = critic_list(first, 4)
    assert members[0] is first
    assert all(torch.equal(before[name], p) for name, p in first.named_parameters())
    for i in range(4):
        for j in range(i):
            for name, weight in weights(members[i]).items():
                assert (weight != weights(members[j])[name]).any()
    assert len({id(p) for member in members for p in member.parameters()}) == 4 * 4


def test_copies_are_drawn_from_the_distribution_of_the_layers() -> None:
    # nn.Linear draws weights and biases within 1 / sqrt(fan in).
    torch.manual_seed(0)
    for member in critic_list(nn.Linear(25, 400), 3):
        assert 0.19 < member.weight.abs().max() <= 0.2
        assert 0.19 < member.bias.abs().max() <= 0.2


def test_a_single_member_is_the_network_itself() -> None:
    first = critic()
    (only,) = critic_list(first, 1)
    assert only is first


@pytest.mark.parametrize("container", [list, tuple, nn.ModuleList])
def test_a_list_is_kept(container) -> None:
    members = [critic() for _ in range(3)]
    kept = critic_list(container(members), 2)  # 2 is the default, which a list overrules
    assert len(kept) == 3
    assert all(a is b for a, b in zip(kept, members, strict=True))
    assert critic_list(container(members), 3) == kept


def test_layers_without_parameters_need_no_reset() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.LayerNorm(4), nn.Linear(4, 1))
    first, second = critic_list(network, 2)
    assert (first[0].weight != second[0].weight).all()


@pytest.mark.parametrize("count", [0, -1])
def test_a_number_below_one_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"num_qvalue_nets must be at least 1, not {count}"):
        critic_list(critic(), count)


@pytest.mark.parametrize("empty", [[], nn.ModuleList()])
def test_an_empty_list_is_refused(empty) -> None:
    with pytest.raises(ConfigError, match="empty list: pass one critic, or one per member"):
        critic_list(empty, 2)


def test_a_number_that_contradicts_the_list_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="num_qvalue_nets is 4, but qvalue_network is a list of 3"
    ):
        critic_list([critic() for _ in range(3)], 4)


def test_the_same_module_twice_is_refused() -> None:
    first = critic()
    with pytest.raises(
        ConfigError, match=r"qvalue_network\[2\] shares parameters with qvalue_network\[0\]"
    ):
        critic_list([first, critic(), first], 2)


def test_a_shared_trunk_is_refused() -> None:
    trunk = nn.Linear(5, 8)
    members = [
        TensorDictModule(nn.Sequential(trunk, nn.ReLU(), nn.Linear(8, 1)), IN, OUT)
        for _ in range(2)
    ]
    with pytest.raises(ConfigError, match=r"\[1\] shares parameters with qvalue_network\[0\]"):
        critic_list(members, 2)


def test_another_width_is_refused() -> None:
    other = state_action_critic(3, 2, num_cells=[9])
    with pytest.raises(
        ConfigError, match=r"\[1\] is built differently .*has shape \(9, 5\), wanted \(8, 5\)"
    ):
        critic_list([critic(), other], 2)


def test_another_depth_is_refused() -> None:
    other = state_action_critic(3, 2, num_cells=[8, 8])
    with pytest.raises(ConfigError, match=r"qvalue_network\[1\] is built differently"):
        critic_list([critic(), other], 2)


def test_another_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"found '.*Tanh\(\)', wanted '.*ReLU\(\)'"):
        critic_list([critic(), critic(activation="tanh")], 2)


@pytest.mark.parametrize("single", [True, False])
def test_lazy_layers_are_refused(single: bool) -> None:
    def lazy() -> TensorDictModule:
        return TensorDictModule(nn.LazyLinear(1), ["observation"], OUT)

    name = "qvalue_network" if single else r"qvalue_network\[0\]"
    with pytest.raises(ConfigError, match=f"{name} has lazy layers .* call it once on a batch"):
        critic_list(lazy() if single else [lazy(), lazy()], 2)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x


def test_a_layer_that_cannot_be_initialized_afresh_is_refused() -> None:
    network = nn.Sequential(nn.Linear(3, 1), Scale())
    with pytest.raises(
        ConfigError, match=r"Scale at '1' of .*no reset_parameters\(\).*pass a list"
    ):
        critic_list(network, 2)
    with pytest.raises(ConfigError, match="Scale at 'the root' of qvalue_network"):
        critic_list(Scale(), 2)
    # There is nothing to draw for a single member, nor for a list.
    assert len(critic_list(network, 1)) == 1
    assert len(critic_list([Scale(), Scale()], 2)) == 2


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
