"""ACER with networks that have a memory, against loops over the steps of each row."""

import copy

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.modules import ActorValueOperator, ProbabilisticActor
from torchrl.objectives import SoftUpdate

from rlkit_sac.modules import LSTMMemory
from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_memory import (
    HIDDEN,
    make_recurrent_acer,
    make_rows,
    previous_action,
    recurrent_networks,
    store_states,
)
from tests.objectives.acer_networks import (
    NUM_ACTIONS,
    Noise,
    make_normalizers,
    normalized_by_hand,
    pad,
)
from tests.objectives.acer_references import AcerOptions, reference

KINDS = ["discrete", "continuous"]
GRU, LSTM = ({"kind": kind, "size": HIDDEN, "layers": n} for kind, n in (("gru", 1), ("lstm", 2)))
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def assert_equal(
    kind: str,
    memory: dict,
    options: AcerOptions,
    *,
    shared: bool,
    stored: bool,
    padded: bool,
    burn_in: int,
    normalized: bool = False,
) -> None:
    rows, steps, noise = 4, 7, Noise()
    normalizers = make_normalizers() if normalized else {}
    memory = memory | previous_action(kind)
    arguments = {"sampler": noise, "burn_in": burn_in, **options.of_loss(), **normalizers}
    loss = make_recurrent_acer(kind, memory, shared=shared, **arguments)
    data = make_rows(kind, rows, steps)
    if stored:
        store_states(data, loss)
    if padded:
        data["collector", "mask"] = pad(data)
    by_hand = normalized_by_hand(data, **normalizers) if normalized else data
    nets, places = recurrent_networks(loss, by_hand)
    drawn = noise.fill(rows, steps - burn_in)
    wanted = reference(kind, nets, places, drawn, options)
    actor, critic = (
        dict(loss.get_stateful_net(f"{each}_network").named_parameters())
        for each in ("actor", "critic")
    )
    of_critic = [*(actor[name] for name in nets.trained_by_critic), *critic.values()]
    wanted.assert_equal(loss(data), list(actor.values()), of_critic, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("memory", "stored", "padded", "burn_in", "use_q_opc", "on_policy"),
    [
        (GRU, False, False, 0, False, False),
        (GRU, True, True, 2, True, False),
        (LSTM, True, True, 0, False, True),
        (LSTM, False, True, 3, False, False),
    ],
)
def test_losses_and_gradients_are_those_of_the_formulas(
    kind: str,
    shared: bool,
    memory: dict,
    stored: bool,
    padded: bool,
    burn_in: int,
    use_q_opc: bool,
    on_policy: bool,
) -> None:
    torch.manual_seed(5)
    space = "logits" if kind == "discrete" else "loc_var"
    options = AcerOptions(space, 1.0, on_policy, use_q_opc, delta=0.01)
    if on_policy:
        options.c = 10.0
    assert_equal(
        kind, memory, options, shared=shared, stored=stored, padded=padded, burn_in=burn_in
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_memories_and_heads_read_normalized_observations(kind: str, shared: bool) -> None:
    torch.manual_seed(8)
    options = AcerOptions("logits" if kind == "discrete" else "loc_var", 1.0, delta=0.01)
    cases = {"shared": shared, "stored": True, "padded": True, "burn_in": 2, "normalized": True}
    assert_equal(kind, GRU, options, **cases)


# ------------------------------------------------------------------ another implementation


def pfrl_network() -> ActorValueOperator:
    """One LSTM that reads the observation, and linear heads that read its output."""
    trunk = LSTMMemory(3, HIDDEN, in_key="observation", out_key="hidden")
    heads = [
        TensorDictModule(nn.Linear(HIDDEN, NUM_ACTIONS), ["hidden"], [key])
        for key in ("logits", "action_value")
    ]
    policy = ProbabilisticActor(heads[0], in_keys=["logits"], distribution_class=Categorical)
    return ActorValueOperator(TensorDictSequential(trunk), policy, heads[1]).double()


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("space", ["log_probs", None])
def test_an_update_is_that_of_pfrl(terminal: bool, space: str | None) -> None:
    """PFRL's recurrent ACER: a replayed episode from a zero state, with formulas of its own.

    Both models, the average one too, see the whole episode with a state of their own; the value
    after the last step is that of the model one step on.
    """
    torch.manual_seed(6)
    steps, gamma, c, delta, beta = 9, 0.95, 2.0, 0.01, 0.05
    both = pfrl_network()
    lstm, pi, q = (
        copy.deepcopy(each)
        for each in (
            both.module[0].module[0].lstm,
            both.module[1].module[0].module,
            both.module[2].module,
        )
    )
    loss = ACERLoss(
        actor_critic=both,
        gamma=gamma,
        beta=beta,
        truncation_threshold=c,
        trust_region_delta=delta,
        trust_region_space=space,
        use_trust_region=space is not None,
        normalize_loss_by_steps=False,
    )
    updater = SoftUpdate(loss, eps=0.99)  # which makes the average policy the policy
    average = [copy.deepcopy(each) for each in (lstm, pi)]
    with torch.no_grad():
        for name, target in loss.target_actor_network_params.flatten_keys(".").items():
            target.add_(0.3 * torch.randn_like(target))
            getattr(average[0 if "lstm" in name else 1], leaf_of(name)).copy_(target)
    episode = make_rows("discrete", 1, steps, starts=1.0, cuts=0.0)
    episode["next", "done"][0, -1] = episode["next", "terminated"][0, -1] = terminal

    # PFRL: one step after another.
    h = mean_h = None
    outs = []
    for t in range(steps):
        x = episode["observation"][:, t : t + 1]
        out, h = lstm(x, h)
        with torch.no_grad():
            mean_out, mean_h = average[0](x, mean_h)
            mean_log_prob = average[1](mean_out[0, 0]).log_softmax(-1)
        outs.append((pi(out[0, 0]).log_softmax(-1), q(out[0, 0]), mean_log_prob))
    q_ret = torch.zeros(()).double()
    if not terminal:
        with torch.no_grad():
            out, _ = lstm(episode["next", "observation"][:, -1:], h)
            q_ret = pi(out[0, 0]).softmax(-1) @ q(out[0, 0])
    pi_loss = q_loss = 0.0
    for t in reversed(range(steps)):
        log_prob, values, mean_log_prob = outs[t]
        a, r = episode["action"][0, t], episode["next", "reward"][0, t, 0]
        mu = episode["behavior", "logits"][0, t].softmax(-1)
        prob, v = log_prob.detach().exp(), log_prob.detach().exp() @ values.detach()
        rho_all = prob / mu
        rho = rho_all[a]
        q_ret = r + gamma * q_ret
        phi = log_prob.detach().requires_grad_()
        loss_at = -rho.clamp_max(c) * (q_ret - v) * phi[a]
        for action in range(NUM_ACTIONS):
            weight = (1 - c / rho_all[action]).clamp_min(0) * prob[action]
            loss_at = loss_at - weight * (values[action].detach() - v) * phi[action]
        (g,) = torch.autograd.grad(loss_at, phi)
        if space is not None:
            divergence = (mean_log_prob.exp() * (mean_log_prob - phi)).sum()
            (k,) = torch.autograd.grad(-divergence, phi)
            g = g - ((k @ g - delta) / (k @ k)).clamp_min(0) * k
        pi_loss = pi_loss + g @ log_prob + beta * (log_prob.exp() @ log_prob)
        q_loss = q_loss + (q_ret - values[a]) ** 2 / 2
        q_ret = rho.clamp_max(1) * (q_ret - values[a].detach()) + v
    theirs = [*lstm.parameters(), *pi.parameters(), *q.parameters()]
    optimizer = torch.optim.RMSprop(theirs, lr=1e-2, alpha=0.99, eps=1e-2)
    (pi_loss + 0.5 * q_loss).backward()
    optimizer.step()
    with torch.no_grad():
        for mean, live in zip(average, (lstm, pi), strict=True):
            for old, new in zip(mean.parameters(), live.parameters(), strict=True):
                old.mul_(0.99).add_(0.01 * new)

    own = torch.optim.RMSprop(loss.parameters(), lr=1e-2, alpha=0.99, eps=1e-2)
    out = loss(episode)
    sum(out[name] for name in ("loss_actor", "loss_critic", "loss_entropy")).backward()
    own.step()
    updater.step()
    for name, value in loss.actor_network_params.flatten_keys(".").items():
        part = lstm if "lstm" in name else pi
        torch.testing.assert_close(value.data, getattr(part, leaf_of(name)).data, **EXACT)
    for name, value in loss.critic_network_params.flatten_keys(".").items():
        torch.testing.assert_close(value.data, getattr(q, leaf_of(name)).data, **EXACT)
    for name, value in loss.target_actor_network_params.flatten_keys(".").items():
        part = average[0 if "lstm" in name else 1]
        torch.testing.assert_close(value, getattr(part, leaf_of(name)).data, **EXACT)


def leaf_of(name: str) -> str:
    return name.split(".")[-1]


# ------------------------------------------------------------------ what is read


def case(kind: str, *, shared: bool = True, **options) -> tuple[ACERLoss, TensorDict]:
    """A loss and rows with stored states; the discrete one with a GRU, the other with an LSTM."""
    torch.manual_seed(7)
    memory = (GRU if kind == "discrete" else LSTM) | previous_action(kind)
    loss = make_recurrent_acer(kind, memory, shared=shared, **options)
    rows = make_rows(kind, 4, 6)
    store_states(rows, loss)
    return loss, rows


def total(loss: ACERLoss, rows: TensorDict) -> tuple[Tensor, list[Tensor]]:
    """The sum of the losses and its gradients, with the same samples each time."""
    torch.manual_seed(8)
    out = loss(rows)
    value = sum(out[name] for name in ("loss_actor", "loss_critic", "loss_entropy"))
    return value.detach(), list(torch.autograd.grad(value, list(loss.parameters())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_not_part_of_an_episode_changes_nothing(kind: str, shared: bool) -> None:
    """NaN before the start of an episode, in padding and in states that no row begins with."""
    loss, rows = case(kind, shared=shared, burn_in=2)
    rows["next", "done"][:, 1] = rows["is_init"][:, 2] = True
    rows["prev_action"][:, 2] = 0
    rows["collector", "mask"] = torch.ones(4, 6, dtype=torch.bool)
    rows["collector", "mask"][0, 4:] = False
    value, gradients = total(loss, rows)
    assert "actor_network" in loss.recurrent
    for key, entry in rows.items(True, True):
        if entry.is_floating_point():
            entry[:, :2] = torch.nan
            entry[0, 4:] = torch.nan
        if key in loss.state_keys or "state" in str(key):
            entry[:, 1:] = torch.nan
    for after in ("is_init", "prev_action", *loss.state_keys):
        rows["next", after] = torch.full_like(rows[after].double(), torch.nan)
    other, others = total(loss, rows)
    assert torch.equal(value, other)
    assert all(torch.equal(*pair) for pair in zip(gradients, others, strict=True))
