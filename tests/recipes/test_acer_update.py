"""The update of the ACER recipe, against steps written out."""

import copy

import pytest
import torch

from rlkit_sac.updates import LossStep, TargetStep
from tests.objectives.acer_networks import make_acer, make_segments
from tests.recipes.running import ACER
from tests.recipes.updates import update_of

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


@pytest.mark.parametrize("bound", [0.01, None])
def test_an_update_is_a_bounded_step_of_rmsprop_and_a_move_of_the_average(
    bound: float | None,
) -> None:
    torch.manual_seed(0)
    loss, _ = make_acer("discrete")
    options = "--update.optimizer rmsprop --update.lr 0.01 --update.rmsprop_alpha 0.9"
    config = ACER.config(*options.split())
    config.update.rmsprop_eps, config.update.target_update_tau = 0.1, 0.25
    config.update.max_grad_norm = bound
    update = update_of("acer", config, loss_module=loss)
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
        torch.testing.assert_close(loss.state_dict(), plain.state_dict())


def test_the_first_step_of_adam_has_the_size_of_the_learning_rate() -> None:
    torch.manual_seed(0)
    loss, _ = make_acer("discrete")
    config = ACER.config("--update.optimizer", "adam", "--update.adam_eps", "0.1")
    config.update.lr, config.update.max_grad_norm = 0.01, None
    update, plain = update_of("acer", config, loss_module=loss), copy.deepcopy(loss)
    segments, parameters = make_segments("discrete", 3, 4), list(plain.parameters())
    out = plain(segments)
    gradients = torch.autograd.grad(sum(out[name] for name in LOSSES), parameters)
    update(segments)
    for own, parameter, gradient in zip(loss.parameters(), parameters, gradients, strict=True):
        torch.testing.assert_close(own, parameter - 0.01 * gradient / (gradient.abs() + 0.1))


def test_all_losses_are_minimized_at_once_before_the_average_moves() -> None:
    loss, _ = make_acer("continuous")
    options = ("--update.matmul_precision", "exact", "--compile", "true", "--device", "cpu")
    update = update_of("acer", ACER.config(*options), loss_module=loss)
    assert update.steps == (LossStep(LOSSES, ("all",)), TargetStep())
    assert (update.matmul_precision, update.compile_from) == ("exact", 1)
    trained = {id(p) for group in update.optimizers["all"].param_groups for p in group["params"]}
    assert trained == {id(parameter) for parameter in loss.parameters()}
