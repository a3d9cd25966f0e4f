"""What rows tell a loss with memories, and what they do not."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import Tensor, nn
from torchrl.modules import GRUModule, LSTMModule, ProbabilisticActor
from torchrl.objectives import LossModule

from rlkit_sac.errors import BatchError, ConfigError
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


@pytest.mark.parametrize("worth", [torch.nan, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_episodes_that_end_in_the_burn_in_do_not_count(kind: str, worth: float) -> None:
    """Rows 1 and 2 begin another episode within their first three steps."""
    loss, data = make_loss(kind, burn_in=3), rows_of(kind).exclude("begins")
    wanted = call(loss, data)
    for row, last in ((1, 2), (2, 1)):
        data["observation"][row, : last + 1] = worth
        data["next", "observation"][row, : last + 1] = worth
        data["next", "reward"][row, :3] = worth
        for key in states_in(data):
            data[key][row, 0] = worth
    assert_same(call(loss, data), wanted, rtol=0, atol=0)


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


@pytest.mark.parametrize("kind", ["continuous", "categorical", "hybrid", "value"])
def test_losses_that_are_computed_alone_are_those_of_all_and_train_one_network(kind: str) -> None:
    loss, data = make_loss(kind, policy_loss_steps="all"), rows_of(kind).exclude("begins")
    for name, network in (("qvalue", "qvalue_network"), ("actor", "actor_network")):
        loss.zero_grad()
        torch.manual_seed(2)
        value, _ = getattr(loss, f"{name}_loss")(data.clone())
        value.backward()
        moved = {key for key, p in loss.named_parameters() if p.grad is not None and p.grad.any()}
        own = {key for key, _ in loss.named_parameters() if key.startswith(f"{network}_params")}
        assert moved == own
        if kind == "categorical":
            torch.testing.assert_close(value, loss(data.clone())[f"loss_{name}"])


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


def test_flags_may_be_numbers() -> None:
    loss, data = make_loss("boltzmann", burn_in=1), rows_of("boltzmann").exclude("begins")
    wanted = call(loss, data)
    for key in ("is_init", ("next", "done"), ("next", "terminated")):
        data[key] = data[key].to(torch.uint8)
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


@pytest.mark.parametrize("lead", [(), (2, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_any_dimensions_before_time(kind: str, lead: tuple[int, ...]) -> None:
    options = {"reduction": "none", "scalar_output_mode": "exclude", "burn_in": 1}
    options |= {"target_subset": 1} if kind != "value" else {}
    loss = make_loss(kind, **options)
    rows = rows_of(kind).exclude("begins")
    rows = rows if lead else rows[:1]
    wanted = rows.clone()
    torch.manual_seed(2)
    expected = loss(wanted)
    torch.manual_seed(2)
    found_rows = rows.reshape(*lead, rows.shape[-1]).clone()
    found = loss(found_rows)
    for name, value in losses_of(found).items():
        assert value.shape == (*lead, rows.shape[-1])
        torch.testing.assert_close(value.reshape(rows.shape), expected[name], rtol=1e-12, atol=0)
    assert torch.equal(found_rows["td_error"].reshape(rows.shape), wanted["td_error"])


def test_one_stored_state_is_that_of_all_critics() -> None:
    for lead in ((6,), ()):
        loss = make_loss("boltzmann", target_subset=1)
        data = rows_of("boltzmann").exclude("begins")
        data = data if lead else data[0]
        one = data.clone()
        one["critic_state"] = data["critic_state"].select(-3, 0).clone()
        data["critic_state"] = one["critic_state"].unsqueeze(-3).expand_as(data["critic_state"])
        assert_same(call(loss, one), call(loss, data), rtol=1e-12, atol=0)


# ------------------------------------------------------------------ other modules of networks


def with_torchrls_memory(network: TensorDictModule) -> None:
    """Put TorchRL's module in the place of ours, with the same cells."""
    inner = network.module[0] if hasattr(network, "get_dist") else network
    ours = inner.module[1]
    keys = {"in_keys": list(ours.in_keys), "out_keys": list(ours.out_keys)}
    if hasattr(ours, "gru"):
        inner.module[1] = GRUModule(gru=ours.gru, **keys)
    else:
        inner.module[1] = LSTMModule(lstm=ours.lstm, **keys)


@pytest.mark.parametrize("cells", ["gru", "lstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_torchrls_memories_give_the_same_losses(kind: str, cells: str) -> None:
    losses = []
    for theirs in (False, True):
        torch.manual_seed(0)
        networks = make_networks(kind, memory_of(kind, cells, 2))
        if theirs:
            for network in networks.values():
                for each in network if isinstance(network, list) else [network]:
                    with_torchrls_memory(each)
        losses.append(loss_class(kind)(**networks, action_spec=SPECS[kind], burn_in=1))
    data = rows_of(kind, cells, 2).exclude("begins")
    assert_same(call(losses[1], data), call(losses[0], data), rtol=0, atol=0)
    policies = [loss.policy() for loss in losses]
    acted = [policy(data[:, 2].exclude("action", "next")) for policy in policies]
    for key in policy_states(policies[1]):
        torch.testing.assert_close(acted[1]["next", key], acted[0]["next", key])


class Shift(nn.Module):
    """Adds a vector, a parameter or not, beside a counter of integers."""

    def __init__(self, shift: Tensor, trained: bool) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(3))
        if trained:
            self.shift = nn.Parameter(shift)
        else:
            self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("stored", [(), EVERY])
@pytest.mark.parametrize("kind", ["continuous", "boltzmann"])
def test_what_comes_before_a_memory_has_tensors_of_its_own(kind, stored, trained) -> None:
    """A shift of the inputs is one of the biases, in the memory and in the head."""
    losses = []
    for shifted in (True, False):
        torch.manual_seed(0)
        networks = make_networks(kind, memory_of(kind, "gru", 1))
        for critic in networks["qvalue_network"]:
            embedding, memory, head = critic.module
            shift = torch.randn(memory.gru.input_size).double()
            if shifted:
                before = TensorDictModule(Shift(shift, trained), ["memory_input"], ["memory_input"])
                critic.module[0] = TensorDictSequential(embedding, before)
                continue
            first = next(each for each in head.modules() if isinstance(each, nn.Linear))
            read = first.weight[:, UNITS : UNITS + len(shift)]
            memory.gru.bias_ih_l0.data += memory.gru.weight_ih_l0 @ shift
            first.bias.data += read @ shift
        losses.append(loss_class(kind)(**networks, action_spec=SPECS[kind], alpha_init=0.3))
    data = rows_of(kind, stored=stored).exclude("begins")
    found, wanted = (call(loss, data) for loss in losses)
    assert_same(losses_of(found), losses_of(wanted), rtol=1e-10, atol=0)


def forget(linear: nn.Linear, others: int) -> nn.Linear:
    """Make the first layer of a head read the observation and the last inputs alone.

    Returns:
        The layer of a network without memory, which computes the same.
    """
    kept = [*range(UNITS, UNITS + 4), *range(linear.in_features - others, linear.in_features)]
    small = nn.Linear(len(kept), linear.out_features).double()
    with torch.no_grad():
        unread = [each for each in range(linear.in_features) if each not in kept]
        linear.weight[:, unread] = 0.0
        small.weight.copy_(linear.weight[:, kept])
        small.bias.copy_(linear.bias)
    return small


@pytest.mark.parametrize("without", ["actor_network", "qvalue_network"])
def test_a_network_without_memory_beside_one_with_it(without: str) -> None:
    """It is one whose head ignores the memory."""
    torch.manual_seed(0)
    networks = make_networks("continuous", memory_of("continuous", "gru", 1))
    plain = make_networks("continuous", None)
    if without == "actor_network":
        net, small = (each[without].module[0] for each in (networks, plain))
        net, small = net.module[-1].module[0], small.module[0]
        small.load_state_dict(
            {k: v for k, v in net.state_dict().items() if "0.weight" not in k}, strict=False
        )
        small[0] = forget(net[0], 0)
    else:
        for full, short in zip(networks[without], plain[without], strict=True):
            net, small = full.module[-1].module, short.module
            small.load_state_dict(
                {k: v for k, v in net.state_dict().items() if "0.weight" not in k}, strict=False
            )
            small[0] = forget(net[0], 2)
    both = loss_class("continuous")(**networks, action_spec=BOX, burn_in=1)
    mixed = loss_class("continuous")(
        **networks | {without: plain[without]}, action_spec=BOX, burn_in=1
    )
    data = rows_of("continuous").exclude("begins")
    wanted, found = call(both, data), call(mixed, data)
    trained = f"{without}_params"
    wanted, found = (
        {key: value for key, value in each.items() if trained not in key}
        for each in (wanted, found)
    )
    assert_same(found, wanted)


# ------------------------------------------------------------------ TorchRL's contract


@pytest.mark.parametrize("kind", KINDS)
def test_copies_casts_and_state_dicts(kind: str) -> None:
    loss, data = make_loss(kind, burn_in=1), rows_of(kind).exclude("begins")
    wanted = call(loss, data)
    copy = deepcopy(loss)
    assert_same(call(copy, data), wanted, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.add_(0.1)
    assert_same(call(copy, data), wanted, rtol=0, atol=0)
    assert call(loss, data)["loss_qvalue"] != wanted["loss_qvalue"]
    loss.load_state_dict(copy.state_dict())
    assert_same(call(loss, data), wanted, rtol=0, atol=0)
    low = data.apply(lambda e: e.float() if e.is_floating_point() else e)
    assert call(loss.float(), low)["loss_qvalue"].dtype == torch.float32
    high = call(loss.double(), data)
    torch.testing.assert_close(high["loss_qvalue"], wanted["loss_qvalue"], rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_keywords_and_renamed_entries(kind: str) -> None:
    loss = make_loss(kind)
    data = rows_of(kind, stored=()).exclude("begins")
    del data["collector"]
    torch.manual_seed(2)
    wanted = loss(data.clone())
    names = {key if isinstance(key, str) else "_".join(key): key for key in loss.in_keys}
    torch.manual_seed(2)
    found = loss(**{name: data[key] for name, key in names.items()})
    for key, value in zip(loss.out_keys, found, strict=True):
        torch.testing.assert_close(value, wanted[key], rtol=1e-12, atol=0)
    assert "is_init" in loss.in_keys
    assert not any(key[-1] == "is_init" for key in loss.in_keys if isinstance(key, tuple))
    assert not any("state" in key for key in map(str, loss.in_keys))


def test_entries_may_have_other_names() -> None:
    loss, data = make_loss("boltzmann"), rows_of("boltzmann").exclude("begins")
    wanted = call(loss, data)
    loss.set_keys(action="act", reward="gain", done="over", terminated="end", priority="error")
    data.rename_key_("action", "act")
    for before, after in (("reward", "gain"), ("done", "over"), ("terminated", "end")):
        data.rename_key_(("next", before), ("next", after))
    found = loss(data)
    torch.testing.assert_close(found["loss_qvalue"], wanted["loss_qvalue"], rtol=1e-12, atol=0)
    assert torch.equal(data["error"], wanted["td_error"])


@pytest.mark.parametrize("cells", ["gru", "lstm"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_carries_the_states_of_the_networks_that_act(kind: str, cells: str) -> None:
    policy = make_loss(kind, cells, 2).policy()
    owners = {"boltzmann": ["critic"], "hybrid": ["actor", "critic"]}.get(kind, ["actor"])
    wanted = {
        f"{owner}_state{end}": torch.Size([2] * (owner == "critic") + [2, UNITS])
        for owner in owners
        for end in ([""] if cells == "gru" else ["_h", "_c"])
    }
    assert policy_states(policy) == wanted
    out = policy(rows_of(kind, cells, 2, stored=()).exclude("begins", "action", "next")[:, 0])
    assert {key: out["next", key].shape[1:] for key in wanted} == wanted


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


# ------------------------------------------------------------------ what is refused


def memory_elsewhere(kind: str):
    actor = make_networks("continuous", memory_of("continuous", "gru", 1))["actor_network"]
    embedding, memory, head = actor.module[0].module
    if kind == "two memories":
        parts = [embedding, memory, deepcopy(memory), head]
    elif kind == "no head":
        return TensorDictSequential(embedding, memory)
    else:
        parts = [embedding, TensorDictModule(nn.ModuleList([memory]), [], []), head]
    return ProbabilisticActor(
        TensorDictSequential(*parts),
        in_keys=["loc", "scale"],
        spec=BOX,
        distribution_class=actor.module[-1].distribution_class,
    )


@pytest.mark.parametrize("kind", ["two memories", "within a module"])
def test_memories_at_other_places_are_refused(kind: str) -> None:
    networks = make_networks("continuous", memory_of("continuous", "gru", 1))
    with pytest.raises(ConfigError, match="actor_network has its memory at another place"):
        loss_class("continuous")(memory_elsewhere(kind), networks["qvalue_network"])


def test_a_critic_without_a_head_is_refused() -> None:
    networks = make_networks("boltzmann", memory_of("boltzmann", "gru", 1))
    critic = TensorDictSequential(*networks["qvalue_network"][0].module[:2])
    with pytest.raises(ConfigError, match="qvalue_network has its memory at another place"):
        loss_class("boltzmann")(critic)


@pytest.mark.parametrize("kind", ["continuous", "hybrid"])
def test_a_memory_of_the_evaluated_action_is_refused(kind: str) -> None:
    loss, data = make_loss(kind), rows_of(kind).exclude("begins")
    key = "action" if kind == "continuous" else ("action", "continuous")
    embedding = loss.recurrent["qvalue_network"].embedding.module[0]
    embedding.in_keys = [*embedding.in_keys[:2], key]
    critic = TensorDictSequential(*loss.qvalue_network.module)
    with pytest.raises(ConfigError, match="the memory of qvalue_network reads the action"):
        loss_class(kind)(loss.actor_network, critic)(data)


@pytest.mark.parametrize(("option", "value"), [("bidirectional", True), ("dropout", 0.1)])
def test_cells_that_losses_cannot_run_are_refused(option: str, value) -> None:
    networks = make_networks("boltzmann", memory_of("boltzmann", "gru", 2))
    critic = networks["qvalue_network"][0]
    keys = {"in_keys": critic.module[1].in_keys, "out_keys": critic.module[1].out_keys}
    cells = nn.GRU(7, UNITS, 2, batch_first=True, **{option: value})
    critic.module[1] = GRUModule(gru=cells, **keys)
    with pytest.raises(ConfigError, match=f"qvalue_network has {option}={value}"):
        loss_class("boltzmann")(critic)


def test_a_burn_in_needs_a_memory_and_longer_rows() -> None:
    data = rows_of("boltzmann").exclude("begins")
    with pytest.raises(BatchError, match="burn_in is 7, but the rows of the batch have 7 steps"):
        make_loss("boltzmann", burn_in=7)(data)
    feedforward = loss_class("boltzmann")(**make_networks("boltzmann", None), burn_in=1)
    with pytest.raises(ConfigError, match="no network has a memory"):
        feedforward(data)
    for value in (-1, 0.5):
        with pytest.raises(ConfigError, match="burn_in"):
            make_loss("boltzmann", burn_in=value)


def test_batches_without_rows_are_refused() -> None:
    loss, data = make_loss("boltzmann"), rows_of("boltzmann").exclude("begins")
    flat = data.reshape(-1)
    flat["index"] = torch.arange(len(flat))
    for batch in (flat, data[0, 0]):
        with pytest.raises(BatchError, match="a network with a memory needs sequences"):
            loss(batch)


@pytest.mark.parametrize("key", ["is_init", ("next", "done"), "prev_action"])
def test_missing_entries_are_named(key) -> None:
    loss, data = make_loss("boltzmann"), rows_of("boltzmann").exclude("begins", key)
    with pytest.raises(BatchError, match=repr(key).replace("(", r"\(").replace(")", r"\)")):
        loss(data)


@pytest.mark.parametrize("key", ["action", "prev_action"])
def test_parts_of_an_action_that_has_none_are_named(key: str) -> None:
    loss, data = make_loss("hybrid"), rows_of("hybrid").exclude("begins")
    data = data.exclude(key).set(key, torch.zeros(6, 7, 1).double())
    with pytest.raises(BatchError, match=rf"the batch has no entry \('{key}', 'continuous'\)"):
        loss(data)


def test_entries_of_other_shapes_are_named() -> None:
    loss, data = make_loss("boltzmann"), rows_of("boltzmann").exclude("begins")
    for shape in ((6, 7, 1, UNITS + 1), (6, 7, 3, 1, UNITS), (6, 7, UNITS)):
        with pytest.raises(BatchError, match="the state 'critic_state' has the shape"):
            loss(data.clone().set("critic_state", torch.zeros(shape).double()))
    for key in ("is_init", ("next", "done")):
        with pytest.raises(BatchError, match=r"has the shape \[6, 7\], wanted \[6, 7, 1\]"):
            loss(data.clone().set(key, data[key].squeeze(-1)))


def test_networks_whose_states_have_one_name_are_refused_where_rows_hold_it() -> None:
    networks = make_networks("categorical", memory_of("categorical", "gru", 1))
    for critic in networks["qvalue_network"]:
        memory = critic.module[1]
        memory.in_keys, memory.out_keys = (
            ["memory_input", "actor_state", "is_init"],
            ["memory", ("next", "actor_state")],
        )
    critics = [TensorDictSequential(*each.module) for each in networks["qvalue_network"]]
    loss = loss_class("categorical")(critics, networks["actor_network"])
    with pytest.raises(BatchError, match="is the state of several networks"):
        loss(rows_of("categorical", stored=("actor",)).exclude("begins"))
