"""Order, norms, errors and state of an update, on a loss with two parameters."""

import math

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.objectives import LossModule

from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.updates import LossStep, TargetStep, Update


class Bilinear(LossModule):
    """Two parameters and two losses, x y and x y z, whose gradients one sees at a glance."""

    def __init__(self, x: float = 1.0, y: float = 2.0) -> None:
        super().__init__()
        self.x, self.y = (nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in (x, y))
        self.calls = 0

    @property
    def out_keys(self) -> list[str]:
        return ["loss_x", "loss_y", "x_seen"]

    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        self.calls += 1
        product = self.x * self.y
        tensordict["x_before"] = self.x.detach().clone()
        return TensorDict(
            loss_x=product, loss_y=product * tensordict["z"], x_seen=self.x.detach().clone()
        )

    @property
    def values(self) -> list[float]:
        return [self.x.item(), self.y.item()]


class Witness:
    """Stands in for a target updater and notes what the parameters are when it is called."""

    def __init__(self, loss: Bilinear) -> None:
        self.loss, self.seen = loss, []

    def step(self) -> None:
        self.seen.append(self.loss.values)


Z = TensorDict(z=torch.tensor(1.0, dtype=torch.float64))
X, Y = LossStep(("loss_x",), ("x",)), LossStep(("loss_y",), ("y",))


def bilinear(*steps: LossStep | TargetStep, rate: float = 0.1, **options):
    loss = Bilinear()
    optimizers = {"x": torch.optim.SGD([loss.x], rate), "y": torch.optim.SGD([loss.y], rate)}
    witness = Witness(loss)
    return loss, witness, Update(loss, optimizers, steps, target_updater=witness, **options)


# ---------------------------------------------------------------------- order


def test_steps_of_one_forward_use_gradients_taken_before_any_step() -> None:
    loss, _, update = bilinear(X, Y)
    update(Z)
    # dL/dx = y = 2 and dL/dy = x = 1, both at the start.
    assert loss.values == pytest.approx([0.8, 1.9], abs=1e-15)
    assert loss.calls == 1


def test_recomputed_steps_see_what_the_step_before_left() -> None:
    loss, _, update = bilinear(X, Y, recompute=True)
    scalars = update(batch := Z.clone())
    assert loss.values == pytest.approx([0.8, 2 - 0.1 * 0.8], abs=1e-15)
    assert batch["x_before"].item() == 1.0
    assert loss.calls == 2
    assert scalars["loss_y"].item() == 0.8 * 2
    assert scalars["x_seen"].item() == 1.0  # all but the losses is from the first pass
    loss, _, update = bilinear(Y, X, recompute=True)
    update(Z)
    assert loss.values == pytest.approx([1 - 0.1 * 1.9, 1.9], abs=1e-15)


def test_losses_are_computed_anew_from_a_step_on_whether_it_is_due_or_not() -> None:
    fresh = LossStep(("loss_x",), ("x",), period=2, recompute=True)
    after = LossStep(("loss_y",), ("x",))
    loss, _, update = bilinear(Y, fresh, after)
    update(Z)
    y = 2 - 0.1 * 1
    assert loss.values == pytest.approx([1 - 0.1 * y, y], abs=1e-15)
    update(Z)
    x, y = 1 - 0.1 * y, y - 0.1 * (1 - 0.1 * y)
    assert loss.values == pytest.approx([x - 0.1 * y - 0.1 * y, y], abs=1e-15)
    assert loss.calls == 4


def test_a_step_minimizes_the_sum_of_its_losses() -> None:
    loss, _, update = bilinear(LossStep(("loss_x", "loss_y"), ("x", "y")))
    scalars = update(TensorDict(z=torch.tensor(3.0, dtype=torch.float64)))
    assert loss.values == pytest.approx([1 - 0.1 * 2 * 4, 2 - 0.1 * 1 * 4], abs=1e-15)
    assert scalars["loss_x"].item() == 2.0  # the losses are reported one by one
    assert scalars["loss_y"].item() == 6.0


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        ((TargetStep(), X, Y), [1.0, 2.0]),
        ((X, TargetStep(), Y), [0.8, 2.0]),
        ((X, Y, TargetStep()), [0.8, None]),
    ],
)
def test_the_targets_move_at_their_place_in_the_order(steps, seen, recompute: bool) -> None:
    loss, witness, update = bilinear(*steps, recompute=recompute)
    update(Z)
    assert witness.seen == [pytest.approx([seen[0], seen[1] or loss.y.item()], abs=1e-15)]
    assert loss.x.item() == pytest.approx(0.8, abs=1e-15)


@pytest.mark.parametrize("recompute", [False, True])
def test_periods(recompute: bool) -> None:
    every_second, every_third = LossStep(("loss_y",), ("y",), period=2), TargetStep(period=3)
    loss, witness, update = bilinear(X, every_second, every_third, recompute=recompute)
    moved, reported, targets = [], [], []
    for number in range(1, 7):
        before, calls = loss.values, len(witness.seen)
        scalars = update(Z)
        moved += [number] if loss.y.item() != before[1] else []
        reported += [number] if "grad_norm_y" in scalars else []
        targets += [number] if len(witness.seen) > calls else []
        assert loss.x.item() != before[0]
        assert {"loss_x", "loss_y", "grad_norm_x"} <= set(scalars)
    assert moved == reported == [2, 4, 6]
    assert targets == [3, 6]
    assert update.count == 6


# ---------------------------------------------------------------------- norms


def test_the_norm_is_bounded_for_each_optimizer_and_reported_before_clipping() -> None:
    loss, _, update = bilinear(X, Y, max_grad_norm=1.5)
    scalars = update(Z)
    assert scalars["grad_norm_x"].item() == pytest.approx(2.0, abs=1e-12)
    assert scalars["grad_norm_y"].item() == pytest.approx(1.0, abs=1e-12)
    assert loss.x.item() == pytest.approx(1 - 0.1 * 1.5, abs=1e-6)
    assert loss.y.item() == pytest.approx(1.9, abs=1e-12)  # below the bound: as it is


# ---------------------------------------------------------------------- refusals


def test_an_optimizer_that_no_loss_reaches_is_named():
    loss = Bilinear()
    stranger = nn.Parameter(torch.zeros((), dtype=torch.float64))
    update = Update(
        loss, {"all": torch.optim.SGD([stranger], 0.1)}, [LossStep(("loss_x",), ("all",))]
    )
    with pytest.raises(ConfigError, match=r"no gradient of loss_x reaches.*optimizer 'all'"):
        update(TensorDict(z=torch.tensor(1.0).double()))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("recompute", [False, True])
def test_a_loss_that_is_not_finite_stops_before_any_parameter_moves(value, recompute):
    loss, _, update = bilinear(X, Y, TargetStep(), recompute=recompute)
    first = loss.values
    bad = TensorDict(z=torch.tensor(value, dtype=torch.float64))
    with pytest.raises(RunError, match=rf"loss_y is -?{abs(value)}.* in update 1; its step"):
        update(bad)
    # With recompute the step before has been taken; the losses that it saw were finite.
    assert loss.values == ([first[0] - 0.1 * first[1], first[1]] if recompute else first)


def test_a_gradient_that_is_not_finite_stops_before_any_parameter_moves():
    class Root(Bilinear):
        def forward(self, tensordict: TensorDictBase) -> TensorDict:
            out = super().forward(tensordict)
            out["loss_y"] = (self.y - self.y.detach()).abs().sqrt()  # 0, with an infinite slope
            return out

    loss = Root()
    optimizers = {name: torch.optim.SGD([getattr(loss, name)], 0.1) for name in "xy"}
    with pytest.raises(RunError, match=r"the gradient norm of y is (nan|inf) in update 1"):
        Update(loss, optimizers, [X, Y])(Z)
    assert loss.values == [1.0, 2.0]


def test_a_state_keeps_the_learning_rates_of_the_update_it_is_loaded_into():
    *_, update = bilinear(X, Y, rate=0.1)
    update(Z)
    *_, other = bilinear(X, Y, rate=0.5)
    other.load_state_dict(update.state_dict())
    assert {g["lr"] for o in other.optimizers.values() for g in o.param_groups} == {0.5}
