from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, TensorDictModule
from torch import nn
from torch.distributions import Categorical, Normal
from torchrl.data import Bounded, MultiCategorical, UnboundedContinuous
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import (
    IndependentNormal,
    OneHotCategorical,
    ProbabilisticActor,
    TanhNormal,
    TruncatedNormal,
)

from rlkit_sac.data import make_collector
from rlkit_sac.data.collect.recorded_policy import RecordedPolicy
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    BehaviorPolicy,
    GRUMemory,
    RandomBehavior,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    tanh_gaussian_actor,
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


@pytest.mark.parametrize("name", ACTORS)
@pytest.mark.parametrize("mode", [ExplorationType.RANDOM, ExplorationType.DETERMINISTIC])
def test_it_can_be_recorded(name: str, mode: ExplorationType) -> None:
    policy = BehaviorPolicy(ACTORS[name]())
    recorded = RecordedPolicy(policy, [3], exploration_type=mode)
    data = observations(3)
    for _ in range(2):
        torch.manual_seed(1)
        found = recorded({"observation": data["observation"]})
        torch.manual_seed(1)
        with set_exploration_type(mode), torch.no_grad():
            wanted = policy(data.clone())
        for key in policy.out_keys:
            assert torch.equal(found[key], wanted[key])
    assert recorded._run is not recorded._eager


@pytest.mark.parametrize(
    ("env_id", "actor", "keys"),
    [
        ("CartPole-v1", lambda: categorical_actor(4, 2, num_cells=[8]), [LOGITS]),
        ("Pendulum-v1", lambda: gaussian_actor(3, 1, num_cells=[8]), [LOC, SCALE]),
    ],
)
@pytest.mark.parametrize("kind", ["torchrl", "light"])
def test_collectors_store_the_distribution(env_id: str, actor, keys, kind: str) -> None:
    policy = BehaviorPolicy(actor())
    collector = make_collector(
        make_env(env_id), policy, frames_per_batch=20, total_frames=20, kind=kind
    )
    (batch,) = list(collector)
    collector.shutdown()
    wanted = policy(batch.select("observation").clone())
    for key in keys:
        torch.testing.assert_close(batch[key], wanted[key])
    if env_id == "Pendulum-v1":  # as it was drawn, not as the environment clips it
        assert not torch.equal(batch["action"], batch[LOC])


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


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="Linear without get_dist"):
        action_kind(nn.Linear(1, 1))
    for distribution in (OneHotCategorical, TanhNormal, TruncatedNormal):
        keys = ["logits"] if distribution is OneHotCategorical else ["loc", "scale"]
        net = TensorDictModule(nn.Identity(), ["observation"], keys[:1])
        actor = ProbabilisticActor(net, in_keys=keys[:1], distribution_class=distribution)
        with pytest.raises(ConfigError, match=f"distribution is {distribution.__name__}, wanted"):
            action_kind(actor)
    with pytest.raises(ConfigError, match="distribution is TanhGaussian, wanted"):
        BehaviorPolicy(tanh_gaussian_actor(3, [-1.0], [1.0]))


@pytest.mark.parametrize("partially", [False, True])
def test_composite_distributions_are_refused(partially: bool) -> None:
    parts = {"distribution_map": {"a": Categorical, "b": Normal}}
    net = TensorDictModule(nn.Identity(), ["observation"], ["params"])
    actor = ProbabilisticActor(
        net,
        in_keys=["params"],
        out_keys=["a", "b"],
        distribution_class=partial(CompositeDistribution, **parts)
        if partially
        else CompositeDistribution,
        distribution_kwargs={} if partially else parts,
    )
    with pytest.raises(ConfigError, match="is CompositeDistribution, wanted"):
        BehaviorPolicy(actor)


@pytest.mark.parametrize("stored", [False, True])
def test_the_state_of_a_memory_goes_on(stored: bool) -> None:
    torch.manual_seed(0)
    gru = GRUMemory(3, 2, in_key="observation", out_key="logits")
    actor = ProbabilisticActor(gru, in_keys=["logits"], distribution_class=Categorical)
    step = TensorDict(observation=torch.randn(5, 3), is_init=torch.zeros(5, 1) > 0, batch_size=[5])
    state = torch.randn(5, 1, 2) if stored else torch.zeros(5, 1, 2)
    if stored:
        step["recurrent_state"] = state
    out = BehaviorPolicy(actor)(step.clone())
    wanted = gru(step.set("recurrent_state", state))
    after = ("next", "recurrent_state")
    assert torch.equal(out[after], wanted[after])
    torch.testing.assert_close(out[LOGITS], wanted["logits"].log_softmax(-1))


def test_it_is_called_with_tensors_too() -> None:
    policy = BehaviorPolicy(gaussian_actor(3, 2))
    action, loc, scale = policy(observation=torch.ones(5, 3))
    assert action.shape == loc.shape == scale.shape == (5, 2)


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


def test_random_actions_have_the_moments_of_their_distribution() -> None:
    torch.manual_seed(0)
    out = RandomBehavior(Bounded(-1.0, 3.0, shape=[1]))(TensorDict(batch_size=[20_000]))
    assert out["action"].mean() == pytest.approx(1.0, abs=0.06)
    assert out["action"].std() == pytest.approx(2.0, abs=0.05)
    drawn = RandomBehavior(CategoricalSpec(3))(TensorDict(batch_size=[20_000]))["action"]
    assert drawn.bincount() / 20_000 == pytest.approx([1 / 3] * 3, abs=0.02)


def test_a_random_behavior_needs_plain_actions() -> None:
    for spec, message in (
        (UnboundedContinuous(2), r"the actions are UnboundedContinuous of the shape \[2\], wanted"),
        (MultiCategorical([2, 3]), r"the actions are MultiCategorical of the shape \[2\], wanted"),
        (
            Bounded(-1.0, 1.0, shape=[4, 2]),
            r"of the shape \[4, 2\], wanted those of one environment",
        ),
        (
            Bounded(-torch.inf, torch.inf, shape=[1]),
            r"dimension \[0\] has the bounds \[-inf, inf\]",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            RandomBehavior(spec)
