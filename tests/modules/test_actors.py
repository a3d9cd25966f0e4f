import math

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import (
    GaussianHead,
    TanhGaussian,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    tanh_gaussian_actor,
)

LOW, HIGH = [-2.0, 0.1], [0.5, 0.3]


def observations(*batch: int) -> TensorDict:
    return TensorDict(observation=torch.randn(*batch, 3), batch_size=batch)


def test_clipped_exp_clamps_the_logarithm_and_its_gradient() -> None:
    features = torch.tensor([0.5, -3.0, -11.0, 1.0, 7.0, -10.0]).requires_grad_()
    loc, scale = GaussianHead("clipped_exp", -10.0, 2.0)(features)
    assert loc.tolist() == [0.5, -3.0, -11.0]  # the mean is never clamped
    assert scale.tolist() == pytest.approx([math.e, math.exp(2), math.exp(-10)], rel=1e-6)
    scale.log().sum().backward()
    assert features.grad.tolist() == [0, 0, 0, 1, 0, 1]


def test_tanh_rescales_the_logarithm_and_keeps_a_gradient() -> None:
    features = torch.tensor([0.5, 0.0, 0.0, 1.0, 0.0, 3.0, -40.0, 40.0]).double().requires_grad_()
    loc, scale = GaussianHead("tanh", -20.0, 2.0)(features)
    assert loc.tolist() == [0.5, 0.0, 0.0, 1.0]
    wanted = [-9.0, -9.0 + 11 * math.tanh(3.0), -20.0, 2.0]
    assert scale.log().tolist() == pytest.approx(wanted, abs=1e-9)
    scale.log().sum().backward()
    slope = [11.0, 11 * (1 - math.tanh(3.0) ** 2)]
    assert features.grad[4:6].tolist() == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("batch", [(), (7,), (3, 5)])
def test_shapes_and_spec(batch: tuple[int, ...]) -> None:
    actor = tanh_gaussian_actor(3, LOW, HIGH, num_cells=[8])
    out = actor(observations(*batch))
    assert out["action"].shape == out["loc"].shape == out["scale"].shape == (*batch, 2)
    assert actor.spec["action"].shape == (2,)
    assert actor.spec["action"].space.low.tolist() == pytest.approx(LOW)
    assert actor.spec["action"].space.high.tolist() == pytest.approx(HIGH)
    assert actor.spec["action"].expand(*batch, 2).is_in(out["action"])


def test_the_distribution_knows_the_box() -> None:
    actor = tanh_gaussian_actor(3, LOW, HIGH, num_cells=[8])
    states = observations(4)
    dist = actor.get_dist(states)
    out = actor(states.clone())
    wanted = TanhGaussian(out["loc"], out["scale"], torch.tensor(LOW), torch.tensor(HIGH))
    action = torch.tensor([0.2, 0.2])
    assert isinstance(dist, TanhGaussian)
    torch.testing.assert_close(dist.log_prob(action), wanted.log_prob(action))


def test_the_mean_may_go_through_a_tanh_of_its_own():
    features = torch.tensor([[3.0, -0.5, 0.1, 0.2]])
    plain, scale = GaussianHead()(features)
    squashed, same_scale = GaussianHead(tanh_loc=True)(features)
    assert torch.equal(squashed, plain.tanh())
    assert torch.equal(scale, same_scale)
    actor = tanh_gaussian_actor(3, LOW, HIGH, tanh_loc=True)
    (head,) = (module for module in actor.modules() if isinstance(module, GaussianHead))
    assert head.tanh_loc


def test_the_last_layer_may_start_small():
    torch.manual_seed(0)
    actor = tanh_gaussian_actor(3, LOW, HIGH, num_cells=[64], output_init=0.003)
    *_, weight, bias = actor.parameters()
    for parameter in (weight, bias):
        assert 0.001 < parameter.abs().max() <= 0.003
    first = next(actor.parameters())
    assert first.abs().max() > 0.1


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_both_heads_read_one_trunk(batch: tuple[int, ...]) -> None:
    for both, keys in (
        (categorical_actor_critic(3, 2, num_cells=[8, 6]), {"logits": 2, "action_value": 2}),
        (
            gaussian_actor_critic(3, 2, num_cells=[8, 6], activation="tanh"),
            {"loc": 2, "scale": 2, "state_value": 1, "state_action_value": 1},
        ),
    ):
        out = both(observations(*batch))
        assert out["hidden"].shape == (*batch, 6)
        assert {key: out[key].shape for key in keys} == {
            key: (*batch, size) for key, size in keys.items()
        }
        head = both.get_value_head()
        again = head(out.select(*head.in_keys).clone())
        if "action_value" in keys:
            assert torch.equal(again["action_value"], out["action_value"])


def test_a_gaussian_actor_has_no_bounds() -> None:
    actor = gaussian_actor(3, 2, num_cells=[8], log_std_min=2.0, log_std_max=2.1)
    torch.manual_seed(0)
    dist = actor.get_dist(observations(1000))
    assert dist.sample().abs().max() > 10
    assert actor.spec["action"].shape == (2,)
