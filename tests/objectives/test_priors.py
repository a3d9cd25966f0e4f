"""Losses with a prior as parts of TorchRL: keys, targets, acting, optimizers, and what is refused.

The equations are in test_continuous_sac_reference.py and test_discrete_reference.py.
"""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.envs import make_env
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import (
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.networks import NoisyTanhGaussian, make_data, make_loss
from tests.objectives.prior_references import NAMES, add_before, make_prior

BOX, INDEX = Bounded(-1.0, 1.0, (2,)), Categorical(3)
HYBRID = Composite(continuous=BOX, discrete=INDEX)
CELLS = {"num_cells": [8]}


def actor(**options):
    return tanh_gaussian_actor(4, [-1.0] * 2, [1.0] * 2, **CELLS, **options)


def continuous(**options) -> ContinuousSACLoss:
    return ContinuousSACLoss(actor(), state_action_critic(4, 2, **CELLS), **options)


def discrete(**options) -> DiscreteSACLoss:
    return DiscreteSACLoss(action_value_critic(4, 3, **CELLS), **options)


def hybrid(**options) -> HybridSACLoss:
    move = actor(action_key=("action", "continuous"))
    return HybridSACLoss(move, hybrid_critic(4, 2, 3, **CELLS), **options)


def single(data: TensorDict) -> TensorDict:
    """The batch with its numbers, but not its indices, in single precision."""
    return data.apply(lambda entry: entry.float() if entry.is_floating_point() else entry)


class Constant(nn.Module):
    """Values of three actions that no state changes."""

    def __init__(self, values) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, observation):
        return self.values.expand(*observation.shape[:-1], -1)


class Probabilities(nn.Module):
    in_keys = ()

    def __init__(self, probs) -> None:
        super().__init__()
        self.probs = torch.tensor(probs, dtype=torch.float64)

    def get_dist(self, tensordict):
        probs = self.probs.expand(*tensordict.batch_size, -1)
        return torch.distributions.Categorical(logits=probs.log())


def test_a_prior_changes_the_boltzmann_policy_as_derived():
    """One step: rewards [1, 0, 0], a prior of [.01, .01, .98] and alpha = .5."""
    alpha = 0.5
    rewards, prior = torch.tensor([[1.0, 0, 0], [0.01, 0.01, 0.98]], dtype=torch.float64)
    critics = [
        TensorDictModule(Constant(rewards.tolist()), ["observation"], ["action_value"])
        for _ in range(2)
    ]
    loss = DiscreteSACLoss(
        critics, prior_network=Probabilities(prior.tolist()), alpha_init=alpha, fixed_alpha=True
    )
    states = TensorDict(observation=torch.zeros(1, 1).double(), batch_size=[1])
    found = loss.policy().get_dist(states).probs[0]

    def objective(probs):
        return (probs * (rewards - alpha * (probs / prior).log())).sum().item()

    weights = prior * (rewards / alpha).exp()
    torch.testing.assert_close(found, weights / weights.sum())
    best = alpha * math.log(weights.sum())  # the soft value
    assert objective(found) == pytest.approx(best, abs=1e-12)
    assert objective(found) == pytest.approx(0.031, abs=5e-4)
    without = (rewards / alpha).softmax(-1)
    assert objective(without) == pytest.approx(-0.939, abs=5e-4)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert loss.policy()(states)["action"].item() == 2

    # The same number is the value of the next state.
    batch = states.clone()
    batch["action"] = torch.zeros(1, dtype=torch.int64)
    ends = torch.zeros(1, 1, dtype=torch.bool)
    batch["next"] = TensorDict(
        observation=states["observation"],
        reward=torch.zeros(1, 1).double(),
        done=ends,
        terminated=ends,
        batch_size=[1],
    )
    loss.make_value_estimator(gamma=1.0)
    out = loss(batch)
    assert batch["td_error"].item() == pytest.approx(math.sqrt(2) * (1 - best), abs=1e-9)
    assert out["kl"].item() == pytest.approx((found * (found / prior).log()).sum().item(), abs=1e-6)


KINDS = {
    "continuous": (continuous, BOX, ["kl"]),
    "discrete": (discrete, INDEX, ["kl"]),
    "hybrid": (hybrid, HYBRID, ["kl_discrete", "kl_continuous"]),
}


@pytest.mark.parametrize(("make", "spec", "names"), KINDS.values(), ids=KINDS.keys())
def test_a_prior_adds_its_keys_and_no_parameters(make, spec, names):
    plain, loss = make(), make(prior_network=SameActionPrior(spec))
    before = {key for key in loss.in_keys if key not in plain.in_keys}
    assert before == set(SameActionPrior(spec).in_keys)  # nothing under "next"
    assert loss.out_keys == [*plain.out_keys, *names]
    assert [name for name, _ in loss.named_parameters()] == [
        name for name, _ in plain.named_parameters()
    ]
    assert loss.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "categorical", "hybrid"])
def test_the_uniform_prior_is_the_entropy_up_to_a_constant(kind):
    """Same gradients of the actor; entropies and divergences that add up to the constant."""
    outs, slopes = [], []
    for with_prior in (False, True):
        torch.manual_seed(0)
        options = {"alpha_init": 0.3, "use_entropy_reward": False}
        if with_prior:
            options["prior_network"] = make_prior("uniform", kind).module
        if kind == "continuous":
            loss, data = make_loss(**options), make_data(6)
        else:
            loss, data = make_discrete_loss(kind, **options), make_discrete_data(kind, 6)
        NoisyTanhGaussian.queue = [*torch.randn(2, 6, 2).double()]
        out = loss(data)
        names = [name for name in ("loss_actor", "loss_qvalue") if name in out.keys()]  # noqa: SIM118
        sum(out[name] for name in names).backward()
        outs.append(out)
        slopes.append([p.grad for p in loss.parameters() if p.grad is not None])
    for wanted, found in zip(*slopes, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    constants = {"": math.log(3), "_discrete": math.log(3), "_continuous": 2 * math.log(2)}
    if kind == "continuous":
        constants[""] = 2 * math.log(2)
    plain, prior = outs
    for suffix, constant in constants.items():
        if f"kl{suffix}" in prior.keys():  # noqa: SIM118
            total = prior[f"kl{suffix}"] + prior[f"entropy{suffix}"]
            assert total.item() == pytest.approx(constant, abs=1e-9)
            torch.testing.assert_close(prior[f"entropy{suffix}"], plain[f"entropy{suffix}"])


def test_each_factor_of_a_hybrid_policy_may_have_a_prior_of_its_own():
    pair = hybrid(prior_network=(UniformPrior(INDEX), SameActionPrior(BOX)))
    assert pair.out_keys[-2:] == ["kl_discrete", "kl_continuous"]
    assert ("prev_action", "continuous") in pair.in_keys
    assert "prev_action" not in pair.in_keys
    only = hybrid(prior_network=(None, UniformPrior(BOX)), target_entropy=("scaled_log_k", "auto"))
    assert only.out_keys[-1] == "kl_continuous"
    assert "kl_discrete" not in only.out_keys
    assert only.target_entropy_continuous == -6.0
    assert only.target_entropy_discrete is None  # scaled_log_k, of what the critics will show


def test_a_pair_equals_the_one_prior_over_both_parts():
    data = single(add_before(make_discrete_data("hybrid", 6)))
    outs = []
    for prior in (
        SameActionPrior(HYBRID),
        (SameActionPrior(Composite(discrete=INDEX)), SameActionPrior(Composite(continuous=BOX))),
        (SameActionPrior(INDEX), SameActionPrior(BOX)),
    ):
        torch.manual_seed(0)
        outs.append(hybrid(prior_network=prior)(data.clone()))
    for name, value in outs[0].items():
        for out in outs[1:]:
            torch.testing.assert_close(out[name], value, rtol=0, atol=0)


def test_a_prior_of_ones_own_may_read_all_of_the_previous_action():
    class Follows(nn.Module):
        in_keys = ("prev_action",)

        def get_dist(self, states):
            before = states["prev_action"]
            assert set(before.keys()) == {"continuous", "discrete"}
            logits = nn.functional.one_hot(before["discrete"], 3) * before["continuous"][..., :1]
            return torch.distributions.Categorical(logits=logits)

    data = single(add_before(make_discrete_data("hybrid", 6)))

    class Whole(nn.Module):
        in_keys = ("prev_action",)

        def __init__(self):
            super().__init__()
            self.index, self.box = Follows(), UniformPrior(BOX)

        def get_dist(self, states):
            dist = self.index.get_dist(states)
            dist.dists = {"discrete": dist, "continuous": self.box.get_dist(states)}
            return dist

    torch.manual_seed(0)
    out = hybrid(prior_network=Whole())(data.clone())
    torch.manual_seed(0)
    alone = hybrid(prior_network=(None, UniformPrior(BOX)))(data)
    assert torch.equal(out["kl_continuous"], alone["kl_continuous"])
    assert out["kl_discrete"].isfinite()


def test_the_temperature_aims_at_the_divergence():
    assert continuous(prior_network=UniformPrior(BOX)).target_entropy == -6.0
    loss = continuous(prior_network=UniformPrior(BOX), target_kld_per_dim=0.5)
    assert loss.target_entropy == -1.0
    assert continuous(prior_network=UniformPrior(BOX), fixed_alpha=True).target_entropy is None
    loss = discrete(prior_network=UniformPrior(INDEX))
    assert loss.target_entropy == pytest.approx(-0.5 * math.log(3))
    loss = discrete(prior_network=UniformPrior(INDEX), target_kld_discrete=math.log(3))
    assert loss.target_entropy == -math.log(3)
    loss = hybrid(
        prior_network=UniformPrior(HYBRID), target_kld_discrete=0.1, target_kld_per_dim=2.0
    )
    assert (loss.target_entropy_discrete, loss.target_entropy_continuous) == (-0.1, -4.0)


def test_training_the_temperature_alone_moves_it_towards_the_target():
    """Too close to the prior, alpha falls; too far, it rises."""
    for target, rises in ((0.0, True), (20.0, False)):
        torch.manual_seed(0)
        loss = continuous(prior_network=UniformPrior(BOX), target_kld_per_dim=target)
        loss(single(make_data(32)))["loss_alpha"].backward()
        assert (loss.log_alpha.grad.item() < 0) == rises


REFUSED = {
    "target above the maximum": (
        lambda: discrete(prior_network=UniformPrior(INDEX), target_kld_discrete=1.2),
        "no policy over 3 actions is further than 1.09861 nats from this UniformPrior",
    ),
    "target above that of repeated actions": (
        lambda: hybrid(prior_network=SameActionPrior(HYBRID), target_kld_discrete=3.2),
        "further than 2.99573 nats",
    ),
    "negative target": (
        lambda: discrete(prior_network=UniformPrior(INDEX), target_kld_discrete=-1.0),
        "target_kld_discrete must be a finite number >= 0",
    ),
    "negative target per dimension": (
        lambda: continuous(prior_network=UniformPrior(BOX), target_kld_per_dim=-1.0),
        "target_kld_per_dim must be a finite number >= 0",
    ),
    "target entropy": (
        lambda: continuous(prior_network=UniformPrior(BOX), target_entropy=-2.0),
        "target_entropy is -2.0, but with a prior",
    ),
    "pair": (
        lambda: continuous(prior_network=(UniformPrior(BOX), None)),
        "prior_network takes one value here",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_impossible_options_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_an_actor_is_a_prior_as_it_is():
    """It has in_keys and get_dist; PolicyPrior is for policies that have several steps."""
    reference = actor()
    outs = []
    for prior in (reference, PolicyPrior(reference)):
        torch.manual_seed(0)
        outs.append(continuous(prior_network=prior)(single(make_data(6))))
    torch.testing.assert_close(outs[0]["loss_actor"], outs[1]["loss_actor"])


def test_the_prior_of_a_run_stays_as_it_was_while_the_loss_learns():
    torch.manual_seed(0)
    expert = actor()
    loss = continuous(prior_network=PolicyPrior(expert))
    saved = {name: value.clone() for name, value in loss.state_dict().items() if "prior" in name}
    assert len(saved) == len(list(expert.parameters()))
    optimizer = torch.optim.Adam(loss.parameters(), 0.1)
    for _ in range(3):
        out = loss(single(make_data(6)))
        sum(out[name] for name in ("loss_actor", "loss_qvalue", "loss_alpha")).backward()
        optimizer.step()
        optimizer.zero_grad()
    for name, value in saved.items():
        assert torch.equal(loss.state_dict()[name], value)
    with torch.no_grad():
        for weight in expert.parameters():
            weight.fill_(0.1)
    other = continuous(prior_network=PolicyPrior(expert))
    other.load_state_dict(loss.state_dict())
    torch.manual_seed(1)
    wanted = loss(single(make_data(6)))
    torch.manual_seed(1)
    torch.testing.assert_close(other(single(make_data(6)))["kl"], wanted["kl"], rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_copies_files_and_casts_take_the_prior_along(name):
    torch.manual_seed(0)
    loss = make_discrete_loss("hybrid", prior_network=make_prior(name, "hybrid").module)
    stream = io.BytesIO()
    torch.save(loss, stream)
    stream.seek(0)
    data = add_before(make_discrete_data("hybrid", 5))
    outs = []
    for each in (loss, copy.deepcopy(loss), torch.load(stream, weights_only=False)):
        NoisyTanhGaussian.queue = [*torch.ones(2, 5, 2).double()]
        outs.append(each(data.clone()))
    for out in outs[1:]:
        for key, value in outs[0].items():
            torch.testing.assert_close(out[key], value, rtol=0, atol=0)
    NoisyTanhGaussian.queue = [*torch.ones(2, 5, 2)]
    narrow = loss.float()(single(data))
    for key, value in outs[0].items():
        assert narrow[key].dtype == torch.float32
        torch.testing.assert_close(narrow[key].double(), value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["discrete", "hybrid"])
@pytest.mark.parametrize("explore", [ExplorationType.RANDOM, ExplorationType.DETERMINISTIC])
def test_the_acting_policy_carries_the_prior(kind, explore):
    """Sampled, the frequencies are those of Q / alpha + log prior; greedy, its mode."""
    torch.manual_seed(0)
    make, spec, _ = KINDS[kind]
    loss = make(prior_network=SameActionPrior(spec, 0.8), alpha_init=0.4)
    policy = loss.policy()
    count = 20_000
    states = TensorDict(
        observation=torch.randn(1, 4).expand(count, -1),
        is_init=torch.zeros(count, 1, dtype=torch.bool),
        batch_size=[count],
    )
    before = torch.full((count,), 2)
    if kind == "hybrid":
        with torch.no_grad():
            for name in ("weight", "bias"):  # nearly one continuous action for the same state
                getattr(loss.get_stateful_net("actor_network")[0].module[0][-1], name).zero_()
        zeros = torch.zeros(count, 2)
        states["prev_action"] = TensorDict(continuous=zeros, discrete=before, batch_size=[count])
    else:
        states["prev_action"] = before
    assert {"is_init"} < set(policy.in_keys)
    with torch.no_grad(), set_exploration_type(explore):
        out = policy(states.clone())
    key = "action" if kind == "discrete" else ("action", "discrete")
    boltzmann = policy if kind == "discrete" else policy.module[1]
    with torch.no_grad():
        log_prior = torch.tensor([0.1, 0.1, 0.8]).log()
        probs = (boltzmann.action_value(out) / 0.4 + log_prior).softmax(-1)
    if explore is ExplorationType.RANDOM:
        frequencies = torch.bincount(out[key], minlength=3) / count
        assert torch.allclose(frequencies, probs.mean(0), atol=0.02)
    else:
        assert torch.equal(out[key], probs.argmax(-1))


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "rlkit_sac/Moving-v0"])
def test_the_previous_action_travels_from_the_environment_to_the_loss(name):
    env = make_env(name, seed=0)
    spec = env.full_action_spec_unbatched
    size = env.observation_spec["observation"].shape[-1]
    prior = SameActionPrior(spec)
    if name == "Pendulum-v1":
        loss = ContinuousSACLoss(
            tanh_gaussian_actor(size, [-1.0], [1.0], **CELLS),
            state_action_critic(size, 1, **CELLS),
            prior_network=prior,
        )
    elif name == "CartPole-v1":
        loss = DiscreteSACLoss(action_value_critic(size, 2, **CELLS), prior_network=prior)
    else:
        move = tanh_gaussian_actor(
            size, [-1.0] * 2, [1.0] * 2, **CELLS, action_key=("action", "continuous")
        )
        loss = HybridSACLoss(move, hybrid_critic(size, 2, 3, **CELLS), prior_network=prior)
    collector = Collector(env, loss.policy(), frames_per_batch=50, total_frames=50)
    (batch,) = collector
    collector.shutdown()
    read = batch.select(*loss.in_keys)
    assert not any(key[0] == "next" and "prev" in str(key) for key in loss.in_keys)
    assert read["is_init"].any()
    out = loss(read)
    assert all(value.isfinite().all() for value in out.values())


def test_a_network_may_read_the_previous_action_as_well():
    """Then the next state's comes from the batch, for the network and the prior alike."""
    value = nn.Linear(8, 1)

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = copy.deepcopy(value)

        def forward(self, *inputs):
            return self.value(torch.cat(inputs, -1))

    critics = [
        TensorDictModule(Reads(), ["observation", "action", "prev_action"], ["state_action_value"])
        for _ in range(2)
    ]
    loss = ContinuousSACLoss(actor(), critics, prior_network=SameActionPrior(BOX))
    assert ("next", "prev_action") in loss.in_keys
    assert ("next", "is_init") not in loss.in_keys
    data = single(add_before(make_data(6)))
    data["next", "prev_action"] = data["action"]
    assert loss(data)["kl"].isfinite()


def test_a_batch_without_the_previous_action_is_refused_by_name():
    with pytest.raises(BatchError, match="no entry 'prev_action', 'is_init'"):
        continuous(prior_network=SameActionPrior(BOX))(single(make_data(6)))


def test_misshapen_entries_of_the_step_before_are_refused():
    data = single(add_before(make_data(6)))
    data["is_init"] = data["is_init"].squeeze(-1)
    with pytest.raises(BatchError, match=r"'is_init' has the shape \[6\], wanted \[6, 1\]"):
        continuous(prior_network=SameActionPrior(BOX))(data)


def test_a_discrete_prior_of_a_continuous_action_is_refused():
    with pytest.raises(BatchError, match="is over discrete actions, but 'action' is continuous"):
        continuous(prior_network=Probabilities([0.5, 0.5]))(single(make_data(6)))


def test_parts_are_found_by_their_names():
    data = single(add_before(make_discrete_data("hybrid", 6)))
    loss = hybrid(prior_network=SameActionPrior(Composite(gear=INDEX, continuous=BOX)))
    data["prev_action", "gear"] = data["prev_action", "discrete"]
    with pytest.raises(BatchError, match=r"'gear'\), but the parts of the action are"):
        loss(data)


def test_a_target_out_of_reach_is_refused_once_the_critics_tell_the_actions():
    prior = Probabilities([0.2, 0.4, 0.4])
    prior.largest_kld = lambda num_actions: -math.log(0.2)
    loss = discrete(prior_network=prior, target_kld_discrete=2.0)
    with pytest.raises(ConfigError, match=r"no policy over 3 actions is further than 1\.60944"):
        loss(single(make_discrete_data("boltzmann", 6)))


def test_keys_as_a_string_are_refused():
    prior = Probabilities([0.5, 0.5])
    prior.in_keys = "observation"
    with pytest.raises(ConfigError, match=r"make it a list, \['observation'\]"):
        discrete(prior_network=prior)


def test_an_action_the_prior_rules_out_is_never_chosen():
    loss = discrete(prior_network=Probabilities([0.0, 0.5, 0.5]), alpha_init=1e-4, fixed_alpha=True)
    data = single(make_discrete_data("boltzmann", 200))
    policy = loss.policy()
    values = policy.action_value(data)
    assert (values.argmax(-1) == 0).any()  # by a gap that the temperature makes enormous
    for explore in (ExplorationType.RANDOM, ExplorationType.DETERMINISTIC):
        with set_exploration_type(explore):
            assert (policy(data)["action"] != 0).all()
    assert loss(data)["kl"].isfinite()


def test_a_categorical_actor_is_pulled_towards_its_prior():
    torch.manual_seed(0)
    learned, wanted = categorical_actor(4, 3, **CELLS), categorical_actor(4, 3, **CELLS)
    loss = DiscreteSACLoss(
        action_value_critic(4, 3, **CELLS),
        learned,
        prior_network=PolicyPrior(wanted),
        alpha_init=100.0,
        fixed_alpha=True,
    )
    optimizer = torch.optim.Adam(loss.actor_network_params.parameters(), 0.02)
    for _ in range(200):
        data = single(make_discrete_data("boltzmann", 64))
        out = loss(data)
        out["loss_actor"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert out["kl"].item() < 1e-3
