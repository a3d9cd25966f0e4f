"""The target of a temperature from the options: an entropy or a divergence, in nats."""

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

from torch import Tensor
from torchrl.data import Bounded, TensorSpec

from rlkit_sac import functional as F
from rlkit_sac.errors import ConfigError

TargetEntropy = str | float | Tensor | Callable[[TensorSpec], float]

NEEDS_SPEC = (
    "needs the action spec: pass action_spec= (for a batched environment "
    "env.action_spec_unbatched), or an actor with a spec"
)


def continuous_target(
    option: TargetEntropy, spec: TensorSpec | None, *, min_prob: float = 0.1
) -> float:
    """The target entropy of a continuous policy.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.continuous_target_entropy`),
            ``"neg_dim"`` (minus the number of action dimensions), ``"half_neg_dim"``, a number, or
            a function of the action's spec.
        spec: spec of one action; needed unless a number is given.
        min_prob: the fraction of each interval that ``"auto"`` keeps, in (0, 1].

    Raises:
        ConfigError: for a missing or unbounded spec.

    >>> spec = Bounded(-1.0, 1.0, (6,))
    >>> round(continuous_target("auto", spec), 6)
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


def discrete_target(
    option: TargetEntropy,
    *,
    spec: TensorSpec | None = None,
    num_actions: int | Tensor | None = None,
    min_prob: float = 0.1,
) -> Any:
    """The target entropy of a policy over discrete actions.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.discrete_target_entropy`),
            ``"scaled_log_k"`` (0.98 log K), a number, or a function of the action's spec.
        spec: the categorical spec of one action, if known.
        num_actions: K, if known without a spec; for a named option it may be that of each state.
        min_prob: the probability that ``"auto"`` leaves to all actions but one, in (0, 1].

    Returns:
        nats, for each state ``[*]``; ``None`` for a named option where K is not known.

    Raises:
        ConfigError: for a function without a spec.

    >>> from torchrl.data import Categorical
    >>> round(discrete_target("scaled_log_k", spec=Categorical(2)), 6)
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


def warn_if_impossible(option: str, nats: float, least: float, most: float) -> None:
    """Warn of a target that no policy can have, with what is possible.

    Args:
        option: that gave the target.
        nats: the target, an entropy or a divergence.
        least: the smallest value that a policy can have.
        most: the largest one.

    >>> warn_if_impossible("target_entropy", 0.5, 0.0, math.log(2))  # is possible
    """
    if not least <= nats <= most + 1e-3:  # bounds and targets may be in single precision
        warnings.warn(
            f"{option} is {nats:g} nats, but only {least:g} to {most:.4g} are possible: its "
            "temperature will never come to rest. Choose another, or set min_alpha and max_alpha",
            stacklevel=2,
        )


def default_discrete_kld(num_actions: int | Tensor) -> Any:
    r"""Half the largest divergence from the uniform prior, :math:`\tfrac12\log K`.

    >>> round(default_discrete_kld(4), 6)
    0.693147
    """
    return 0.5 * (num_actions.log() if isinstance(num_actions, Tensor) else math.log(num_actions))


def refuse_target_entropy(option: TargetEntropy) -> None:
    """Refuse a target entropy if the target of the temperature is a divergence.

    Args:
        option: the target entropy that was passed.

    Raises:
        ConfigError: naming the options to set instead.

    >>> refuse_target_entropy(-1.0)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: target_entropy is -1.0, but with a prior the temperature aims ...
    """
    if not (isinstance(option, str) and option == "auto"):
        raise ConfigError(
            f"target_entropy is {option!r}, but with a prior the temperature aims at a divergence "
            "from it: leave it 'auto', and set target_kld_per_dim or target_kld_discrete"
        )
