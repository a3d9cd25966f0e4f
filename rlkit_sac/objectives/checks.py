"""What losses refuse of batches, networks and specs, and what they make of invalid steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec

from rlkit_sac.action_bounds import check_bounds
from rlkit_sac.errors import BatchError, ConfigError

try:
    from torch.fx.experimental.proxy_tensor import get_proxy_mode as _proxy_mode
except ImportError:  # it is not public; without it, losses that read values run uncompiled
    _proxy_mode: Callable[[], None] = lambda: None  # type: ignore[no-redef]  # noqa: E731

_WRITERS = {
    "prev_action": "make_env does, elsewhere the transform rlkit_sac.envs.PreviousAction",
    "action_mask": "make_env does for a task that gives masks",
    "is_init": "make_env does, elsewhere TorchRL's transform InitTracker",
}


def check_entries(
    batch: TensorDictBase, keys: Iterable[NestedKey], roles: Mapping[NestedKey, str]
) -> None:
    """Refuse a batch in which one of the keys is missing.

    Args:
        batch: any batch shape.
        keys: required entries.
        roles: the argument of ``set_keys`` for a key, if there is one.

    Raises:
        BatchError: naming the key, the entries of the batch and what to do.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> check_entries(TensorDict(obs=torch.ones(1)), ["observation"], {})
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: the batch has no entry 'observation'; it holds 'obs'. \
Add it, or let the networks read what is there
    """
    missing = [key for key in keys if not _holds(batch, key)]
    if not missing:
        return
    held = ", ".join(sorted(repr(key) for key in batch.keys(True, True))) or "nothing"
    names = ", ".join(map(repr, missing))
    role = roles.get(missing[0])
    mend = f"name it with set_keys({role}=...)" if role else "let the networks read what is there"
    path = (missing[0],) if isinstance(missing[0], str) else missing[0]
    root = path[path[0] == "next"]
    if root in _WRITERS:
        mend = f"let the environment write it: {_WRITERS[root]}"
    raise BatchError(f"the batch has no entry {names}; it holds {held}. Add it, or {mend}")


def _holds(batch: TensorDictBase, key: NestedKey) -> bool:
    try:
        return batch.get(key, None) is not None
    except ValueError:  # a part of an entry that has none
        return False


def check_flag(batch: TensorDictBase, key: NestedKey, role: str) -> None:
    """Refuse a flag whose shape is not ``[*batch, 1]``.

    Raises:
        BatchError: naming the entry, its shape and the expected shape.
    """
    shape = batch.get(key).shape
    if shape != (*batch.batch_size, 1):
        raise BatchError(
            f"{role} {key!r} has the shape {list(shape)}, wanted {[*batch.batch_size, 1]}: the "
            "batch's shape and one trailing dimension, as TorchRL's environments write it"
        )


def check_widths(
    name: str, network: TensorDictModuleBase, batch: TensorDictBase, dtype: torch.dtype
) -> None:
    """Refuse entries that the first layer of a network cannot read.

    Args:
        name: of the network.
        network: without a memory; its first layer is looked at if that is linear.
        batch: with these entries.
        dtype: of the network's parameters.

    Raises:
        BatchError: naming the entry, its shape and type, and those that are wanted.
    """
    first = next((layer for layer in network.modules() if hasattr(layer, "weight")), None)
    key, *others = network.in_keys
    for place in (key, ("next", key)):
        value, *rest = (batch.get(each, None) for each in (place, *others))
        if not isinstance(first, nn.Linear) or value is None or None in rest:
            return
        for other, entry in zip(others, rest, strict=True):
            if entry.dtype != dtype:
                raise BatchError(f"{other!r} has the type {entry.dtype}, but {name} wants {dtype}")
        beside, width = sum(each.shape[-1] for each in rest), value.shape[-1]
        wanted = first.in_features - beside
        # A network may read its first entry alone in its first layer.
        if value.dtype != dtype or width not in (wanted, first.in_features):
            raise BatchError(
                f"{place!r} has the shape {list(value.shape)} and the type {value.dtype}, but "
                f"{name} wants {[*batch.batch_size, wanted]} of {dtype}"
            )


def check_action(action: Tensor, sampled: Tensor, key: NestedKey) -> None:
    """Refuse actions whose shape differs from that of the policy's actions.

    Args:
        action: of the batch.
        sampled: of the policy, at the same states.
        key: of the action in the batch.

    Raises:
        BatchError: naming both shapes.
    """
    if action.shape != sampled.shape:
        raise BatchError(
            f"action {key!r} has the shape {list(action.shape)}, but the actor's actions have "
            f"{list(sampled.shape)}"
        )


def check_index(action: Tensor, num_actions: int, batch_size: torch.Size, key: NestedKey) -> None:
    """Refuse discrete actions that are not one index for each step.

    The values of the indices are checked on the CPU only, since reading them from another device
    would synchronize with it, and not while a graph is compiled.

    Args:
        action: of the batch.
        num_actions: number of values that the critics write.
        batch_size: of the batch.
        key: of the discrete action in the batch.

    Raises:
        BatchError: naming the shape, the dtype or the index, and what to do.

    >>> check_index(torch.eye(3, dtype=torch.int64), 3, torch.Size([3]), "action")
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: action 'action' has the shape [3, 3], which looks one-hot: ...
    """
    came = f"action {key!r} has the shape {list(action.shape)}"
    wanted = f"wanted an index of the shape {list(batch_size)}"
    if action.shape != batch_size:
        if action.shape == (*batch_size, num_actions):
            raise BatchError(
                f"{came}, which looks one-hot: {wanted}. Take its argmax(-1), or make the "
                "environment write indices (GymEnv(..., categorical_action_encoding=True))"
            )
        raise BatchError(f"{came}, {wanted}")
    if action.is_floating_point() or action.is_complex():
        raise BatchError(
            f"action {key!r} is of dtype {action.dtype}: {wanted} and an integer dtype, from 0 to "
            f"{num_actions - 1}"
        )
    if not can_read(action):
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(action.long()))
    if lowest < 0 or highest >= num_actions:
        raise BatchError(
            f"action {key!r} holds the index {lowest if lowest < 0 else highest}: wanted indices "
            f"from 0 to {num_actions - 1}, one for each value that the critic writes"
        )


def can_read(entry: Tensor) -> bool:
    """Whether values may be read: of a non-empty tensor on the CPU, while nothing is traced."""
    traced = torch.compiler.is_compiling() or _proxy_mode() is not None
    return entry.device.type == "cpu" and not traced and bool(entry.numel())


def check_reward(reward: Tensor, reward_weights: Tensor | None, batch: TensorDictBase) -> None:
    """Refuse rewards and reward weights whose shapes do not match.

    Args:
        reward: expected ``[*batch, M]``.
        reward_weights: expected ``[M]`` with M > 1, or ``None``.
        batch: the batch of the reward.

    Raises:
        BatchError: naming the given and the expected shape.
    """
    dimensions = reward.shape[-1] if reward.ndim == batch.ndim + 1 else None
    if dimensions is None or reward.shape[:-1] != batch.batch_size:
        raise BatchError(
            f"reward has the shape {list(reward.shape)}, wanted {[*batch.batch_size]} and one "
            "trailing dimension: 1 for a scalar reward, M for a vector one"
        )
    if reward_weights is not None and dimensions == 1:
        raise BatchError("reward_weights are for vector rewards, but the reward is a scalar")
    if reward_weights is not None and reward_weights.shape != (dimensions,):
        raise BatchError(
            f"reward_weights has the shape {list(reward_weights.shape)}, but the reward has "
            f"{dimensions} dimensions: wanted [{dimensions}]"
        )


def check_values(
    values: Tensor, wanted: Sequence[int], reward_dim: int, network: str = "qvalue_network"
) -> None:
    """Refuse values of critics whose shape does not match the rewards.

    Args:
        values: ``[R, ...]`` of R critics.
        wanted: the expected shape of one critic's values.
        reward_dim: number M of reward dimensions.
        network: name of the network in the error.

    Raises:
        BatchError: naming both shapes.
    """
    if values.shape[1:] != torch.Size(wanted):
        raise BatchError(
            f"{network} wrote values of the shape {list(values.shape[1:])}, wanted "
            f"{list(wanted)} for rewards of {reward_dim} dimensions: a critic needs one output "
            "for each reward dimension"
        )


def actor_keys(actor: TensorDictModuleBase) -> tuple[NestedKey, NestedKey]:
    """The keys under which an actor writes its action and its log-probability.

    Raises:
        ConfigError: for a module that is not a probabilistic actor, or an actor of several actions.
    """
    if not hasattr(actor, "get_dist"):
        raise ConfigError(
            f"actor_network is a {type(actor).__name__} without get_dist(): pass a TorchRL "
            "ProbabilisticActor"
        )
    if len(actor.dist_sample_keys) > 1:
        raise ConfigError(
            f"actor_network writes several actions, {actor.dist_sample_keys}: the losses take an "
            "actor of one action, HybridSACLoss that of the continuous one"
        )
    return actor.dist_sample_keys[0], actor.log_prob_keys[0]


def refuse_batch_norm(network: nn.Module, name: str) -> None:
    """Refuse a network whose layers keep running statistics of their inputs.

    Target updaters track parameters, not buffers: the statistics of a target critic would never be
    updated, and forward passes at next states would update those of the other networks.

    Args:
        network: an actor or a critic.
        name: of the network in the error.

    Raises:
        ConfigError: naming the layer.
    """
    for path, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"{name} has a {type(module).__name__} at {path!r}, whose running statistics no "
                "target network follows: use LayerNorm, or track_running_stats=False"
            )


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


def fill_invalid(batch: TensorDictBase, valid: Tensor | None) -> TensorDictBase:
    """The batch with zeros in its invalid steps.

    Masking the losses alone is not enough: a NaN in a padded observation reaches the gradients
    of the weights as ``0 * NaN``.
    """
    if valid is None:
        return batch

    def fill(entry: Tensor) -> Tensor:
        mask = valid.reshape(*valid.shape, *(1,) * (entry.ndim - valid.ndim))
        return torch.where(mask, entry, torch.zeros_like(entry))

    return batch.apply(fill)


def cut_steps(done: Tensor, valid: Tensor | None) -> Tensor:
    """Steps of ``[*, T, 1]`` sequences after which the trajectory does not continue in the row."""
    if valid is None:
        return done
    last, invalid = torch.zeros_like(done[..., -1:, :]), ~valid.unsqueeze(-1)
    return done | invalid | torch.cat([invalid[..., 1:, :], last], -2)
