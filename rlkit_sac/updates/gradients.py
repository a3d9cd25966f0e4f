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
from rlkit_sac.graph import Held
from rlkit_sac.updates.steps import LossStep


class Gradients(NamedTuple):
    """Of one optimizer's parameters.

    Attributes:
        values: in the order of the parameters; ``None`` where the losses do not depend on one.
        norm: of all of them together.
    """

    values: tuple[Tensor | None, ...]
    norm: Tensor


class Losses(NamedTuple):
    """What a loss module makes of a batch.

    Attributes:
        scalars: all that it returns, without gradients.
        gradients: for each step, for each of its optimizers.
        watched: the steps' losses and the norms of their gradients, by what they are, as one
            vector: an update needs all of them to be finite.
    """

    scalars: dict[str, Tensor]
    gradients: dict[LossStep, dict[str, Gradients]]
    watched: Tensor


class LossGradients:
    """Runs a loss module and differentiates its losses.

    Args:
        loss_module: any TorchRL loss module.
        parameters: of each optimizer.
    """

    def __init__(self, loss_module: LossModule, parameters: Mapping[str, Sequence[Tensor]]) -> None:
        self.loss_module = loss_module
        self.parameters = parameters

    def __call__(self, batch: TensorDictBase, steps: Sequence[LossStep]) -> Losses:
        """Losses of one forward pass, and their gradients for some steps.

        Args:
            batch: what the loss module reads; it gains what the loss module writes.
            steps: whose gradients are wanted.

        Raises:
            ConfigError: for an optimizer whose parameters the losses do not depend on.
        """
        out = dict(self.loss_module(batch).items())
        gradients = {step: self._differentiate(step, out) for step in steps}
        watched = [out[name].detach() for step in steps for name in step.losses]
        watched += [each.norm for found in gradients.values() for each in found.values()]
        scalars = {name: value.detach() for name, value in out.items()}
        return Losses(scalars, gradients, torch.stack(watched) if watched else torch.zeros(0))

    def tensors(self) -> list[Tensor]:
        """The parameters of all optimizers."""
        return list(chain(*self.parameters.values()))

    def changes(self) -> list[Tensor]:
        """Nothing is changed in place."""
        return []

    def holds(self) -> list[Held]:
        """Nothing counts besides the loss module."""
        return []

    def _differentiate(self, step: LossStep, losses: Mapping[str, Tensor]) -> dict[str, Gradients]:
        total = torch.stack([losses[name] for name in step.losses]).sum()
        parameters = {name: self.parameters[name] for name in step.optimizers}
        flat = torch.autograd.grad(
            total, list(chain(*parameters.values())), retain_graph=True, allow_unused=True
        )
        found: dict[str, Gradients] = {}
        start = 0
        for name, own in parameters.items():
            values = flat[start : start + len(own)]
            start += len(own)
            present = [gradient for gradient in values if gradient is not None]
            if not present:
                raise ConfigError(
                    f"no gradient of {', '.join(step.losses)} reaches the parameters of the "
                    f"optimizer {name!r}: pass it the loss module's parameters, not those of the "
                    "networks it was made from"
                )
            found[name] = Gradients(values, _norm(present))
        return found


def names_of_watched(steps: Sequence[LossStep]) -> list[str]:
    """What the entries of :attr:`Losses.watched` are.

    >>> names_of_watched([LossStep(("loss_actor",), ("actor",))])
    ['loss_actor', 'the gradient norm of actor']
    """
    losses = [name for step in steps for name in step.losses]
    return losses + [f"the gradient norm of {name}" for step in steps for name in step.optimizers]


def clipped(gradients: Gradients, largest: float | Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients, scaled to a norm of at most ``largest``.

    >>> clipped(Gradients((torch.tensor([3.0, 4.0]), None), torch.tensor(5.0)), 1.0)
    (tensor([0.6000, 0.8000]), None)
    """
    if largest is None:
        return gradients.values
    factor = (largest / (gradients.norm + 1e-6)).clamp(max=1.0)
    return tuple(
        None if value is None else value * factor.to(value.dtype) for value in gradients.values
    )


def match_strides(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with its parameter's strides.

    ``backward()`` sees to this, ``autograd.grad`` does not (a vmapped layer's gradient comes
    transposed), and fused optimizers read both by position alone.

    >>> match_strides(torch.zeros(2, 3).T, torch.zeros(3, 2)).stride()
    (2, 1)
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
