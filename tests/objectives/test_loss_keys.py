"""What losses read, write and return, and how it is renamed."""

import pytest
import torch

from tests.objectives.comparison import assert_same, losses_of
from tests.objectives.losses import CONTINUOUS, DISCRETE, KINDS, make_batch, own_loss

LOSSES = {
    "continuous": ["loss_actor", "loss_qvalue", "loss_alpha"],
    "boltzmann": ["loss_qvalue", "loss_alpha"],
    "categorical": ["loss_actor", "loss_qvalue", "loss_alpha"],
    "hybrid": ["loss_actor", "loss_qvalue", "loss_alpha"],
    "value": ["loss_actor", "loss_qvalue", "loss_alpha", "loss_value"],
}
HYBRID_SCALARS = ["alpha_discrete", "alpha_continuous", "entropy_discrete", "entropy_continuous"]


@pytest.mark.parametrize("kind", KINDS)
def test_out_keys_and_in_keys(kind):
    loss = own_loss(kind)
    out = loss(make_batch(kind, 5))
    assert set(out.keys()) == set(loss.out_keys)
    scalars = HYBRID_SCALARS if kind == "hybrid" else ["alpha", "entropy"]
    assert loss.out_keys == [*LOSSES[kind], *scalars]
    actions = [CONTINUOUS, DISCRETE] if kind == "hybrid" else ["action"]
    assert loss.in_keys[: len(actions)] == actions


@pytest.mark.parametrize("mode", ["exclude", "non_tensor"])
def test_out_keys_of_each_step(mode):
    loss = own_loss("continuous", reduction="none", scalar_output_mode=mode)
    assert set(loss(make_batch("continuous", 5)).keys()) == set(loss.out_keys)


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_are_declared_and_finite(kind):
    loss = own_loss(kind, diagnostics=True, num_qvalue_nets=3)
    out = loss(make_batch(kind, 8))
    assert set(out.keys()) == set(loss.out_keys)
    assert {"q2_loss", "q0_min", "explained_variance", "td_error_mean"} <= set(out.keys())
    assert all(value.isfinite() for value in out.values())
    assert not any(out[name].requires_grad for name in loss.out_keys if not name.startswith("loss"))
    if kind == "value":
        assert out["v_min"] <= out["v_mean"] <= out["v_max"]


@pytest.mark.parametrize("kind", KINDS)
def test_nested_keys_name_the_same_numbers(kind):
    torch.manual_seed(0)
    loss, data = own_loss(kind), make_batch(kind, 5)
    torch.manual_seed(1)
    wanted = losses_of(loss(data.clone()))
    moved = data.clone()
    moved["next"].rename_key_("reward", ("deep", "gain"))
    moved["next"].rename_key_("terminated", ("deep", "over"))
    loss.set_keys(reward=("deep", "gain"), terminated=("deep", "over"), priority=("p", "q"))
    assert ("next", "deep", "gain") in loss.in_keys
    torch.manual_seed(1)
    assert_same(losses_of(loss(moved)), wanted, rtol=0, atol=0)
    assert moved["p", "q"].shape == (5,)
