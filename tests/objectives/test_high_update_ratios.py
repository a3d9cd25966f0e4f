"""Critics for many updates per frame: dropout, layer norms, random subsets of targets, means.

The references are written critic by critic, with the masks that dropout drew.
"""

from collections import Counter
from itertools import combinations

import pytest
import torch
from scipy.stats import chisquare
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from rlkit_sac.modules import action_value_critic, state_action_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.networks import (
    ACTION_DIM,
    OBSERVATION_DIM,
    NoisyTanhGaussian,
    make_actor,
    make_data,
)
from tests.objectives.references import Options, log_density_of_each

WIDTHS, RATE = [6, 5], 0.3


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What dropout multiplies with, in the order of its calls."""
    drawn, dropout = [], nn.functional.dropout

    def recording(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False):
        drawn.append(dropout(torch.ones_like(x), p, training))
        return x * drawn[-1]

    monkeypatch.setattr(nn.functional, "dropout", recording)
    return drawn


def make_loss(critics: int, *, dropout: float = RATE, **options) -> ContinuousSACLoss:
    shape = {"num_cells": WIDTHS, "layer_norm": True, "dropout": dropout}
    members = [
        state_action_critic(OBSERVATION_DIM, ACTION_DIM, **shape).double() for _ in range(critics)
    ]
    for parameter in (each for member in members for each in member.parameters()):
        nn.init.normal_(parameter, std=0.5)  # layer norms begin alike
    loss = ContinuousSACLoss(make_actor(), members, fixed_alpha=True, alpha_init=0.3, **options)
    for target in loss.target_qvalue_network_params.values(True, True):
        target.data.add_(0.2 * torch.randn_like(target))
    return loss


def value(params: TensorDict, critic: int, x: Tensor, masks: list[Tensor]) -> Tensor:
    """One critic: linear map, mask, layer norm and rectifier for each hidden layer."""
    layers = params["module"]
    places = sorted(map(int, layers.keys()))
    for number, mask in enumerate(masks):
        linear, norm = (layers[str(place)] for place in places[2 * number : 2 * number + 2])
        x = x @ linear["weight"][critic].T + linear["bias"][critic]
        x = x * mask[critic].T
        mean = x.mean(-1, keepdim=True)
        deviation = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).sqrt()
        x = (x - mean) / deviation * norm["weight"][critic] + norm["bias"][critic]
        x = x.clamp(min=0)
    last = layers[str(places[-1])]
    return x @ last["weight"][critic].T + last["bias"][critic]


def leaves(params) -> TensorDict:
    return params.data.clone().apply(lambda each: each.requires_grad_())


@pytest.mark.parametrize(
    ("critics", "options"),
    [(2, {"policy_reduction": "mean"}), (4, {"policy_reduction": "mean", "target_subset": 2})],
    ids=["DroQ", "REDQ with dropout"],
)
def test_losses_and_gradients_are_those_of_critics_one_by_one(
    masks, monkeypatch, critics, options
) -> None:
    torch.manual_seed(0)
    loss = make_loss(critics, **options)
    order = torch.tensor([2, 0, 3, 1])
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: order)
    members = order[:2].tolist() if "target_subset" in options else range(critics)
    data = make_data("continuous", 9)
    noise, next_noise = torch.randn(2, 9, ACTION_DIM).double()
    NoisyTanhGaussian.queue = [next_noise, noise]
    out = loss(data)
    for_target, for_taken, for_actor = (masks[place : place + 2] for place in (0, 2, 4))
    assert len(masks) == 6

    plain = {"": leaves(loss.qvalue_network_params), "actor": leaves(loss.actor_network_params)}
    net = plain["actor"]["module", "0", "module", "0"]
    weights = {
        f"actor.{name}{number}": net[layer, kind]
        for number, layer in (("1", "0"), ("2", "2"))
        for name, kind in (("w", "weight"), ("b", "bias"))
    }
    o = Options("continuous")
    with torch.no_grad():
        states = data["next", "observation"]
        action, log_probs = log_density_of_each(weights, states, next_noise, o)
        x = torch.cat([states, action], -1)
        target = loss.target_qvalue_network_params.data
        q = []
        for place, member in enumerate(members):
            own = [mask[place].expand(critics, -1, -1) for mask in for_target]
            q.append(value(target, member, x, own))
        soft = torch.stack(q).min(0).values - 0.3 * log_probs.sum(-1, keepdim=True)
        y = data["next", "reward"] + 0.99 * (~data["next", "terminated"]).double() * soft
    x = torch.cat([data["observation"], data["action"]], -1)
    errors = torch.stack([value(plain[""], i, x, for_taken) - y for i in range(critics)])
    loss_qvalue = errors.square().mean((1, 2)).sum()
    action, log_probs = log_density_of_each(weights, data["observation"], noise, o)
    x = torch.cat([data["observation"], action], -1)
    mean = sum(value(plain[""].detach(), i, x, for_actor) for i in range(critics)) / critics
    loss_actor = (0.3 * log_probs.sum(-1) - mean[:, 0]).mean()

    close = {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(out["loss_qvalue"], loss_qvalue, **close)
    torch.testing.assert_close(out["loss_actor"], loss_actor, **close)
    td_error = errors.detach().square().sum(0).sqrt()[:, 0]
    torch.testing.assert_close(data["td_error"], td_error, **close)
    for name, total, params in (
        ("loss_qvalue", loss_qvalue, (loss.qvalue_network_params, plain[""])),
        ("loss_actor", loss_actor, (loss.actor_network_params, plain["actor"])),
    ):
        found, wanted = (list(each.values(True, True)) for each in params)
        found = torch.autograd.grad(out[name], found, retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad(total, wanted), **close)


def test_masks_are_of_each_critic_and_of_training_alone(masks) -> None:
    loss = make_loss(3, dropout=0.5)
    data = make_data("continuous", 40)
    loss.eval()
    NoisyTanhGaussian.queue = [torch.zeros(40, ACTION_DIM).double() for _ in range(2)]
    loss(data.clone())
    assert all(bool((mask == 1).all()) for mask in masks)
    masks.clear()
    loss.train()
    NoisyTanhGaussian.queue = [torch.zeros(40, ACTION_DIM).double() for _ in range(2)]
    loss(data.clone())
    for mask in masks:
        assert mask.shape[0] == 3
        assert not any(torch.equal(mask[i], mask[j]) for i, j in combinations(range(3), 2))
        assert set(mask.unique().tolist()) == {0.0, 2.0}


class Constant(nn.Module):
    """A critic whose value is a parameter of its own."""

    def __init__(self, level: float) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(level, dtype=torch.float64))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.level.expand(*observation.shape[:-1], 1)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("size", [pytest.param(1, marks=SLOW), 2, pytest.param(3, marks=SLOW)])
def test_every_subset_of_the_targets_is_as_likely(size: int) -> None:
    """Through vmap, by the least level of each."""
    torch.manual_seed(0)
    levels = [1.0, 2.0, 4.0, 8.0, 16.0]
    keys = {"in_keys": ["observation", "action"], "out_keys": ["state_action_value"]}
    critics = [TensorDictModule(Constant(level), **keys) for level in levels]
    loss = ContinuousSACLoss(
        make_actor(),
        critics,
        target_subset=size,
        use_entropy_reward=False,
        diagnostics=True,
        gamma=1.0,
    )
    data = make_data("continuous", 2)
    data["next", "reward"].zero_()
    data["next", "terminated"].zero_()
    least = Counter()
    for _ in range(600):
        NoisyTanhGaussian.queue = [torch.zeros(2, ACTION_DIM).double() for _ in range(2)]
        with torch.no_grad():
            least[loss(data.clone())["target_mean"].item()] += 1
    subsets = list(combinations(levels, size))
    wanted = Counter(min(subset) for subset in subsets)
    assert least.keys() == wanted.keys()
    levels = sorted(wanted)
    counts, shares = [least[each] for each in levels], [wanted[each] for each in levels]
    assert chisquare(counts, [600 * share / len(subsets) for share in shares]).pvalue > 1e-3


def test_a_discrete_policy_goes_by_the_mean() -> None:
    torch.manual_seed(0)
    options = {"num_cells": [6], "layer_norm": True, "dropout": 0.9}
    critics = [action_value_critic(3, 4, **options).double() for _ in range(3)]
    loss = DiscreteSACLoss(critics, policy_reduction="mean", alpha_init=0.2)
    states = TensorDict(observation=3 * torch.randn(50, 3).double(), batch_size=[50])
    for critic in critics:
        critic.eval()
    mean = sum(critic(states.clone())["action_value"] for critic in critics) / 3
    policy = loss.policy()
    policy.train()
    # Acting is without dropout, even in training mode.
    torch.testing.assert_close(policy.action_value(states), mean)
