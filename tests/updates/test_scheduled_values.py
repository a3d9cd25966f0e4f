import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchrl.objectives import LossModule

from rlkit_sac.config import (
    HybridLossConfig,
    LossConfig,
    PlainContinuousLossConfig,
    UpdateConfig,
)
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import UniformPrior
from rlkit_sac.modules.normalization import RewardNormalizer
from rlkit_sac.updates.scheduled_values import apply_schedules, schedule_value
from tests.objectives.losses import own_loss
from tests.objectives.networks import ACTION_DIM, make_data
from tests.objectives.prior_references import SPECS
from tests.runs.recipe_updates import make_update


def make_loss(config: LossConfig) -> LossModule:
    torch.manual_seed(0)
    return own_loss("continuous", **config.arguments()).double()


@given(
    points=st.dictionaries(st.integers(0, 1000), st.floats(-5, 5), min_size=1, max_size=5),
    frames=st.integers(0, 1200),
)
def test_a_value_lies_on_the_line_between_its_neighbors(points: dict, frames: int) -> None:
    earlier = [at for at in points if at <= frames]
    later = [at for at in points if at > frames]
    found = schedule_value(points, frames)
    if not earlier or not later:
        assert found == points[max(earlier) if earlier else min(later)]
        return
    a, b = max(earlier), min(later)
    share = (frames - a) / (b - a)
    assert found == pytest.approx((1 - share) * points[a] + share * points[b], abs=1e-12)


ALL = {"gamma": 0.5, "qvalue_coef": 0.3, "reward_scale": 2.0, "dqda_clipping": 0.01}


@pytest.mark.parametrize("temperature", [{"target_entropy": -0.7}, {"alpha_init": 0.3}])
def test_a_loss_with_scheduled_numbers_is_the_loss_made_with_them(temperature: dict) -> None:
    fixed = "alpha_init" in temperature
    numbers = ALL | temperature
    schedules = {name: {100: 0.9, 200: 2 * value - 0.9} for name, value in numbers.items()}
    config = PlainContinuousLossConfig(schedules=schedules, fixed_alpha=fixed)
    changed = make_loss(config)
    update = make_update(changed, UpdateConfig())
    for frames in (0, 150):
        apply_schedules(update, schedules, {}, frames)
    wanted = make_loss(PlainContinuousLossConfig(**numbers, fixed_alpha=fixed))
    data, outs = make_data("continuous", 6), []
    for loss in (changed, wanted):
        torch.manual_seed(1)
        out = loss(data.clone())
        sum(out[name] for name in ("loss_actor", "loss_qvalue", "loss_alpha")).backward()
        outs.append([*out.values(), *(p.grad for p in loss.parameters())])
    torch.testing.assert_close(*outs, rtol=1e-8, atol=1e-8)
    assert set(changed.state_dict()) == set(wanted.state_dict())


DIVERGENCES = {"target_kld_discrete": 0.2, "target_kld_per_dim": 0.7}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("continuous", ["target_kld_per_dim"]),
        ("boltzmann", ["target_kld_discrete"]),
        ("hybrid", list(DIVERGENCES)),
    ],
)
def test_temperatures_follow_a_scheduled_divergence(kind: str, names: list[str]) -> None:
    """L = log alpha (KL* - KL) with KL* halfway between the points, summed over the factors."""
    torch.manual_seed(0)
    loss = own_loss(kind, prior_network=UniformPrior(SPECS[kind]), alpha_init=0.3).double()
    schedules = {name: {100: 0.0, 200: 2 * DIVERGENCES[name]} for name in names}
    apply_schedules(make_update(loss, UpdateConfig()), schedules, {}, 150)
    out, wanted = loss(make_data(kind, 6)), 0.0
    for name in names:
        suffix = "" if len(names) == 1 else "_discrete" if "discrete" in name else "_continuous"
        nats = DIVERGENCES[name] * (1 if "discrete" in name else ACTION_DIM)
        wanted += math.log(0.3) * (nats - out[f"kl{suffix}"])
    torch.testing.assert_close(out["loss_alpha"], wanted, rtol=1e-6, atol=1e-6)
    for name in names:
        with pytest.raises(ConfigError, match="must be greater than or equal to 0, got -1"):
            loss.set_scalar(name, -1.0)


def test_pairs_of_temperatures_may_be_fixed_beside_a_scheduled_divergence() -> None:
    points = {name: {0: 0.1} for name in DIVERGENCES}
    errors = HybridLossConfig(fixed_alpha=[True, False], schedules=points).errors()
    assert list(errors) == [
        ("schedules", "target_kld_discrete can change only where fixed_alpha is false")
    ]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", [-1.0, 0.0, 0.5, 2.0])
def test_what_a_schedule_may_have_the_loss_takes(name: str, value: float) -> None:
    config = PlainContinuousLossConfig(schedules={name: {0: 0.5, 9: value}})
    if errors := list(config.errors()):
        assert all(key == "schedules" and name in text for key, text in errors)
    else:
        make_loss(config).set_scalar(name, value)


def test_whatever_else_has_gamma_follows_it_or_is_refused() -> None:
    normalizers = [RewardNormalizer(0.9, reward_dim=1), RewardNormalizer(0.5, reward_dim=1)]
    changed, wanted = (
        own_loss("continuous", gamma=each.gamma, reward_normalizer=each).double()
        for each in normalizers
    )
    apply_schedules(make_update(changed, UpdateConfig()), {"gamma": {0: 0.5}}, {}, 7)
    data = make_data("continuous", 6)
    for loss in (changed, wanted):
        loss.update_normalizers(data)
    torch.testing.assert_close(*(each.state_dict() for each in normalizers))
    changed.qvalue_loss(data.clone())
    several = data.clone().set("steps_to_next_obs", torch.full((6,), 3))
    wanted.qvalue_loss(several.clone())
    with pytest.raises(ConfigError, match="rewards of several steps"):
        changed.qvalue_loss(several)
