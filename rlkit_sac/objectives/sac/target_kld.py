"""From the option to the divergence from a prior that a temperature aims at, in nats."""

from __future__ import annotations

import math

from torch import nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy


def resolve_continuous_target_kld(per_dim: float, spec: TensorSpec | None) -> float:
    """The divergence of a continuous policy from its prior.

    Args:
        per_dim: nats for each dimension of the action.
        spec: of one action.

    Raises:
        ConfigError: for a number that is no divergence, or a missing spec.

    >>> from torchrl.data import Bounded
    >>> resolve_continuous_target_kld(3.0, Bounded(-1.0, 1.0, (2,)))
    6.0
    """
    if not 0 <= per_dim < math.inf:
        raise ConfigError(f"target_kld_per_dim must be a finite number >= 0, not {per_dim}")
    if spec is None:
        raise ConfigError(
            "target_kld_per_dim needs the action spec: pass action_spec= (for a batched "
            "environment env.action_spec_unbatched), an actor with a spec, or fixed_alpha=True"
        )
    return per_dim * spec.shape.numel()


def resolve_discrete_target_kld(
    target: float | None, num_actions: int | None, prior: nn.Module
) -> float | None:
    """The divergence of a policy over discrete actions from its prior.

    Args:
        target: nats, or ``None`` for :func:`default_discrete_kld`.
        num_actions: K, or ``None`` where the critics will show it.
        prior: tells by a method ``largest_kld(num_actions)``, if it has one, what no policy
            exceeds.

    Returns:
        nats; ``None`` where the critics will tell.

    Raises:
        ConfigError: for a target out of reach: the temperature would fall to 0.
    """
    if target is not None and not 0 <= target < math.inf:
        raise ConfigError(f"target_kld_discrete must be a finite number >= 0, not {target}")
    if num_actions is None:
        return target
    if target is None:
        return default_discrete_kld(num_actions)
    largest = getattr(prior, "largest_kld", None)
    limit = math.inf if largest is None else largest(num_actions)
    if target > limit:
        raise ConfigError(
            f"target_kld_discrete is {target}, but no policy over {num_actions} actions is "
            f"further than {limit:.6g} nats from this {type(prior).__name__}: its temperature "
            "would fall to 0. Choose a smaller one"
        )
    return target


def default_discrete_kld(num_actions: int) -> float:
    r"""Half the largest divergence from the uniform prior, :math:`\tfrac12\log K`.

    >>> round(default_discrete_kld(4), 6)
    0.693147
    """
    return 0.5 * math.log(num_actions)


def refuse_target_entropy(option: TargetEntropy) -> None:
    """Refuse a target entropy where the temperature aims at a divergence.

    Args:
        option: the target entropy that was passed.

    Raises:
        ConfigError: naming the options that count.

    >>> refuse_target_entropy(-1.0)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: target_entropy is -1.0, but with a prior the temperature aims ...
    """
    if not (isinstance(option, str) and option == "auto"):
        raise ConfigError(
            f"target_entropy is {option!r}, but with a prior the temperature aims at a divergence "
            "from it: leave it out and set target_kld_per_dim, or target_kld_discrete of discrete "
            "actions"
        )
