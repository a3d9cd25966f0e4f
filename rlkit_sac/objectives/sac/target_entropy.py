"""The target of a temperature from the options: an entropy or a divergence, in nats."""

import math
import warnings
from collections.abc import Callable
from numbers import Real

from torch import Tensor, nn
from torchrl.data import Bounded, TensorSpec

from rlkit_sac import functional as F
from rlkit_sac.errors import ConfigError

TargetEntropy = str | float | Tensor | Callable[[TensorSpec], float]


def resolve_continuous_target_entropy(
    option: TargetEntropy, spec: TensorSpec | None, *, min_prob: float = 0.1
) -> float:
    """The target entropy of a continuous policy.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.continuous_target_entropy`),
            ``"neg_dim"`` (minus the number of action dimensions), a number, or a function of the
            action's spec.
        spec: spec of one action; needed unless a number is given.
        min_prob: the fraction of each interval that ``"auto"`` keeps, in (0, 1].

    Raises:
        ConfigError: for an unknown option or a missing or unbounded spec.

    >>> spec = Bounded(-1.0, 1.0, (6,))
    >>> round(resolve_continuous_target_entropy("auto", spec), 6)
    -9.656627
    """
    known = isinstance(option, Real | Tensor) or callable(option) or option in ("auto", "neg_dim")
    if isinstance(option, bool) or not known:
        raise ConfigError(
            f"target_entropy {option!r} is not 'auto', 'neg_dim', a number or a function of the "
            "action spec"
        )
    if isinstance(option, Real | Tensor):
        if not math.isfinite(option):
            raise ConfigError(f"target_entropy must be finite, not {option}")
        return float(option)
    if spec is None:
        raise ConfigError(
            f"target_entropy={option!r} needs the action spec: pass action_spec= (for a batched "
            "environment env.action_spec_unbatched), an actor with a spec, or a number"
        )
    if callable(option):
        return float(option(spec))
    if option == "neg_dim":
        return F.negative_dimension_target_entropy(spec.shape.numel())
    if not 0 < min_prob <= 1:
        raise ConfigError(f"min_prob must be in (0, 1], not {min_prob}")
    if not isinstance(spec, Bounded):
        raise ConfigError(
            f"target_entropy='auto' needs a bounded action spec, not {type(spec).__name__}: "
            "use 'neg_dim' or a number"
        )
    bounds = (spec.space.low, spec.space.high)
    low, high = (bound.cpu().double().flatten().tolist() for bound in bounds)
    return F.continuous_target_entropy(low, high, min_prob)


def resolve_discrete_target_entropy(
    option: TargetEntropy, spec: TensorSpec | None, *, min_prob: float = 0.1
) -> float | None:
    """The target entropy of a policy over discrete actions.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.discrete_target_entropy`),
            ``"scaled_log_k"`` (0.98 log K), a number, or a function of the action's spec.
        spec: the categorical spec of one action, if known.
        min_prob: the probability that ``"auto"`` leaves to all actions but one, in (0, 1].

    Returns:
        nats; ``None`` for a named option without a spec: the number of actions is then taken from
        the critics, see :func:`named_discrete_target_entropy`.

    Raises:
        ConfigError: for an unknown option, or a function without a spec.

    >>> from torchrl.data import Categorical
    >>> round(resolve_discrete_target_entropy("scaled_log_k", Categorical(2)), 6)
    0.679284
    """
    known = isinstance(option, Real | Tensor) or callable(option)
    if isinstance(option, bool) or not (known or option in ("auto", "scaled_log_k")):
        hint = ""
        if option == "neg_dim":
            hint = " (of a hybrid policy only the continuous one may: pass a pair)"
        raise ConfigError(
            f"target_entropy {option!r} of discrete actions is not 'auto', 'scaled_log_k', a "
            f"number or a function of the action spec{hint}"
        )
    if not 0 < min_prob <= 1:
        raise ConfigError(f"min_prob must be in (0, 1], not {min_prob}")
    if isinstance(option, str):
        return (
            None if spec is None else named_discrete_target_entropy(option, spec.space.n, min_prob)
        )
    if callable(option) and not isinstance(option, Tensor):
        if spec is None:
            raise ConfigError(
                "target_entropy as a function needs the action spec: pass action_spec="
            )
        option = option(spec)
    if not math.isfinite(option):
        raise ConfigError(f"target_entropy must be finite, not {option}")
    largest = math.inf if spec is None else math.log(spec.space.n)
    if not 0 <= option <= largest:
        warnings.warn(
            f"no policy over these discrete actions has an entropy of {float(option):g} nats "
            f"(0 to {largest:g} is possible): its temperature will never come to rest. Choose "
            "another target_entropy, or bound it with min_alpha and max_alpha",
            stacklevel=2,
        )
    return float(option)


def named_discrete_target_entropy(option: str, num_actions: int, min_prob: float) -> float:
    """``"auto"`` or ``"scaled_log_k"`` in nats, for a known number of actions."""
    if option == "auto":
        return F.discrete_target_entropy(num_actions, min_prob)
    return F.scaled_log_target_entropy(num_actions)


def continuous_target_kld(per_dim: float, spec: TensorSpec | None) -> float:
    """The target divergence of a continuous policy from its prior.

    Args:
        per_dim: nats for each dimension of the action.
        spec: of one action.

    Raises:
        ConfigError: for a negative or infinite number, or a missing spec.

    >>> from torchrl.data import Bounded
    >>> continuous_target_kld(3.0, Bounded(-1.0, 1.0, (2,)))
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


def discrete_target_kld(
    target: float | None, num_actions: int | None, prior: nn.Module
) -> float | None:
    """The target divergence of a policy over discrete actions from its prior.

    Args:
        target: nats, or ``None`` for :func:`default_discrete_kld`.
        num_actions: K, or ``None`` if it is taken from the critics.
        prior: its method ``largest_kld(num_actions)``, if there is one, returns the largest
            possible divergence.

    Returns:
        nats; ``None`` if it depends on the number of actions of the critics.

    Raises:
        ConfigError: for a target that no policy reaches: the temperature would fall to 0.
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
            "from it: leave it out and set target_kld_per_dim, or target_kld_discrete of discrete "
            "actions"
        )
