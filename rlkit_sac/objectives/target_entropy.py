"""From an action spec and an option to the target entropy in nats."""

import math
from collections.abc import Callable
from numbers import Real

from tensordict import NestedKey
from torch import Tensor
from torchrl.data import Bounded, Composite, TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import continuous_target_entropy, negative_dimension_target_entropy
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
