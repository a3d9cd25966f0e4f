"""A temperature for each factor of the policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rlkit_sac.modules.temperature import AlphaParametrization, Temperature
from rlkit_sac.objectives.sac.factors import PerFactor, PolicySample, factor_key, per_factor
from rlkit_sac.objectives.sac.soft_contract import SoftLossContract
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy
from rlkit_sac.objectives.sac.target_kld import refuse_target_entropy


class TemperedLoss(SoftLossContract):
    """Temperature parameters, their bounds, their loss and their target entropies."""

    #: The policy's factors, in the order of pairs of options; they name parameters and outputs. A
    #: policy of a single factor leaves it unnamed.
    factors: ClassVar[tuple[str, ...]] = ("",)

    temperatures: dict[str, Temperature]
    fixed_factors: frozenset[str]

    def _make_temperatures(
        self,
        alpha_init: PerFactor[float],
        min_alpha: PerFactor[float | None],
        max_alpha: PerFactor[float | None],
        fixed_alpha: PerFactor[bool],
        alpha_parametrization: PerFactor[AlphaParametrization],
        *,
        like: Tensor,
    ) -> None:
        """Register ``log_alpha`` of every factor: a parameter, or a buffer where it is fixed."""
        options = {
            "alpha_init": alpha_init,
            "min_alpha": min_alpha,
            "max_alpha": max_alpha,
            "fixed_alpha": fixed_alpha,
            "alpha_parametrization": alpha_parametrization,
        }
        of_each: list[tuple[Any, ...]] = list(
            zip(*(per_factor(n, value, self.factors) for n, value in options.items()), strict=True)
        )
        self.temperatures = {}
        fixed_factors = []
        for factor, (start, low, high, fixed, mode) in zip(self.factors, of_each, strict=True):
            temperature = Temperature(mode, low, high)
            value = torch.tensor(
                temperature.initial_parameter(start), dtype=like.dtype, device=like.device
            )
            if fixed:
                fixed_factors.append(factor)
                self.register_buffer(factor_key("log_alpha", factor), value)
            else:
                self.register_parameter(factor_key("log_alpha", factor), nn.Parameter(value))
            self.temperatures[factor] = temperature
        self.fixed_factors = frozenset(fixed_factors)

    def _set_target_entropies(
        self,
        target_entropy: PerFactor[TargetEntropy],
        min_prob: float,
        target_kld: PerFactor[float | None],
    ) -> None:
        """Set ``target_entropy`` of every factor whose temperature is not fixed.

        With a prior it is minus the divergence that the temperature aims at.
        """
        options: list[tuple[Any, ...]] = [
            per_factor("target_entropy", target_entropy, self.factors),
            per_factor("target_kld", target_kld, self.factors),
        ]
        for factor, option, kld in zip(self.factors, *options, strict=True):
            prior = self.priors.get(factor)
            resolved = None
            if factor not in self.fixed_factors:
                if prior is None:
                    resolved = self._resolve_target_entropy(factor, option, min_prob)
                else:
                    refuse_target_entropy(option)
                    distance = self._resolve_target_kld(factor, kld, prior.prior)
                    resolved = None if distance is None else -distance
            setattr(self, factor_key("target_entropy", factor), resolved)

    @abstractmethod
    def _resolve_target_entropy(self, factor: str, option: Any, min_prob: float) -> float | None:
        """From the option to nats; ``None`` where the first batch has to tell."""

    @abstractmethod
    def _resolve_target_kld(self, factor: str, target: Any, prior: nn.Module) -> float | None:
        """From the option to the divergence from the factor's prior, in the same way."""

    def _target_entropy(self, factor: str, sample: PolicySample) -> float | Tensor:
        """The target entropy of a factor, for all samples or for each, ``[*]``."""
        return getattr(self, factor_key("target_entropy", factor))

    def alpha(self, factor: str = "") -> Tensor:
        """The temperature of a factor, a scalar within its bounds, without gradient."""
        return self.temperatures[factor].alpha(getattr(self, factor_key("log_alpha", factor)))

    def project_parameters(self) -> None:
        """Move the temperatures inside their bounds; call it after an optimizer step."""
        for factor, temperature in self.temperatures.items():
            temperature.project_(getattr(self, factor_key("log_alpha", factor)))

    def _alpha_loss(self, samples: Sequence[PolicySample]) -> Tensor:
        """Loss ``[*]`` of the temperatures, added over the samples; zero where they are fixed."""
        loss = torch.zeros_like(samples[0].log_prob[self.factors[0]]).detach()
        for factor in self.factors:
            if factor in self.fixed_factors:
                continue
            parameter = getattr(self, factor_key("log_alpha", factor))
            target: float | Tensor = 0.0
            for sample in samples:
                target = target + self._target_entropy(factor, sample)
            log_ratios = torch.stack([sample.log_ratio(factor) for sample in samples])
            loss = loss + self.temperatures[factor].loss(parameter, -log_ratios.sum(0), target)
        return loss

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> TemperedLoss:
        # A cast replaces buffers, where it keeps parameters: policies would lose a fixed one.
        shared = {factor_key("log_alpha", factor) for factor in self.fixed_factors}
        before = {name: self._buffers[name] for name in shared}
        super()._apply(fn)
        for name, buffer in before.items():
            assert buffer is not None
            buffer.data = self._buffers[name]
            self._buffers[name] = buffer
        return self
