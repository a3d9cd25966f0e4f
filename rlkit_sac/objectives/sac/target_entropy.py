"""From an action spec and an option to the target entropy in nats."""

import math
import warnings
from collections.abc import Callable
from numbers import Real

from tensordict import NestedKey
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import (
    continuous_target_entropy,
    discrete_target_entropy,
    negative_dimension_target_entropy,
    scaled_log_target_entropy,
)
from rlkit_sac.modules.box import check_box

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
        return negative_dimension_target_entropy(spec.shape.numel())
    if not 0 < min_prob <= 1:
        raise ConfigError(f"min_prob must be in (0, 1], not {min_prob}")
    if not isinstance(spec, Bounded):
        raise ConfigError(
            f"target_entropy='auto' needs a bounded action spec, not {type(spec).__name__}: "
            "use 'neg_dim' or a number"
        )
    bounds = (spec.space.low, spec.space.high)
    low, high = (bound.cpu().double().flatten().tolist() for bound in bounds)
    return continuous_target_entropy(low, high, min_prob)


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
        nats; ``None`` for a named option without a spec: the critics will show the number of
        actions, see :func:`named_discrete_target_entropy`.

    Raises:
        ConfigError: for an unknown option, or a function without a spec.

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
        return discrete_target_entropy(num_actions, min_prob)
    return scaled_log_target_entropy(num_actions)


def action_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The spec of one action, out of the composite spec that may hold it.

    Args:
        spec: spec of the action (returned as it is), a composite one, or ``None``.
        key: where a composite spec holds the action; its batch dimensions are taken off.

    Raises:
        ConfigError: for bounds that are not finite or leave no width.
    """
    if isinstance(spec, Composite):
        path = key if isinstance(key, tuple) else (key,)
        batch_dims = 0
        for name in path:
            if not isinstance(spec, Composite) or name not in spec.keys():  # noqa: SIM118
                return None
            batch_dims = spec.ndim
            spec = spec[name]
        if spec is not None and batch_dims:
            spec = spec[(0,) * batch_dims]
    if isinstance(spec, Bounded):
        check_box(spec.space.low, spec.space.high)
    return spec


def discrete_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The categorical spec of one discrete action, out of the composite spec that may hold it.

    Raises:
        ConfigError: for another kind of spec.
    """
    leaf = action_leaf(spec, key)
    if leaf is None or (isinstance(leaf, Categorical) and not isinstance(leaf, MultiCategorical)):
        return leaf
    advice = "one of a Discrete space, whose actions are indices"
    if isinstance(leaf, OneHot):
        advice = "indices: GymEnv(..., categorical_action_encoding=True)"
    raise ConfigError(
        f"the spec of the discrete action {key!r} is {type(leaf).__name__}, wanted Categorical, "
        f"{advice}"
    )


def hybrid_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The spec of one part of a hybrid action.

    Args:
        spec: of everything (``env.full_action_spec``), or of the action alone, with the last names
            of the keys.
        key: of the part.

    Raises:
        ConfigError: for a spec that is not composite.
    """
    if spec is not None and not isinstance(spec, Composite):
        raise ConfigError(
            f"action_spec is {type(spec).__name__}: a hybrid action needs a Composite with a "
            "continuous and a discrete entry"
        )
    leaf = action_leaf(spec, key)
    return leaf if leaf is not None or isinstance(key, str) else action_leaf(spec, key[-1])
