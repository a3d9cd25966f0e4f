"""The weight of the entropy against the reward: the temperature, and what may center entropies."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from rlkit_sac.functional import masked_mean

AlphaParametrization = Literal["log", "exp", "direct"]

#: The smallest temperature of the direct parametrization; the logarithm keeps the others positive.
DIRECT_ALPHA_FLOOR = 1e-6


@dataclass(frozen=True)
class Temperature:
    r"""Parametrization and bounds of the temperature :math:`\alpha`.

    ============  =================  ==========================================================
    mode          parameter holds    loss of a sample
    ============  =================  ==========================================================
    ``"log"``     :math:`\log\alpha` :math:`\log\alpha\,(-\log\pi - \bar{\mathcal H})`
    ``"exp"``     :math:`\log\alpha` :math:`\alpha\,(-\log\pi - \bar{\mathcal H})`
    ``"direct"``  :math:`\alpha`     :math:`\alpha\,(-\log\pi - \bar{\mathcal H})`
    ============  =================  ==========================================================

    :meth:`multiplier` clamps the parameter to its bounds. Where the parameter is outside (a plain
    training loop does not project), only gradients whose descent leads back inside pass, so that it
    neither gets stuck nor drifts. The direct parametrization has a floor,
    :data:`DIRECT_ALPHA_FLOOR`.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 18; ``"log"`` as in the code of that paper.

    Args:
        mode: ``"log"``, ``"exp"`` or ``"direct"``.
        minimum: lower bound of :math:`\alpha`, or ``None``.
        maximum: upper bound of :math:`\alpha`, or ``None``.

    >>> Temperature("log", maximum=0.5).alpha(torch.tensor(0.0))
    tensor(0.5000)
    """

    mode: AlphaParametrization = "log"
    minimum: float | None = None
    maximum: float | None = None

    _parameter_bounds: ClassVar[tuple[float, float]]

    def __post_init__(self) -> None:
        lower, upper = self.minimum or 0.0, math.inf if self.maximum is None else self.maximum
        bounds = math.log(lower) if lower > 0 else -math.inf, math.log(upper)
        if self.mode == "direct":
            bounds = max(lower, DIRECT_ALPHA_FLOOR), upper
        object.__setattr__(self, "_parameter_bounds", bounds)

    def initial_parameter(self, alpha_init: float) -> float:
        """The parameter's start for a temperature ``alpha_init``, moved inside the bounds."""
        lower, upper = self._parameter_bounds
        value = alpha_init if self.mode == "direct" else math.log(alpha_init)
        return min(max(value, lower), upper)

    def alpha(self, parameter: Tensor) -> Tensor:
        r"""The temperature :math:`\alpha` within its bounds; no gradient."""
        inside = parameter.detach().clamp(*self._parameter_bounds)
        return inside if self.mode == "direct" else inside.exp()

    def multiplier(self, parameter: Tensor) -> Tensor:
        r"""What the loss multiplies, :math:`\log\alpha` or :math:`\alpha`, within its bounds."""
        inside = _InwardClamp.apply(parameter, *self._parameter_bounds)
        return inside.exp() if self.mode == "exp" else inside

    def project_(self, parameter: Tensor) -> None:
        """Move the parameter inside its bounds in place; call it after an optimizer step."""
        with torch.no_grad():
            parameter.clamp_(*self._parameter_bounds)


class _InwardClamp(torch.autograd.Function):
    """A clamp that lets a gradient through where its descent leads back inside the bounds.

    It judges the gradient that arrives, after masks, importance weights and coefficients.
    """

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, lower: float, upper: float) -> Tensor:
        ctx.save_for_backward(parameter)
        ctx.bounds = lower, upper
        return parameter.clamp(lower, upper)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        (parameter,) = ctx.saved_tensors
        lower, upper = ctx.bounds
        outward = ((parameter > upper) & (gradient < 0)) | ((parameter < lower) & (gradient > 0))
        return torch.where(outward, torch.zeros_like(gradient), gradient), None, None


class RunningLogProb(nn.Module):
    r"""A running mean of :math:`\log\pi`, subtracted from it before the entropy bonus.

    The k-th batch moves the mean towards the batch mean with the rate :math:`8/(7+k)`, so the
    first sets it. It is updated in training mode with gradients enabled only; batches without
    a valid step are ignored.

    Source: the ``normalize_entropy_reward`` option of ALF's ``SacAlgorithm``.

    Args:
        like: a tensor of the dtype and the device.

    >>> center = RunningLogProb(torch.zeros(()))
    >>> center.update(torch.tensor([2.0, 4.0]))
    >>> center(torch.tensor([4.0]))
    tensor([1.])
    """

    mean: Tensor
    count: Tensor

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", like.detach().new_zeros(()))
        self.register_buffer("count", like.new_zeros((), dtype=torch.int64))

    def update(self, log_prob: Tensor, valid: Tensor | None = None) -> None:
        """Move towards the mean log-probability of a batch, unless that is not finite.

        Args:
            log_prob: ``[*]``.
            valid: bool ``[*]``, or ``None`` if every step is valid.
        """
        if not (self.training and torch.is_grad_enabled()):
            return
        with torch.no_grad():
            # Selected on the device: a branch would make the processor wait for it.
            mean = masked_mean(log_prob, valid)
            # Terminal states may be NaN, which must not stay in the running mean.
            counts = mean.isfinite() if valid is None else mean.isfinite() & valid.any()
            self.count += counts.to(torch.int64)
            rate = 8 / (7 + self.count.to(self.mean.dtype))
            self.mean += torch.where(counts, rate * (mean - self.mean), torch.zeros_like(mean))

    def forward(self, log_prob: Tensor) -> Tensor:
        """``log_prob`` minus the running mean."""
        return log_prob - self.mean
