"""Losses with a prior: keys, targets, training, copies.

The equations are in the reference tests.
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
from torchrl.data import Composite
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.modules import (
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    action_value_critic,
    categorical_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.losses import CELLS, box_actor, make_batch, own_loss, single
from tests.objectives.networks import NoisyTanhGaussian, make_data, make_loss
from tests.objectives.prior_references import (
    BOX,
    HYBRID,
    INDEX,
    NAMES,
    SPECS,
    Probabilities,
    add_before,
    make_prior,
)


class Constant(nn.Module):
    """Values of three actions that no state changes."""

    def __init__(self, values) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, observation):
        return self.values.expand(*observation.shape[:-1], -1)


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


KL_KEYS = {"continuous": ["kl"], "boltzmann": ["kl"], "hybrid": ["kl_discrete", "kl_continuous"]}


@pytest.mark.parametrize(("kind", "spec"), SPECS.items())
def test_a_prior_adds_its_keys_and_no_parameters(kind, spec):
    plain, loss = own_loss(kind), own_loss(kind, prior_network=SameActionPrior(spec))
    before = {key for key in loss.in_keys if key not in plain.in_keys}
    assert before == set(SameActionPrior(spec).in_keys)  # nothing under "next"
    assert loss.out_keys == [*plain.out_keys, *KL_KEYS[kind]]
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
    pair = own_loss("hybrid", prior_network=(UniformPrior(INDEX), SameActionPrior(BOX)))
    assert pair.out_keys[-2:] == ["kl_discrete", "kl_continuous"]
    assert ("prev_action", "continuous") in pair.in_keys
    assert "prev_action" not in pair.in_keys
    only = own_loss(
        "hybrid", prior_network=(None, UniformPrior(BOX)), target_entropy=("scaled_log_k", "auto")
    )
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
        outs.append(own_loss("hybrid", prior_network=prior)(data.clone()))
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
    out = own_loss("hybrid", prior_network=Whole())(data.clone())
    torch.manual_seed(0)
    alone = own_loss("hybrid", prior_network=(None, UniformPrior(BOX)))(data)
    assert torch.equal(out["kl_continuous"], alone["kl_continuous"])
    assert out["kl_discrete"].isfinite()


def test_the_temperature_aims_at_the_divergence():
    assert own_loss("continuous", prior_network=UniformPrior(BOX)).target_entropy == -6.0
    loss = own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=0.5)
    assert loss.target_entropy == -1.0
    assert (
        own_loss("continuous", prior_network=UniformPrior(BOX), fixed_alpha=True).target_entropy
        is None
    )
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX))
    assert loss.target_entropy == pytest.approx(-0.5 * math.log(3))
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=math.log(3))
    assert loss.target_entropy == -math.log(3)
    loss = own_loss(
        "hybrid",
        prior_network=UniformPrior(HYBRID),
        target_kld_discrete=0.1,
        target_kld_per_dim=2.0,
    )
    assert (loss.target_entropy_discrete, loss.target_entropy_continuous) == (-0.1, -4.0)


def test_training_the_temperature_alone_moves_it_towards_the_target():
    """Too close to the prior, alpha falls; too far, it rises."""
    for target, rises in ((0.0, True), (20.0, False)):
        torch.manual_seed(0)
        loss = own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=target)
        loss(make_batch("continuous", 32))["loss_alpha"].backward()
        assert (loss.log_alpha.grad.item() < 0) == rises


def test_an_actor_is_a_prior_as_it_is():
    """It has in_keys and get_dist; PolicyPrior is for policies that have several steps."""
    reference = box_actor()
    outs = []
    for prior in (reference, PolicyPrior(reference)):
        torch.manual_seed(0)
        outs.append(own_loss("continuous", prior_network=prior)(make_batch("continuous", 6)))
    torch.testing.assert_close(outs[0]["loss_actor"], outs[1]["loss_actor"])


def test_the_prior_of_a_run_stays_as_it_was_while_the_loss_learns():
    torch.manual_seed(0)
    expert = box_actor()
    loss = own_loss("continuous", prior_network=PolicyPrior(expert))
    saved = {name: value.clone() for name, value in loss.state_dict().items() if "prior" in name}
    assert len(saved) == len(list(expert.parameters()))
    optimizer = torch.optim.Adam(loss.parameters(), 0.1)
    for _ in range(3):
        out = loss(make_batch("continuous", 6))
        sum(out[name] for name in ("loss_actor", "loss_qvalue", "loss_alpha")).backward()
        optimizer.step()
        optimizer.zero_grad()
    for name, value in saved.items():
        assert torch.equal(loss.state_dict()[name], value)
    with torch.no_grad():
        for weight in expert.parameters():
            weight.fill_(0.1)
    other = own_loss("continuous", prior_network=PolicyPrior(expert))
    other.load_state_dict(loss.state_dict())
    torch.manual_seed(1)
    wanted = loss(make_batch("continuous", 6))
    torch.manual_seed(1)
    torch.testing.assert_close(
        other(make_batch("continuous", 6))["kl"], wanted["kl"], rtol=0, atol=0
    )


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
        data = make_batch("boltzmann", 64)
        out = loss(data)
        out["loss_actor"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert out["kl"].item() < 1e-3
