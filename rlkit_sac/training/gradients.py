"""The losses of a batch and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.nn.utils import get_total_norm
from torchrl.objectives import LossModule

from rlkit_sac.errors import ConfigError
from rlkit_sac.training.steps import LossStep


@dataclass(frozen=True)
class Gradients:
    """Of one optimizer's parameters.

    Attributes:
        values: in the order of the parameters; ``None`` where the losses do not depend on one.
        norm: of all of them together.
    """

    values: tuple[Tensor | None, ...]
    norm: Tensor


@dataclass(frozen=True)
class Losses:
    """What a loss module makes of a batch.

    Attributes:
        scalars: all that it returns, without gradients.
        gradients: for each step, for each of its optimizers.
        finite: whether the steps' losses and all gradients are, a bool tensor.
    """

    scalars: dict[str, Tensor]
    gradients: dict[LossStep, dict[str, Gradients]]
    finite: Tensor

    def values(self) -> list[Tensor]:
        """All gradients, each optimizer's followed by their norm."""
        found = [each for step in self.gradients.values() for each in step.values()]
        return [value for each in found for value in (*each.values, each.norm) if value is not None]


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
        finite = torch.stack(watched).isfinite().all() if watched else torch.tensor(True)
        return Losses({name: value.detach() for name, value in out.items()}, gradients, finite)

    def _differentiate(self, step: LossStep, losses: Mapping[str, Tensor]) -> dict[str, Gradients]:
        total = torch.stack([losses[name] for name in step.losses]).sum()
        parameters = {name: self.parameters[name] for name in step.optimizers}
        flat = torch.autograd.grad(
            total, list(chain(*parameters.values())), retain_graph=True, allow_unused=True
        )
        found: dict[str, Gradients] = {}
        start = 0
        for name, own in parameters.items():
            values = tuple(
                None if gradient is None else laid_out_like(gradient, parameter)
                for gradient, parameter in zip(flat[start : start + len(own)], own, strict=True)
            )
            start += len(own)
            present = [gradient for gradient in values if gradient is not None]
            if not present:
                raise ConfigError(
                    f"no gradient of {', '.join(step.losses)} reaches the parameters of the "
                    f"optimizer {name!r}: pass it the loss module's parameters, not those of the "
                    "networks it was made from"
                )
            found[name] = Gradients(values, get_total_norm(present))
        return found


def laid_out_like(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with its parameter's strides.

    ``backward()`` sees to this, ``autograd.grad`` does not (a vmapped layer's gradient comes
    transposed), and fused optimizers read both by position alone.

    >>> laid_out_like(torch.zeros(2, 3).T, torch.zeros(3, 2)).stride()
    (2, 1)
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
