"""The factors of a policy: a draw from them, and options that each may have for itself."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from torch import Tensor

from rlkit_sac.errors import ConfigError

T = TypeVar("T")

#: An option for all factors, or a (discrete, continuous) pair.
PerFactor: TypeAlias = T | tuple[T, T] | list[T]


@dataclass(frozen=True)
class PolicySample:
    r"""What one draw from the policy at a batch of states gives to every loss.

    Attributes:
        log_prob: for each factor of the policy its log-probability ``[*]`` in nats; where the
            factor's entropy is known exactly, minus that entropy stands in for it.
        log_prior: for each factor with a prior, the log-probability ``[*]`` of the same action, or
            the same expectation, under the prior.
    """

    log_prob: dict[str, Tensor]
    log_prior: dict[str, Tensor]

    def log_ratio(self, factor: str) -> Tensor:
        r"""What the temperature weighs, :math:`\log\pi - \log\pi^0`, or :math:`\log\pi` alone."""
        log_prob = self.log_prob[factor]
        return log_prob - self.log_prior[factor] if factor in self.log_prior else log_prob


def per_factor(name: str, option: object, factors: tuple[str, ...]) -> tuple[object, ...]:
    """An option's value for each factor.

    Args:
        name: of the option.
        option: one value for all, or a sequence with one for each.
        factors: of the policy, ``("",)`` where it has no others.

    Raises:
        ConfigError: for a sequence of another length.

    >>> per_factor("alpha_init", [0.5, 1.0], ("discrete", "continuous"))
    (0.5, 1.0)
    """
    if not isinstance(option, tuple | list):
        return (option,) * len(factors)
    if len(factors) == 1:
        raise ConfigError(f"{name} takes one value here, not {option!r}")
    if len(option) != len(factors):
        raise ConfigError(
            f"{name} takes one value or one for each of ({', '.join(factors)}), not {option!r}"
        )
    return tuple(option)


def factor_key(name: str, factor: str) -> str:
    """The name of a factor's own entry; the sole factor of a policy is left unnamed.

    >>> factor_key("alpha", "discrete"), factor_key("alpha", "")
    ('alpha_discrete', 'alpha')
    """
    return f"{name}_{factor}" if factor else name
