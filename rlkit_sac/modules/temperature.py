"""The temperature: the weight of the entropy against the reward, tuned to a target entropy."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rlkit_sac.errors import ConfigError

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

    Raises:
        ConfigError: for an unknown mode or impossible bounds.

    >>> Temperature("log", maximum=0.5).alpha(torch.tensor(0.0))
    tensor(0.5000)
    """

    mode: AlphaParametrization = "log"
    minimum: float | None = None
    maximum: float | None = None

    _parameter_bounds: ClassVar[tuple[float, float]]  # set once they are checked

    def __post_init__(self) -> None:
        if self.mode not in ("log", "exp", "direct"):
            raise ConfigError(
                f"alpha_parametrization {self.mode!r} is not 'log', 'exp' or 'direct'"
            )
        if None not in (self.minimum, self.maximum) and not self.minimum <= self.maximum:  # type: ignore[operator]
            raise ConfigError(f"min_alpha {self.minimum} is above max_alpha {self.maximum}")
        object.__setattr__(self, "_parameter_bounds", self._find_bounds())

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
        inside = _ClampLeadingBack.apply(parameter, *self._parameter_bounds)
        return inside.exp() if self.mode == "exp" else inside

    def project_(self, parameter: Tensor) -> None:
        """Move the parameter inside its bounds in place; call it after an optimizer step."""
        with torch.no_grad():
            parameter.clamp_(*self._parameter_bounds)

    def _find_bounds(self) -> tuple[float, float]:
        lower, upper = self.minimum or 0.0, math.inf if self.maximum is None else self.maximum
        if self.mode == "direct":
            return max(lower, DIRECT_ALPHA_FLOOR), upper
        return math.log(lower) if lower > 0 else -math.inf, math.log(upper)


class _ClampLeadingBack(torch.autograd.Function):
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
