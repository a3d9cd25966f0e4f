"""The target entropy and target divergence of a factor, from its option and action spec."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

from torch import Tensor
from torchrl.data import Bounded, TensorSpec

from rlkit_sac import functional as F
from rlkit_sac.errors import ConfigError
from rlkit_sac.objectives.checks import NEEDS_SPEC

TargetEntropy = str | float | Tensor | Callable[[TensorSpec], float]


def continuous_entropy_target(
    option: TargetEntropy, spec: TensorSpec | None, *, min_prob: float = 0.1
) -> float:
    """Return the target entropy of a continuous policy.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.continuous_target_entropy`),
            ``"neg_dim"`` (minus the number of action dimensions), ``"half_neg_dim"``, a number, or
            a function of the action's spec.
        spec: the spec of one action; not needed if the option is a number.
        min_prob: the fraction of each interval that ``"auto"`` keeps, in (0, 1].

    Raises:
        ConfigError: for a missing or unbounded spec.

    >>> spec = Bounded(-1.0, 1.0, (6,))
    >>> round(continuous_entropy_target("auto", spec), 6)
    -9.656627
    """
    if isinstance(option, Real | Tensor):
        return float(option)
    if spec is None:
        raise ConfigError(f"target_entropy={option!r} {NEEDS_SPEC}; or pass a number")
    if callable(option):
        return float(option(spec))
    if option in ("neg_dim", "half_neg_dim"):
        full = F.negative_dimension_target_entropy(spec.shape.numel())
        return full / 2 if option == "half_neg_dim" else full
    if not isinstance(spec, Bounded):
        raise ConfigError(
            f"target_entropy='auto' needs a bounded action spec, not {type(spec).__name__}: "
            "use 'neg_dim' or a number"
        )
    bounds = (spec.space.low, spec.space.high)
    low, high = (bound.cpu().double().flatten().tolist() for bound in bounds)
    return F.continuous_target_entropy(low, high, min_prob)


def discrete_entropy_target(
    option: TargetEntropy,
    *,
    spec: TensorSpec | None = None,
    num_actions: int | Tensor | None = None,
    min_prob: float = 0.1,
) -> Any:
    """Return the target entropy of a policy over discrete actions.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.discrete_target_entropy`),
            ``"scaled_log_k"`` (0.98 log K), a number, or a function of the action's spec.
        spec: the categorical spec of one action, if known.
        num_actions: the number K of actions, if known without a spec. For a named option it may be
            a number for each state, ``[*]``.
        min_prob: the probability that ``"auto"`` leaves to all actions but one, in (0, 1].

    Returns:
        The target entropy in nats, one for each state ``[*]`` if K is. ``None`` for a named option
        without a known K.

    Raises:
        ConfigError: for a function without a spec.

    >>> from torchrl.data import Categorical
    >>> round(discrete_entropy_target("scaled_log_k", spec=Categorical(2)), 6)
    0.679284
    """
    count: Any = num_actions if spec is None else spec.space.n
    if isinstance(option, str):
        if count is None:
            return None
        if option == "auto":
            return F.discrete_target_entropy(count, min_prob)
        return F.scaled_log_target_entropy(count)
    if callable(option) and not isinstance(option, Tensor):
        if spec is None:
            raise ConfigError(f"target_entropy as a function {NEEDS_SPEC}")
        option = option(spec)
    return float(option)


def warn_if_impossible(option: str, target: float, lowest: float, highest: float) -> None:
    """Warn of a target that no policy can reach.

    Args:
        option: the option that gave the target.
        target: the target, an entropy or a divergence.
        lowest: the lowest value that a policy can have.
        highest: the highest value that a policy can have.

    >>> warn_if_impossible("target_entropy", 0.5, 0.0, math.log(2))  # possible: no warning
    """
    if not lowest <= target <= highest + 1e-3:  # bounds and targets may be in single precision
        warnings.warn(
            f"{option} is {target:g} nats, but only {lowest:g} to {highest:.4g} are possible: its "
            "temperature will never come to rest. Choose another, or set min_alpha and max_alpha",
            stacklevel=2,
        )


def default_target_kld(num_actions: int | Tensor) -> Any:
    r"""Return half the largest divergence from the uniform prior, :math:`\tfrac12\log K`.

    >>> round(default_target_kld(4), 6)
    0.693147
    """
    return 0.5 * (num_actions.log() if isinstance(num_actions, Tensor) else math.log(num_actions))


def refuse_target_entropy_with_prior(option: TargetEntropy) -> None:
    """Refuse a target entropy if the target of the temperature is a divergence.

    Args:
        option: the target entropy that was passed.

    Raises:
        ConfigError: naming the options to set instead.

    >>> refuse_target_entropy_with_prior(-1.0)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: target_entropy is -1.0, but with a prior the temperature aims ...
    """
    if not (isinstance(option, str) and option == "auto"):
        raise ConfigError(
            f"target_entropy is {option!r}, but with a prior the temperature aims at a divergence "
            "from it: leave it 'auto', and set target_kld_per_dim or target_kld_discrete"
        )
