"""From an action spec and an option to the target entropy, in nats."""

import math

import pytest
import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
from torchrl.data import Bounded, Categorical, Composite, Unbounded

from rlkit_sac.modules import (
    TanhGaussian,
    categorical_actor,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.critics import action_value_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.losses import foreign_actor, foreign_critic

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
