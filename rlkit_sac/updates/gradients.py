"""The losses of a batch and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.objectives import LossModule

from rlkit_sac.errors import ConfigError
from rlkit_sac.updates.compiled import Computation
from rlkit_sac.updates.steps import LossStep, Pass


class Gradients(NamedTuple):
    """The gradients of one optimizer's parameters.

    Attributes:
        values: the gradients in the order of the parameters; ``None`` for a parameter that the
            losses do not depend on.
        norm: the L2 norm of all gradients together.
    """

    values: tuple[Tensor | None, ...]
    norm: Tensor


class Losses(NamedTuple):
    """The output of a loss module for a batch, and the gradients of its losses.

    Attributes:
        scalars: the outputs of the loss module, detached. After the first pass of an update, only
            the losses of the pass's steps.
        gradients: the gradients of each step, by the name of the optimizer.
        watched: the losses of the steps and the norms of their gradients, in one vector, in the
            order of :func:`loss_and_norm_names`. All of them must be finite.
    """

    scalars: dict[str, Tensor]
    gradients: dict[LossStep, dict[str, Gradients]]
    watched: Tensor


class LossGradients(Computation[Losses]):
    """A computation that runs a loss module and differentiates its losses.

    Args:
        loss_module: any TorchRL loss module.
        parameters: the parameters of each optimizer, by the optimizer's name.
    """

    def __init__(self, loss_module: LossModule, parameters: Mapping[str, Sequence[Tensor]]) -> None:
        self.loss_module = loss_module
        self.parameters = parameters

    def __call__(self, batch: TensorDictBase, due: Pass) -> Losses:
        """Run one forward pass and differentiate the losses of its steps.

        Args:
            batch: the input of the loss module. In the first pass the loss may add entries to it.
            due: the steps that are due.

        Raises:
            ConfigError: for a loss module that does not return a TensorDict with a scalar for each
                loss, or an optimizer whose parameters the losses do not depend on.
        """
        steps = due.loss_steps
        out = self._forward(batch if due.first else batch.copy(), steps)
        gradients = {step: self._differentiate(step, out) for step in steps}
        watched = [out[name].detach() for step in steps for name in step.losses]
        watched += [part.norm for parts in gradients.values() for part in parts.values()]
        names = out if due.first else [name for step in steps for name in step.losses]
        # Some of TorchRL's losses also return one number for each transition.
        scalars = {name: out[name].detach() for name in names if not out[name].ndim}
        return Losses(scalars, gradients, torch.stack(watched) if watched else torch.zeros(0))

    def used_tensors(self) -> list[Tensor]:
        """Return the parameters of all optimizers."""
        return list(chain(*self.parameters.values()))

    def _forward(self, batch: TensorDictBase, steps: Sequence[LossStep]) -> dict[str, Tensor]:
        out, module = self.loss_module(batch), type(self.loss_module).__name__
        losses = dict(out.items())
        for name in chain.from_iterable(step.losses for step in steps):
            if name not in losses:
                keys = ", ".join(map(repr, losses))
                raise ConfigError(f"a step names {name!r}, but {module} writes {keys}")
            if losses[name].ndim:
                raise ConfigError(
                    f"{name} of {module} must be a scalar, but has the shape "
                    f"{list(losses[name].shape)}: reduce it, as with reduction='mean'"
                )
        return losses

    def _differentiate(self, step: LossStep, losses: Mapping[str, Tensor]) -> dict[str, Gradients]:
        total = torch.stack([losses[name] for name in step.losses]).sum()
        parameters = {name: self.parameters[name] for name in step.optimizers}
        flat = torch.autograd.grad(
            total, list(chain(*parameters.values())), retain_graph=True, allow_unused=True
        )
        gradients: dict[str, Gradients] = {}
        start = 0
        for name, tensors in parameters.items():
            values = flat[start : start + len(tensors)]
            start += len(tensors)
            if all(gradient is None for gradient in values):
                raise ConfigError(
                    f"no gradient of {', '.join(step.losses)} reaches the parameters of the "
                    f"optimizer {name!r}: pass it the loss module's parameters, not those of the "
                    "networks it was made from"
                )
            gradients[name] = add_norm(values)
        return gradients


def loss_and_norm_names(steps: Sequence[LossStep]) -> list[str]:
    """Return the names of the entries of :attr:`Losses.watched`.

    >>> loss_and_norm_names([LossStep(("loss_actor",), ("actor",))])
    ['loss_actor', 'the gradient norm of actor']
    """
    losses = [name for step in steps for name in step.losses]
    return losses + [f"the gradient norm of {name}" for step in steps for name in step.optimizers]


def clip_gradients(gradients: Gradients, bound: float | Tensor | None) -> tuple[Tensor | None, ...]:
    """Scale gradients to a norm of at most ``bound``; ``None`` leaves them as they are.

    >>> clip_gradients(Gradients((torch.tensor([3.0, 4.0]), None), torch.tensor(5.0)), 1.0)
    (tensor([0.6000, 0.8000]), None)
    """
    if bound is None:
        return gradients.values
    factor = (bound / (gradients.norm + 1e-6)).clamp(max=1.0)
    return tuple(
        None if value is None else value * factor.to(value.dtype) for value in gradients.values
    )


def match_strides(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Return a gradient with the strides of its parameter.

    Fused optimizers read both tensors in the order of memory. ``backward()`` makes the strides
    match, ``autograd.grad`` does not: the gradient of a vmapped layer comes transposed.

    >>> match_strides(torch.zeros(2, 3).T, torch.zeros(3, 2)).stride()
    (2, 1)
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def add_norm(gradients: Sequence[Tensor | None]) -> Gradients:
    """Return gradients with their norm. At least one of them must not be ``None``.

    >>> add_norm([torch.tensor([3.0, 4.0]), None]).norm
    tensor(5.)
    """
    norms = [torch.linalg.vector_norm(value) for value in gradients if value is not None]
    return Gradients(tuple(gradients), torch.linalg.vector_norm(torch.stack(norms)))
