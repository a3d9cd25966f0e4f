"""The policy that acts with the parts of a loss."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict.nn import TensorDictModuleBase, TensorDictSequential

from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.modules.wrappers import EpsilonGreedy


def acting_policy(
    parts: Sequence[TensorDictModuleBase],
    normalizer: ObservationNormalizer | None = None,
    *,
    epsilon: float | None = None,
    encoder: TensorDictModuleBase | None = None,
) -> TensorDictModuleBase:
    """An actor, a Boltzmann policy, or one after the other, as one module.

    Args:
        parts: the modules that act.
        normalizer: of the observations that they read.
        epsilon: makes the deterministic mode of each part epsilon-greedy.
        encoder: comes before the parts.

    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> acting_policy([tanh_gaussian_actor(3, [-1.0], [1.0])], epsilon=0.1).in_keys
    ['observation']
    """
    if epsilon is not None:
        parts = [EpsilonGreedy(part, epsilon) for part in parts]
    if encoder is not None:
        parts = [encoder, *parts]
    policy = parts[0] if len(parts) == 1 else TensorDictSequential(*parts)
    return policy if normalizer is None else NormalizedPolicy(policy, normalizer)
