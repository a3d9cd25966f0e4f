from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical, Normal
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import IndependentNormal, ProbabilisticActor

from rlkit_sac.modules import (
    BehaviorPolicy,
    RandomBehavior,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
)
from rlkit_sac.modules.behavior import action_kind

ACTORS = {
    "discrete": lambda: categorical_actor(3, 4, num_cells=[8]),
    "continuous": lambda: gaussian_actor(3, 2, num_cells=[8]),
    "discrete, shared": lambda: categorical_actor_critic(3, 4, num_cells=[8]).get_policy_operator(),
    "continuous, shared": lambda: gaussian_actor_critic(3, 2, num_cells=[8]).get_policy_operator(),
}
LOGITS, LOC, SCALE = ("behavior", "logits"), ("behavior", "loc"), ("behavior", "scale")


def observations(*batch: int) -> TensorDict:
    return TensorDict(observation=torch.randn(*batch, 3), batch_size=batch)


@pytest.mark.parametrize("name", ACTORS)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_the_distribution_is_written_beside_the_action(name: str, batch: tuple[int, ...]) -> None:
    policy = BehaviorPolicy(ACTORS[name]())
    data = observations(*batch)
    out = policy(data.clone())
    assert set(out.keys(True, True)) == {"observation", *policy.out_keys}
    dist = policy.actor.get_dist(data.clone())
    if name.startswith("discrete"):
        assert out["action"].shape == batch
        assert torch.equal(out["action"], dist.probs.argmax(-1))
        torch.testing.assert_close(out[LOGITS], dist.probs.log())
    else:
        assert out["action"].shape == (*batch, 2)
        assert torch.equal(out["action"], out[LOC])
        assert torch.equal(out[SCALE], dist.stddev)


@pytest.mark.parametrize("name", ACTORS)
def test_actions_are_drawn_from_what_is_written(name: str) -> None:
    policy = BehaviorPolicy(ACTORS[name]())
    data = observations(1).expand(20_000).clone()
    with set_exploration_type(ExplorationType.RANDOM), torch.no_grad():
        out = policy(data)
    if name.startswith("discrete"):
        share = torch.bincount(out["action"], minlength=4) / 20_000
        torch.testing.assert_close(share, out[LOGITS][0].exp(), rtol=0, atol=0.02)
    else:
        noise = (out["action"] - out[LOC]) / out[SCALE]
        assert noise.mean(0).abs().max() < 0.03
        assert (noise.std(0) - 1).abs().max() < 0.03


@pytest.mark.parametrize(
    ("distribution", "kind"),
    [(Categorical, "discrete"), (IndependentNormal, "continuous"), (Normal, "continuous")],
)
def test_the_kind_is_that_of_the_distribution(distribution: type, kind: str) -> None:
    keys = ["logits"] if kind == "discrete" else ["loc", "scale"]
    net = TensorDictModule(lambda x: (x,) * len(keys), ["observation"], keys)
    actor = ProbabilisticActor(net, in_keys=keys, distribution_class=distribution)
    assert action_kind(actor) == kind
    actor = ProbabilisticActor(net, in_keys=keys, distribution_class=partial(distribution))
    assert action_kind(actor) == kind


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_random_behavior_tells_its_distribution(batch: tuple[int, ...]) -> None:
    discrete = RandomBehavior(CategoricalSpec(4))(TensorDict(batch_size=batch))
    assert discrete["action"].shape == batch
    assert discrete["action"].dtype == torch.int64
    assert torch.equal(discrete[LOGITS], torch.zeros(*batch, 4))
    low, high = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 10.0])
    continuous = RandomBehavior(Bounded(low, high))(TensorDict(batch_size=batch))
    assert continuous["action"].shape == (*batch, 2)
    assert torch.equal(continuous[LOC], torch.tensor([0.0, 5.0]).expand(*batch, 2))
    assert torch.equal(continuous[SCALE], torch.tensor([2.0, 5.0]).expand(*batch, 2))
