"""The update that a configuration of ACER asks for, against steps written out."""

from __future__ import annotations

import copy

import pytest
import torch

from rlkit_sac.config import ACERUpdateConfig
from rlkit_sac.runs import make_acer_update
from rlkit_sac.updates import LossStep, TargetStep
from tests.objectives.acer_networks import make_acer, make_segments

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


@pytest.mark.parametrize("bound", [0.01, None])
def test_an_update_is_a_bounded_step_of_rmsprop_and_a_move_of_the_average(
    bound: float | None,
) -> None:
    torch.manual_seed(0)
    loss, _ = make_acer("discrete")
    config = ACERUpdateConfig(
        lr=0.01, rmsprop_alpha=0.9, rmsprop_eps=0.1, max_grad_norm=bound, target_update_tau=0.25
    )
    update = make_acer_update(loss, config)
    plain = copy.deepcopy(loss)
    squares = [torch.zeros_like(parameter) for parameter in plain.parameters()]
    for _ in range(3):
        segments = make_segments("discrete", 3, 4)
        out = plain(segments)
        parameters = list(plain.parameters())
        gradients = torch.autograd.grad(sum(out[name] for name in LOSSES), parameters)
        norm = sum(gradient.square().sum() for gradient in gradients).sqrt()
        factor = 1.0 if bound is None else min(1.0, bound / (float(norm) + 1e-6))
        scalars = update(segments)
        assert float(scalars["grad_norm_all"]) == pytest.approx(float(norm))
        with torch.no_grad():
            for parameter, gradient, square in zip(parameters, gradients, squares, strict=True):
                square.mul_(0.9).add_(0.1 * (factor * gradient).square())
                parameter -= 0.01 * factor * gradient / (square.sqrt() + 0.1)
            for key, average in plain.target_actor_network_params.items(True, True):
                average.lerp_(plain.actor_network_params.get(key), 0.25)
        for name, found in loss.state_dict().items():
            torch.testing.assert_close(found, plain.state_dict()[name], msg=name)


def test_all_losses_are_minimized_at_once_before_the_average_moves() -> None:
    loss, _ = make_acer("continuous")
    update = make_acer_update(loss, ACERUpdateConfig())
    assert update.steps == (LossStep(LOSSES, ("all",)), TargetStep())
    trained = {id(p) for group in update.optimizers["all"].param_groups for p in group["params"]}
    assert trained == {id(parameter) for parameter in loss.parameters()}
