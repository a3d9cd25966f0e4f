"""From an action spec and an option to the target entropy, in nats."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
from torch import nn
from torch.distributions import Uniform
from torchrl.data import Bounded, Categorical, Composite, Unbounded

from rlkit_sac.modules import (
    SameActionPrior,
    TanhGaussian,
    UniformPrior,
    categorical_actor,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.critics import action_value_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.losses import foreign_actor, foreign_critic, own_loss
from tests.objectives.prior_references import HYBRID, INDEX

BOX = Bounded(torch.tensor([-2.0, 0.1]), torch.tensor([0.5, 0.3]), (2,))
AUTO = math.log(0.25) + math.log(0.02)


def resolve(option, spec) -> float:
    """The target of a loss whose actor has no spec of its own."""
    networks = foreign_actor(spec=None), foreign_critic()
    return ContinuousSACLoss(*networks, action_spec=spec, target_entropy=option).target_entropy


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("auto", AUTO),
        ("neg_dim", -2.0),
        ("half_neg_dim", -1.0),
        (-1.25, -1.25),
        (3, 3.0),
        (lambda spec: 0.5 * spec.shape.numel(), 1.0),
        (lambda spec: torch.tensor(-0.5), -0.5),
    ],
)
def test_options(option, wanted: float) -> None:
    found = resolve(option, BOX)
    assert type(found) is float
    assert found == pytest.approx(wanted, abs=1e-6)


def test_every_element_of_a_matrix_action_is_a_dimension() -> None:
    spec = Bounded(-1.0, 1.0, (2, 3))
    assert resolve("auto", spec) == pytest.approx(6 * math.log(0.2), abs=1e-6)
    assert resolve("neg_dim", spec) == -6.0


# ------------------------------------------------------------------ what no policy can have


def entropies(*options: Any) -> Callable[[float], dict[str, Any]]:
    """The option of a loss, in which ``None`` stands for the target."""
    return lambda nats: {"target_entropy": [nats if each is None else each for each in options]}


def one(nats: float) -> dict[str, Any]:
    return {"target_entropy": nats}


def divergence(prior: nn.Module) -> Callable[[float], dict[str, Any]]:
    return lambda nats: {"prior_network": prior, "target_kld_discrete": nats}


def largest_divergence(prior: nn.Module) -> float:
    """That of a policy which always takes the action that the prior takes least."""
    states = TensorDict(is_init=torch.tensor([[True], [False]]), batch_size=[2])
    states["prev_action"] = torch.tensor([0, 1])
    return -prior.get_dist(states).logits.min().item()


IN_BOX = Uniform(-torch.ones(2), torch.ones(2)).entropy().sum().item()
AMONG = torch.distributions.Categorical(torch.ones(3)).entropy().item()
UNIFORM, SAME = UniformPrior(INDEX), SameActionPrior(INDEX, 0.7)
POSSIBLE = {
    "continuous": ("continuous", one, IN_BOX),
    "value network": ("value", one, IN_BOX),
    "critics of the package, without a spec": ("boltzmann", one, AMONG),
    "actor": ("categorical", one, AMONG),
    "discrete of two": ("hybrid", entropies(None, -1.0), AMONG),
    "continuous of two": ("hybrid", entropies(0.5, None), IN_BOX),
    "uniform prior": ("boltzmann", divergence(UNIFORM), largest_divergence(UNIFORM)),
    "prior that repeats": ("categorical", divergence(SAME), largest_divergence(SAME)),
    "prior of two": ("hybrid", divergence(UniformPrior(HYBRID)), AMONG),
}


@pytest.mark.parametrize(("kind", "options", "most"), POSSIBLE.values(), ids=POSSIBLE)
def test_a_target_that_no_policy_can_have_is_warned_of_with_the_most_that_is_possible(
    kind, options, most
) -> None:
    for nats, fixed, told in ((most - 0.01, False, 0), (most + 0.01, False, 1), (9.0, True, 0)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            own_loss(kind, **options(nats), fixed_alpha=fixed)
        texts = [str(each.message) for each in found if "come to rest" in str(each.message)]
        assert len(texts) == told
        assert all(f" to {most:.4g} are possible" in text for text in texts)


def test_a_named_target_is_warned_of_in_a_box_that_is_too_narrow_for_it() -> None:
    with pytest.warns(UserWarning, match=r"-2 nats, but only -inf to -4\.605 are possible"):
        resolve("neg_dim", Bounded(0.0, 0.1, (2,)))


# ------------------------------------------------------------------ specs of batched environments

ONE = Bounded(-torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))


def target(spec, option):
    actor = tanh_gaussian_actor(3, [-1.0, -2.0], [1.0, 3.0], num_cells=[4])
    critic = state_action_critic(3, 2, num_cells=[4])
    return ContinuousSACLoss(actor, critic, action_spec=spec, target_entropy=option).target_entropy


@pytest.mark.parametrize("batch", [(64,), (4, 16)])
@pytest.mark.parametrize("option", ["auto", "neg_dim", lambda spec: -spec.shape.numel()])
def test_the_target_entropy_is_that_of_one_action(batch, option):
    wanted = target(ONE, option)
    specs = [Composite(action=ONE.expand(*batch, 2), shape=batch), ONE.expand(*batch, 2)]
    if option != "auto":
        specs.append(Unbounded((*batch, 2)))
    assert [target(spec, option) for spec in specs] == [wanted] * len(specs)


def test_without_a_spec_of_the_actor_the_reading_is_told():
    actor = tanh_gaussian_actor(3, [-1.0, -2.0], [1.0, 3.0], num_cells=[4])
    plain = ProbabilisticTensorDictSequential(
        actor.module[0],
        ProbabilisticTensorDictModule(
            ["loc", "scale"], ["action"], distribution_class=TanhGaussian
        ),
    )
    critic = state_action_critic(3, 2, num_cells=[4])
    with pytest.warns(UserWarning, match=r"one action of 128 .*env\.action_spec_unbatched"):
        ContinuousSACLoss(plain, critic, action_spec=ONE.expand(64, 2))


def test_one_that_contradicts_the_actor_is_told():
    with pytest.warns(UserWarning, match="taken as one action of 3 dimensions"):
        target(Bounded(-1.0, 1.0, (3,)), "neg_dim")


def test_discrete_ones_have_the_number_of_actions():
    found = [
        DiscreteSACLoss(
            categorical_actor(3, 5, num_cells=[4]),
            action_value_critic(3, 5, num_cells=[4]),
            action_spec=Categorical(5, shape=shape),
        ).target_entropy
        for shape in ((), (64,))
    ]
    assert found[0] == found[1]
