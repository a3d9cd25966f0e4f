"""The temperature, which weights the entropy against the reward, and a mean to center entropies."""

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
    r"""The parametrization and the bounds of a temperature :math:`\alpha`.

    ============  =================  ==========================================================
    mode          parameter holds    loss of a sample
    ============  =================  ==========================================================
    ``"log"``     :math:`\log\alpha` :math:`\log\alpha\,(-\log\pi - \bar{\mathcal H})`
    ``"exp"``     :math:`\log\alpha` :math:`\alpha\,(-\log\pi - \bar{\mathcal H})`
    ``"direct"``  :math:`\alpha`     :math:`\alpha\,(-\log\pi - \bar{\mathcal H})`
    ============  =================  ==========================================================

    :meth:`multiplier` clamps the parameter to its bounds. The parameter may be outside, since a
    plain training loop does not project it. Then only gradients whose descent leads back inside
    pass, so that the parameter neither gets stuck nor drifts. The direct parametrization has a
    floor, :data:`DIRECT_ALPHA_FLOOR`.

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
        """Return the initial parameter for a temperature ``alpha_init``, clamped to the bounds."""
        lower, upper = self._parameter_bounds
        value = alpha_init if self.mode == "direct" else math.log(alpha_init)
        return min(max(value, lower), upper)

    def alpha(self, parameter: Tensor) -> Tensor:
        r"""Return the temperature :math:`\alpha` within its bounds, without gradient."""
        inside = parameter.detach().clamp(*self._parameter_bounds)
        return inside if self.mode == "direct" else inside.exp()

    def multiplier(self, parameter: Tensor) -> Tensor:
        r"""Return the factor of the loss, :math:`\log\alpha` or :math:`\alpha`, within bounds."""
        inside = _InwardClamp.apply(parameter, *self._parameter_bounds)
        return inside.exp() if self.mode == "exp" else inside

    def project_(self, parameter: Tensor) -> None:
        """Move the parameter inside its bounds in place; call it after an optimizer step."""
        with torch.no_grad():
            parameter.clamp_(*self._parameter_bounds)


class _InwardClamp(torch.autograd.Function):
    """A clamp that lets a gradient through where its descent leads back inside the bounds.

    It tests the incoming gradient, which includes masks, importance weights and coefficients.
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
    r"""A running mean of :math:`\log\pi`, which is subtracted before the entropy bonus.

    The k-th batch moves the mean towards the batch mean with the rate :math:`8/(7+k)`, so the first
    batch sets the mean. It is updated only in training mode with gradients enabled. Batches without
    a valid step are ignored.

    Source: the ``normalize_entropy_reward`` option of ALF's ``SacAlgorithm``.

    Args:
        reference: a tensor with the dtype and the device of the mean.

    >>> center = RunningLogProb(torch.zeros(()))
    >>> center.update(torch.tensor([2.0, 4.0]))
    >>> center(torch.tensor([4.0]))
    tensor([1.])
    """

    mean: Tensor
    count: Tensor

    def __init__(self, reference: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", reference.detach().new_zeros(()))
        self.register_buffer("count", reference.new_zeros((), dtype=torch.int64))

    def update(self, log_prob: Tensor, valid: Tensor | None = None) -> None:
        """Move the mean towards the mean log-probability of a batch, if the latter is finite.

        Args:
            log_prob: log-probabilities ``[*]``.
            valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.
        """
        if not (self.training and torch.is_grad_enabled()):
            return
        with torch.no_grad():
            # `torch.where` in place of a branch, which would make the CPU wait for the device.
            mean = masked_mean(log_prob, valid)
            # Terminal states may be NaN, which must not stay in the running mean.
            counts = mean.isfinite() if valid is None else mean.isfinite() & valid.any()
            self.count += counts.to(torch.int64)
            rate = 8 / (7 + self.count.to(self.mean.dtype))
            self.mean += torch.where(counts, rate * (mean - self.mean), torch.zeros_like(mean))

    def forward(self, log_prob: Tensor) -> Tensor:
        """Return ``log_prob`` minus the running mean."""
        return log_prob - self.mean
