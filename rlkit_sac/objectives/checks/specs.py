"""The spec of an action, from the specs that are passed to a loss."""

from tensordict import NestedKey
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec

from rlkit_sac.action_bounds import check_bounds
from rlkit_sac.errors import ConfigError


def action_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The spec of one action, which may be an entry of a composite spec.

    Args:
        spec: spec of the action (returned unchanged), a composite spec, or ``None``.
        key: of the action in a composite spec, whose batch dimensions are removed.

    Raises:
        ConfigError: for bounds that are infinite or equal.
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
        check_bounds(spec.space.low, spec.space.high)
    return spec


def discrete_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """The categorical spec of one discrete action, which may be an entry of a composite spec.

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
        spec: ``env.full_action_spec``, or the spec of the action alone, whose entries are the last
            elements of the keys.
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
