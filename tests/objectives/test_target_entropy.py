"""From an action spec and an option to the target entropy, in nats."""

import math

import pytest
import torch
from torchrl.data import Bounded, Categorical, Composite, Unbounded

from rlkit_sac.errors import ConfigError
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


def test_min_prob() -> None:
    box = Bounded(-1.0, 1.0, (17,))
    assert round(resolve("auto", box, "action", min_prob=0.184), 4) == -16.9944
    assert resolve("auto", box, "action", min_prob=1) == pytest.approx(17 * math.log(2), abs=1e-6)


def test_a_number_needs_no_spec() -> None:
    assert resolve(-3.0, None, "action") == -3.0


@pytest.mark.parametrize("batch", [(), (4,), (4, 3)])
@pytest.mark.parametrize("option", ["auto", "neg_dim"])
def test_a_composite_spec_counts_one_action(batch: tuple[int, ...], option: str) -> None:
    spec = Composite(action=BOX.expand(*batch, 2), other=Unbounded((*batch, 5)), shape=batch)
    assert resolve(option, spec, "action") == pytest.approx(resolve(option, BOX, "action"))


def test_a_nested_action_of_a_batched_spec() -> None:
    inner = Composite(move=BOX.expand(4, 2), shape=(4,))
    spec = Composite(agent=inner, shape=(4,))
    assert resolve("auto", spec, ("agent", "move")) == pytest.approx(AUTO, abs=1e-6)


def test_a_callable_gets_the_spec_of_one_action() -> None:
    seen = []

    def option(spec) -> float:
        seen.append(spec)
        return 0.0

    resolve(option, Composite(action=BOX.expand(4, 2), shape=(4,)), "action")
    assert seen[0].shape == (2,)
    assert seen[0].space.high.tolist() == pytest.approx([0.5, 0.3])


def test_every_element_of_a_matrix_action_is_a_dimension() -> None:
    spec = Bounded(-1.0, 1.0, (2, 3))
    assert resolve("auto", spec, "action") == pytest.approx(6 * math.log(0.2), abs=1e-6)
    assert resolve("neg_dim", spec, "action") == -6.0


@pytest.mark.parametrize(
    ("option", "spec", "message"),
    [
        ("max", BOX, "target_entropy 'max' is not 'auto', 'neg_dim', a number or a function"),
        (True, BOX, "target_entropy True is not 'auto'"),
        (None, BOX, "target_entropy None is not 'auto'"),
        (math.nan, BOX, "target_entropy must be finite, not nan"),
        (-math.inf, BOX, "target_entropy must be finite, not -inf"),
        ("auto", None, "target_entropy='auto' needs the action spec: pass action_spec="),
        ("neg_dim", None, "target_entropy='neg_dim' needs the action spec"),
        ("auto", Composite(other=BOX), "target_entropy='auto' needs the action spec"),
        ("auto", Composite(action=None), "target_entropy='auto' needs the action spec"),
        ("auto", Unbounded((2,)), "needs a bounded action spec, not Unbounded"),
        ("auto", Categorical(3), "needs a bounded action spec, not Categorical"),
    ],
)
def test_refusals(option, spec, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(option, spec, "action")


@pytest.mark.parametrize(
    ("low", "high"), [(-math.inf, 1.0), (-1.0, math.inf), (1.0, 1.0), (1.0, -1.0)]
)
def test_bounds_without_a_width_are_refused(low: float, high: float) -> None:
    spec = Bounded(torch.tensor([-1.0, low]), torch.tensor([1.0, high]), (2,))
    with pytest.raises(ConfigError, match=r"action dimension \[1\] has the bounds \[.*finite ones"):
        resolve("auto", spec, "action")
    with pytest.raises(ConfigError, match=r"action dimension \[1\]"):
        resolve(-2.0, spec, "action")  # no policy can act in such a box


@pytest.mark.parametrize("min_prob", [0.0, -0.1, 1.1, math.nan])
def test_a_fraction_outside_its_range_is_refused(min_prob: float) -> None:
    with pytest.raises(ConfigError, match=r"min_prob must be in \(0, 1\], not"):
        resolve("auto", BOX, "action", min_prob=min_prob)
