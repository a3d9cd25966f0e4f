"""From an action spec and an option to the target entropy, in nats."""

import math

import pytest
import torch
from torchrl.data import Bounded

from rlkit_sac.objectives import ContinuousSACLoss
from tests.objectives.losses import foreign_actor, foreign_critic

BOX = Bounded(torch.tensor([-2.0, 0.1]), torch.tensor([0.5, 0.3]), (2,))
AUTO = math.log(0.25) + math.log(0.02)


def resolve(option, spec, key, **options) -> float:
    """The target of a loss whose actor has no spec of its own."""
    actor = foreign_actor(key=key, spec=None)
    loss = ContinuousSACLoss(
        actor, foreign_critic(), action_spec=spec, target_entropy=option, **options
    )
    return loss.target_entropy


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
    found = resolve(option, BOX, "action")
    assert type(found) is float
    assert found == pytest.approx(wanted, abs=1e-6)


def test_every_element_of_a_matrix_action_is_a_dimension() -> None:
    spec = Bounded(-1.0, 1.0, (2, 3))
    assert resolve("auto", spec, "action") == pytest.approx(6 * math.log(0.2), abs=1e-6)
    assert resolve("neg_dim", spec, "action") == -6.0
