"""Policies made from critics: what they do, what they share, and how they leave the package."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.modules import PlainPolicy
from tests.objectives.losses import foreign_actor, own_loss
from tests.objectives.masked_networks import masked_values

CONTINUOUS, DISCRETE = ("action", "continuous"), ("action", "discrete")
KINDS = ["continuous", "boltzmann", "categorical", "hybrid"]


def states(*batch: int) -> TensorDict:
    return TensorDict(observation=torch.randn(*batch, 4), batch_size=batch)


def act(policy, data: TensorDict, mode: ExplorationType) -> TensorDict:
    with set_exploration_type(mode), torch.no_grad():
        return policy(data.copy())


def reduced_values(loss, data: TensorDict, mask: list | None = None) -> torch.Tensor:
    """The values ``[*, K]`` that the policy goes by, by the critics one after the other.

    With a mask there is a call for each discrete action.
    """
    values, inputs = [], data.select("observation", "action", strict=False)
    for i in range(loss.num_qvalue_nets):
        with torch.no_grad(), loss.qvalue_network_params[i].to_module(loss.qvalue_network):
            if mask is None:
                values.append(loss.qvalue_network(inputs.copy())["action_value"])
            else:
                values.append(masked_values(loss.qvalue_network, inputs, mask))
    q, weights = torch.stack(values), loss.reward_weights
    if loss.critics.reduction == "mean":
        q = q.mean(0)
    elif weights is None:
        q = q.min(0).values
    else:
        q = torch.where(weights < 0, q.max(0).values, q.min(0).values)
    return q if weights is None else (q * weights).sum(-1)


# ------------------------------------------------------------------ acting


@pytest.mark.parametrize("reward_dim", [1, 2])
@pytest.mark.parametrize("batch", [(), (6,), (2, 3)])
@pytest.mark.parametrize("kind", ["boltzmann", "hybrid"])
def test_the_deterministic_mode_takes_the_best_action(kind, batch, reward_dim):
    torch.manual_seed(0)
    weights = None if reward_dim == 1 else [1.0, -0.5]
    loss = own_loss(kind, reward_dim, reward_weights=weights)
    data = states(*batch)
    for mode in (ExplorationType.DETERMINISTIC, ExplorationType.MODE):
        out = act(loss.policy(), data, mode)
        key = "action"
        if kind == "hybrid":
            key = DISCRETE
            mean = loss.get_stateful_net("actor_network").get_dist(data.copy()).mode
            assert torch.equal(out[CONTINUOUS], mean)
        best = reduced_values(loss, out).argmax(-1)
        assert torch.equal(out[key], best)
        assert out[key].dtype == torch.int64
        assert out[key].shape == batch


@pytest.mark.parametrize("kind", ["boltzmann", "hybrid"])
def test_samples_follow_the_values_and_the_temperature(kind):
    torch.manual_seed(0)
    loss = own_loss(kind, alpha_init=0.05)
    policy, data = loss.policy(), states(1).expand(50_000)
    if kind == "hybrid":  # d depends on the c that was sampled
        data = data.clone().set(CONTINUOUS, torch.rand(1, 2).expand(50_000, 2))
        policy = policy[-1]
    with set_exploration_type(ExplorationType.RANDOM), torch.no_grad():
        out = policy(data.clone())
    index = out[DISCRETE if kind == "hybrid" else "action"]
    wanted = (reduced_values(loss, data[:1]) / 0.05).softmax(-1)[0]
    frequency = index.bincount(minlength=3) / len(index)
    torch.testing.assert_close(frequency, wanted, rtol=0, atol=0.01)


# ------------------------------------------------------------------ live parameters


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "hybrid"])
def test_policies_follow_the_loss_whatever_happens_to_it(kind, fixed):
    torch.manual_seed(0)
    data = states(5)
    for change in (
        lambda loss: None,
        lambda loss: loss.double(),
        lambda loss: loss.load_state_dict(own_loss(kind, fixed_alpha=fixed).state_dict()),
        lambda loss: loss.double().float(),
    ):
        loss = own_loss(kind, fixed_alpha=fixed)
        policy = loss.policy()
        change(loss)
        name = "log_alpha_discrete" if kind == "hybrid" else "log_alpha"
        with torch.no_grad():
            for p in loss.parameters():
                p.add_(0.1 * torch.randn_like(p))
            getattr(loss, name).fill_(-0.7)
        if kind != "continuous":
            boltzmann = policy[-1] if kind == "hybrid" else policy
            factor = "discrete" if kind == "hybrid" else ""
            assert boltzmann.alpha() == pytest.approx(loss.alpha(factor).item())
        cast = data.to(getattr(loss, name).dtype)
        found = act(policy, cast, ExplorationType.DETERMINISTIC)
        fresh = act(loss.policy(), cast, ExplorationType.DETERMINISTIC)
        assert (found == fresh).all()
        live = {p.data_ptr() for p in loss.parameters()}
        own = {p.data_ptr() for p in policy.parameters()}
        assert own <= live


def test_reward_weights_reach_policies_that_exist_already():
    torch.manual_seed(0)
    loss = own_loss("boltzmann", reward_dim=2)
    policy, data = loss.policy(), states(64)
    for weights in ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.3]):
        loss.reward_weights = weights
        found = act(policy, data, ExplorationType.DETERMINISTIC)["action"]
        assert torch.equal(found, reduced_values(loss, data).argmax(-1))
        assert "reward_weights.value" in policy.state_dict()
        assert not any("reward_weights" in name for name in loss.state_dict())


# ------------------------------------------------------------------ epsilon-greedy


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_of_zero_is_greedy_and_of_one_samples(kind):
    torch.manual_seed(0)
    loss, data = own_loss(kind), states(200)
    greedy = act(loss.policy(), data, ExplorationType.DETERMINISTIC)
    assert (act(loss.policy(epsilon=0.0), data, ExplorationType.DETERMINISTIC) == greedy).all()
    same = (
        act(loss.policy(epsilon=1.0), data, ExplorationType.DETERMINISTIC)["action"]
        == (greedy["action"])
    )
    keys = [CONTINUOUS[1], DISCRETE[1]] if kind == "hybrid" else [None]
    for key in keys:
        assert (same if key is None else same[key]).float().mean() < 0.7


def test_log_probabilities_of_a_nested_action_are_no_action():
    policy = foreign_actor(key=CONTINUOUS)
    assert ("action", "continuous_log_prob") in policy.out_keys
    plain = PlainPolicy(policy)
    assert plain.action_keys == plain.out_keys == [CONTINUOUS]
    assert plain(torch.zeros(5, 4)).shape == (5, 2)
