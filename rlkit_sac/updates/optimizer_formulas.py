"""The steps of PyTorch's optimizers, as tensor operations that a graph can contain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer, RMSprop

from rlkit_sac.graph import NotRecordable

_UNSUPPORTED = ("maximize", "amsgrad", "momentum", "centered", "differentiable", "capturable")


def has_formula(optimizer: Optimizer) -> bool:
    """Return whether :func:`take_step` computes the optimizer's own step.

    This is true for Adam, AdamW and RMSprop without hooks, with a number as the learning rate and
    without the options ``maximize``, ``amsgrad``, ``momentum``, ``centered``, ``differentiable``
    and ``capturable``. Only AdamW may have a weight decay.

    >>> has_formula(Adam([torch.zeros(1)])), has_formula(torch.optim.SGD([torch.zeros(1)]))
    (True, False)
    """
    own_step = vars(optimizer).get("step")  # schedulers wrap it to count its calls
    replaced = own_step is not None and not hasattr(own_step, "_wrapped_by_lr_sched")
    unsupported = _UNSUPPORTED if type(optimizer) is AdamW else (*_UNSUPPORTED, "weight_decay")
    plain = all(
        isinstance(group["lr"], float | int) and not any(group.get(name) for name in unsupported)
        for group in optimizer.param_groups
    )
    hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")  # not public in PyTorch
    hooked = any(getattr(optimizer, name, True) for name in hooks)
    return type(optimizer) in _FORMULAS and plain and not (replaced or hooked)


def move_step_counts(optimizer: Optimizer) -> None:
    """Move the step counts in an optimizer's state to the devices of their parameters.

    Args:
        optimizer: an optimizer with a formula. PyTorch keeps some step counts on the CPU.

    >>> optimizer = RMSprop([torch.zeros(1, requires_grad=True)])
    >>> move_step_counts(optimizer)
    """
    for parameter, state in optimizer.state.items():
        count = state.get("step")
        if isinstance(count, Tensor) and count.device != parameter.device:
            state["step"] = count.to(parameter.device)


def take_step(
    optimizer: Optimizer,
    gradients: Sequence[Tensor | None],
    learning_rates: Sequence[Tensor],
    enabled: Tensor,
) -> None:
    """Take one step of an optimizer, in place, on its parameters and its state.

    The result equals the optimizer's own step up to rounding. Source: Kingma and Ba 2015, algorithm
    1; Loshchilov and Hutter 2019, algorithm 2; the documentation of ``torch.optim.RMSprop``.

    Args:
        optimizer: an optimizer with a formula (:func:`has_formula`), with a state for every
            parameter that has a gradient. Call :func:`move_step_counts` before.
        gradients: the gradients in the order of the parameters of all groups.
        learning_rates: the learning rate of each group, 0-dimensional.
        enabled: whether to take the step, a bool tensor; if false, nothing changes.

    Raises:
        NotRecordable: if a parameter with a gradient has no state yet.

    >>> parameter = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = Adam([parameter], lr=0.1)
    >>> parameter.grad = torch.ones(1)
    >>> optimizer.step()
    >>> take_step(optimizer, [torch.ones(1)], [torch.tensor(0.1)], torch.tensor(True))
    >>> parameter
    tensor([0.8000], requires_grad=True)
    """
    formula = _FORMULAS[type(optimizer)]
    remaining = iter(gradients)
    with torch.no_grad():
        for group, rate in zip(optimizer.param_groups, learning_rates, strict=True):
            moved = [(p, g) for p in group["params"] if (g := next(remaining)) is not None]
            if not moved:
                continue
            if not all(parameter in optimizer.state for parameter, _ in moved):
                raise NotRecordable(f"{type(optimizer).__name__} has no state for a parameter")
            states = [optimizer.state[parameter] for parameter, _ in moved]
            steps = torch.stack([state["step"] for state in states]) + enabled
            formula(group, moved, states, steps.to(rate.dtype), rate, enabled)
            for state, step in zip(states, steps.unbind(), strict=True):
                state["step"].copy_(step)


def _adam(
    group: Mapping[str, Any],
    moved: Sequence[tuple[Tensor, Tensor]],
    states: Sequence[Mapping[str, Tensor]],
    steps: Tensor,
    rate: Tensor,
    enabled: Tensor,
) -> None:
    beta1, beta2 = group["betas"]
    sizes = rate / _one_minus_power(beta1, steps)
    roots = _one_minus_power(beta2, steps).sqrt()
    kept = 1 - rate * group["weight_decay"] if group["weight_decay"] else None
    for (parameter, gradient), state, size, root in zip(moved, states, sizes, roots, strict=True):
        first, second = state["exp_avg"], state["exp_avg_sq"]
        before: Tensor = parameter if kept is None else parameter * kept.to(parameter.dtype)
        mean = torch.lerp(first, gradient, 1 - beta1)
        square = second * beta2 + gradient * gradient * (1 - beta2)
        scale = square.sqrt() / root.to(square.dtype) + group["eps"]
        _assign_if(first, mean, enabled)
        _assign_if(second, square, enabled)
        _assign_if(parameter, before - size.to(mean.dtype) * mean / scale, enabled)


def _rmsprop(
    group: Mapping[str, Any],
    moved: Sequence[tuple[Tensor, Tensor]],
    states: Sequence[Mapping[str, Tensor]],
    steps: Tensor,
    rate: Tensor,
    enabled: Tensor,
) -> None:
    alpha = group["alpha"]
    for (parameter, gradient), state in zip(moved, states, strict=True):
        square = state["square_avg"] * alpha + gradient * gradient * (1 - alpha)
        moved_to = parameter - rate.to(square.dtype) * gradient / (square.sqrt() + group["eps"])
        _assign_if(state["square_avg"], square, enabled)
        _assign_if(parameter, moved_to, enabled)


_FORMULAS: dict[type[Optimizer], Callable[..., None]] = {
    Adam: _adam,
    AdamW: _adam,
    RMSprop: _rmsprop,
}


def _assign_if(tensor: Tensor, value: Tensor, enabled: Tensor) -> None:
    tensor.copy_(torch.where(enabled, value, tensor))


def _one_minus_power(base: float, exponents: Tensor) -> Tensor:
    # Inductor computes exp() once, but a power again for every element of a parameter.
    if base == 0:
        return torch.ones_like(exponents)
    return 1 - (exponents * math.log(base)).exp()
