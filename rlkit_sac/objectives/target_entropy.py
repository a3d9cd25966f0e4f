"""From an action spec and an option to the target entropy in nats."""

from collections.abc import Callable

from tensordict import NestedKey
from torchrl.data import Bounded, Composite, TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import continuous_target_entropy, negative_dimension_target_entropy

TargetEntropy = str | float | Callable[[TensorSpec], float]


def resolve_continuous_target_entropy(
    option: TargetEntropy, spec: TensorSpec | None, action_key: NestedKey, *, min_prob: float = 0.1
) -> float:
    """The target entropy of a continuous policy.

    Args:
        option: ``"auto"`` (see :func:`~rlkit_sac.functional.continuous_target_entropy`),
            ``"neg_dim"`` (minus the number of action dimensions), a number, or a function of the
            action's spec.
        spec: spec of the action, or a composite one that holds it; needed unless a number is given.
        action_key: where a composite spec holds the action.
        min_prob: the fraction of each interval that ``"auto"`` keeps, in (0, 1].

    Raises:
        ConfigError: for an unknown option, a missing spec or infinite bounds.

    >>> spec = Bounded(-1.0, 1.0, (6,))
    >>> round(resolve_continuous_target_entropy("auto", spec, "action"), 6)
    -9.656627
    """
    if isinstance(option, int | float) and not isinstance(option, bool):
        if option != option or abs(option) == float("inf"):
            raise ConfigError(f"target_entropy must be finite, not {option}")
        return float(option)
    if not callable(option) and option not in ("auto", "neg_dim"):
        raise ConfigError(
            f"target_entropy {option!r} is not 'auto', 'neg_dim', a number or a function of the "
            "action spec"
        )
    action_spec = _action_leaf(spec, action_key)
    if action_spec is None:
        raise ConfigError(
            f"target_entropy={option!r} needs the action spec: pass action_spec= (for a batched "
            "environment env.action_spec_unbatched), an actor with a spec, or a number"
        )
    if callable(option):
        return float(option(action_spec))
    if option == "neg_dim":
        return negative_dimension_target_entropy(action_spec.shape.numel())
    if not 0 < min_prob <= 1:
        raise ConfigError(f"min_prob must be in (0, 1], not {min_prob}")
    if not isinstance(action_spec, Bounded):
        raise ConfigError(
            f"target_entropy='auto' needs a bounded action spec, not {type(action_spec).__name__}: "
            "use 'neg_dim' or a number"
        )
    low = action_spec.space.low.double().flatten()
    high = action_spec.space.high.double().flatten()
    for dimension, (lo, hi) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if not -float("inf") < lo < hi < float("inf"):
            raise ConfigError(
                f"action dimension {dimension} has the bounds [{lo}, {hi}]: "
                "target_entropy='auto' needs finite ones, the lower below the upper"
            )
    return continuous_target_entropy(low.tolist(), high.tolist(), min_prob)


def _action_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The action's own spec, without the batch dimensions of the composite that holds it."""
    if not isinstance(spec, Composite):
        return spec
    path = key if isinstance(key, tuple) else (key,)
    leaf = spec
    batch_dims = 0
    for name in path:
        if not isinstance(leaf, Composite) or name not in leaf.keys():  # noqa: SIM118
            return None
        batch_dims = leaf.ndim
        leaf = leaf[name]
    if leaf is not None and batch_dims:
        leaf = leaf[(0,) * batch_dims]
    return leaf
