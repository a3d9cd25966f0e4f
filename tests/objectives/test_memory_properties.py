"""What rows tell a loss with memories, and what they do not."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import LossModule

from rlkit_sac.modules.memory import policy_states
from tests.objectives.comparison import assert_same, losses_of, results
from tests.objectives.losses import KINDS
from tests.objectives.memory_references import (
    SPECS,
    UNITS,
    loss_class,
    make_networks,
    make_rows,
    memory_of,
    with_nan,
)
from tests.objectives.prior_references import BOX

EVERY = ("actor", "critic", "value")


def make_loss(kind: str, cells: str = "gru", layers: int = 1, **options) -> LossModule:
    torch.manual_seed(0)
    networks = make_networks(kind, memory_of(kind, cells, layers))
    return loss_class(kind)(**networks, action_spec=SPECS[kind], alpha_init=0.3, **options)


def rows_of(kind: str, cells: str = "gru", layers: int = 1, stored=EVERY) -> TensorDict:
    torch.manual_seed(1)
    return make_rows(kind, memory_of(kind, cells, layers), stored=stored)


def call(loss: LossModule, data: TensorDict) -> dict[str, Tensor]:
    torch.manual_seed(2)
    return results(loss, data)


def states_in(data: TensorDict) -> list:
    return [key for key in data.keys() if "_state" in key]  # noqa: SIM118


# ------------------------------------------------------------------ what does not count


@pytest.mark.parametrize("cells", ["gru", "lstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_states_within_rows_and_what_is_remembered_after_a_step_are_not_read(kind, cells):
    loss, data = make_loss(kind, cells), rows_of(kind, cells)
    wanted = call(loss, data.exclude("begins"))
    other = with_nan(data)
    for key in states_in(data):
        other[key][:, 1:] = torch.nan
        other["next", key] = torch.full_like(data[key], torch.nan)
    other["next", "is_init"] = ~data["is_init"]
    assert_same(call(loss, other), wanted, rtol=0, atol=0)


def test_an_earlier_step_counts_until_an_episode_ends() -> None:
    """By the loss of each step, for a change of the observation in the step before it."""
    loss = make_loss("boltzmann", reduction="none", scalar_output_mode="exclude")
    data = rows_of("boltzmann").exclude("begins")
    wanted = loss(data.clone())["loss_qvalue"]
    for row in range(len(data)):
        for t in range(data.shape[1]):
            other = data.clone()
            other["observation"][row, t] += 1.0
            changed = (loss(other)["loss_qvalue"] != wanted)[row].nonzero().flatten().tolist()
            valid = data["collector", "mask"][row]
            reach = [t] if valid[t] else []
            for later in range(t + 1, 7):
                before = later - 1
                ends = data["next", "done"][row, before] | data["is_init"][row, later]
                if ends or not (valid[before] and valid[later]):
                    break
                reach.append(later)
            assert changed == reach, (row, t)


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("burn_in", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_flows_through_starts_and_the_burn_in(kind: str, burn_in: int) -> None:
    loss, data = make_loss(kind, "lstm", burn_in=burn_in), rows_of(kind, "lstm")
    data = data.exclude("begins")
    leaves = [data["observation"], *(data[key] for key in states_in(data))]
    for leaf in leaves:
        leaf.requires_grad_()
    sum(losses_of(loss(data.copy())).values()).backward()
    observed = leaves[0].grad
    assert not observed[:, :burn_in].any()
    assert observed[0, burn_in:].any(-1).all()
    assert all(leaf.grad is None or not leaf.grad.any() for leaf in leaves[1:])


@pytest.mark.parametrize("kind", ["boltzmann", "categorical"])
def test_steps_after_a_burn_in_have_the_same_losses_without_one(kind: str) -> None:
    options = {"reduction": "none", "scalar_output_mode": "exclude"}
    with_burn_in, without = make_loss(kind, burn_in=3, **options), make_loss(kind, **options)
    without.load_state_dict(with_burn_in.state_dict())
    data = rows_of(kind).exclude("begins")
    found, wanted = with_burn_in(data.clone()), without(data.clone())
    for name, value in losses_of(found).items():
        assert not value[:, :3].any()
        torch.testing.assert_close(value[:, 3:], wanted[name][:, 3:], rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ rows of one step


class StateReader(nn.Module):
    """A network without memory, which computes what one remembers from an entry with its state."""

    def __init__(self, cells: nn.GRU, net: nn.Module) -> None:
        super().__init__()
        self.cells, self.net = cells, net

    def forward(self, observation: Tensor, before: Tensor, state: Tensor, *others: Tensor):
        x, h, cells = torch.cat([observation, before], -1), state[..., 0, :], self.cells
        of_inputs = x @ cells.weight_ih_l0.mT + cells.bias_ih_l0
        of_state = h @ cells.weight_hh_l0.mT + cells.bias_hh_l0
        r, z = (of_inputs + of_state)[..., : 2 * UNITS].sigmoid().chunk(2, -1)
        n = (of_inputs[..., 2 * UNITS :] + r * of_state[..., 2 * UNITS :]).tanh()
        return self.net(torch.cat([(1 - z) * n + z * h, x, *others], -1))


def test_a_row_of_one_step_is_a_transition_of_a_network_that_reads_the_state() -> None:
    """With the state after the step, as the networks write it, for the next state."""
    torch.manual_seed(0)
    memory = memory_of("continuous", "gru", 1)
    networks = make_networks("continuous", memory, critics=1)
    actor, (critic,) = networks["actor_network"], networks["qvalue_network"]
    plain = {}
    for name, network, owner in (("actor", actor.module[0], "actor"), ("q", critic, "critic")):
        _, cells, head = deepcopy(list(network.module))
        others = [key for key in head.in_keys if key == "action"]
        reads = ["observation", "prev_action", f"{owner}_state", *others]
        plain[name] = TensorDictModule(StateReader(cells.gru, head.module), reads, head.out_keys)
    flat_actor = ProbabilisticTensorDictSequential(plain["actor"], deepcopy(actor.module[-1]))
    options = {"action_spec": BOX}
    loss = loss_class("continuous")(**networks, **options)
    of_plain = loss_class("continuous")(flat_actor, [plain["q"]], **options)

    data = make_rows("continuous", memory, critics=1, stored=("actor", "critic"))[:, :1]
    data = data.exclude("begins", "collector").clone()
    data["is_init"].zero_()
    data["critic_state"] = data["critic_state"].squeeze(2)
    flat = data.clone()
    flat["next", "prev_action"] = flat["action"]
    for network, key in ((actor, "actor_state"), (critic, "critic_state")):
        with torch.no_grad():
            flat["next", key] = network(data.exclude("next"))["next", key]
    found, wanted = call(loss, data), call(of_plain, flat.reshape(-1))
    wanted["td_error"] = wanted["td_error"].reshape(data.shape)
    for each, other in (
        ("module.0.module.1.gru", "module.0.module.cells"),
        ("module.0.module.2.module", "module.0.module.net"),
        ("module.1.gru", "module.cells"),
        ("module.2.module", "module.net"),
    ):
        found = {key.replace(each, other): value for key, value in found.items()}
    assert_same(found, wanted)


# ------------------------------------------------------------------ the first step of a row


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_that_sets_is_init_at_the_first_steps_changes_nothing(kind: str) -> None:
    loss, data = make_loss(kind), rows_of(kind).exclude("begins")
    data["is_init"][:, 0] = False
    data["is_init"][3, 0] = True  # where an episode does begin
    wanted = call(loss, data)
    data["is_init"][:, 0] = True
    assert_same(call(loss, data), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "hybrid"])
def test_a_previous_index_of_zero_is_told_from_the_beginning_of_an_episode(kind: str) -> None:
    """By the stored state, which is zero at the beginning of an episode only."""
    loss, data = make_loss(kind), rows_of(kind).exclude("begins")
    data["prev_action"][:, 0] = torch.zeros_like(data["prev_action"][:, 0])
    data["is_init"][:, 0] = False
    wanted = call(loss, data)
    data["is_init"][[0, 1, 2, 5], 0] = True
    assert_same(call(loss, data), wanted, rtol=0, atol=0)
    if kind != "continuous":
        data["is_init"][3, 0] = True
        assert call(loss, data)["loss_qvalue"] != wanted["loss_qvalue"]


# ------------------------------------------------------------------ TorchRL's contract


@pytest.mark.parametrize("cells", ["gru", "lstm"])
@pytest.mark.parametrize("kind", ["boltzmann", "categorical"])
def test_rows_that_begin_with_an_acting_policys_state_are_parts_of_longer_ones(kind, cells) -> None:
    options = {"reduction": "none", "scalar_output_mode": "exclude"}
    loss = make_loss(kind, cells, 2, **options)
    data = rows_of(kind, cells, 2, stored=())[:3]
    data["is_init"] = data.pop("begins")
    policy, carried = loss.policy(), []
    states = policy_states(policy)
    now = {key: torch.zeros(3, *shape).double() for key, shape in states.items()}
    for step in data.exclude("action", "next").unbind(1):
        for value in now.values():  # as collectors do
            value[step["is_init"].squeeze(-1)] = 0.0
        carried.append(now)
        with torch.no_grad():
            out = policy(step.clone().update(now))
        now = {key: out["next", key] for key in states}
    for key in states:
        data[key] = torch.stack([each[key] for each in carried], 1)
    whole, part = loss(data.clone()), loss(data[:, 3:].clone())
    names = ["loss_alpha", "loss_qvalue"] if kind == "boltzmann" else ["loss_alpha"]
    for name in names:
        torch.testing.assert_close(part[name], whole[name][:, 3:], rtol=1e-12, atol=1e-12)
