"""The keyword arguments of the soft actor-critic losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.objectives.options import LossOptions

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])

#: One value for all factors of the policy, or a (discrete, continuous) pair.
PerFactor: TypeAlias = T | tuple[T, T] | list[T]


@dataclass(frozen=True, eq=False, kw_only=True)
class SACOptions(LossOptions):
    r"""What all soft actor-critic losses take beside the fields of their sections.

    The sections are those of :mod:`rlkit_sac.config`, such as
    :class:`~rlkit_sac.config.ContinuousLossConfig`.
    """

    encoder_network: TensorDictModuleBase | None = None
    """One encoder of the states for actor and critics, which read what it writes, such as
    ``features``, in place of the observation. ``loss_qvalue`` alone trains it, and it has no
    target, as in DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645)."""

    prior_network: PerFactor[nn.Module | None] = None
    r"""A prior :math:`\pi^0` such as :class:`~rlkit_sac.modules.UniformPrior`, or any module with
    ``in_keys`` and ``get_dist(tensordict)``: :math:`\log\pi - \log\pi^0` replaces
    :math:`\log\pi` everywhere, and a discrete policy without an actor is :math:`\pi_k \propto
    \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy, which is not trained."""

    action_spec: TensorSpec | None = None
    """Spec of one action, or the composite spec of the environment; default the actor's. Without
    one the number of discrete actions is that of the critics' output."""

    observation_normalizer: ObservationNormalizer | None = None
    """Normalizes the observations of networks and policy; ``observe()`` updates its statistics."""

    reward_normalizer: RewardNormalizer | None = None
    """Normalizes the rewards in the targets, before ``reward_scale``; updated in the same way."""

    deactivate_vmap: bool = False
    """Call the critics one after another."""


def of_each(name: str, value: Any, factors: Sequence[str]) -> dict[str, Any]:
    """The value of an option for each factor of the policy.

    Args:
        name: of the option.
        value: one for all, or a sequence.
        factors: their names, ``[""]`` for a single one.

    Raises:
        ConfigError: for a sequence of another length.

    >>> of_each("alpha_init", (0.5, 1.0), ["discrete", "continuous"])
    {'discrete': 0.5, 'continuous': 1.0}
    """
    if not isinstance(value, tuple | list):
        return dict.fromkeys(factors, value)
    if len(factors) == 1:
        raise ConfigError(f"{name} takes one value here, not {value!r}")
    if len(value) != len(factors):
        raise ConfigError(
            f"{name} takes one value or one for each of ({', '.join(factors)}), not {value!r}"
        )
    return dict(zip(factors, value, strict=True))
