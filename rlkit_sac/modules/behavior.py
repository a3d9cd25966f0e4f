"""Policies that write the distribution of an action beside the action."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleBase,
    dispatch,
)
from tensordict.utils import unravel_key
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent, Normal
from torchrl.data import Categorical as CategoricalSpec
from torchrl.data import TensorSpec
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import MaskedOneHotCategorical, OneHotCategorical, TruncatedNormal

from rlkit_sac.errors import ConfigError, check_bounds
from rlkit_sac.functional import normalized_log_prob, sample_categorical
from rlkit_sac.modules.allowed_actions import build_dist, read_action_mask
from rlkit_sac.modules.blueprints import blueprint_property

ActionKind = Literal["discrete", "continuous"]

#: TorchRL's one-hot distributions. Some of them are subclasses of ``Categorical``.
ONE_HOT = (OneHotCategorical, MaskedOneHotCategorical)


def action_kind(actor: TensorDictModuleBase) -> ActionKind:
    """Return whether a probabilistic actor's actions are discrete or continuous.

    Args:
        actor: a TorchRL ``ProbabilisticActor`` with a ``Categorical`` over indices, or with a
            diagonal Gaussian (``IndependentNormal``, ``Normal``) that nothing squashes.

    Raises:
        ConfigError: for any other module.

    >>> from rlkit_sac.modules.actors import categorical_actor
    >>> action_kind(categorical_actor(3, 2))
    'discrete'
    """
    if not isinstance(actor, ProbabilisticTensorDictSequential):
        raise ConfigError(
            f"actor_network is a {type(actor).__name__} without get_dist(): pass a TorchRL "
            "ProbabilisticActor"
        )
    heads = [part for part in actor.modules() if isinstance(part, ProbabilisticTensorDictModule)]
    dist = heads[-1].distribution_class
    dist = getattr(dist, "func", dist)  # the class in a functools.partial
    if isinstance(dist, type) and not issubclass(dist, ONE_HOT):
        if issubclass(dist, Categorical):
            return "discrete"
        if issubclass(dist, (Independent, Normal)) and not issubclass(dist, TruncatedNormal):
            return "continuous"
    raise ConfigError(
        f"the actor's distribution is {getattr(dist, '__name__', dist)}, wanted a "
        "torch.distributions.Categorical over indices or a diagonal Gaussian that nothing squashes "
        "(torchrl.modules.IndependentNormal)"
    )


def distribution_parameters(dist: Distribution) -> tuple[Tensor, ...]:
    """Return the parameters of a distribution as a tuple of tensors.

    They are the normalized logits ``[*, A]`` of a categorical distribution, or the mean and the
    standard deviation ``[*, D]`` of a diagonal Gaussian.

    >>> distribution_parameters(Categorical(logits=torch.tensor([1.0, 1.0])))
    (tensor([-0.6931, -0.6931]),)
    >>> distribution_parameters(Independent(Normal(torch.zeros(2), torch.ones(2)), 1))
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if isinstance(dist, Categorical):
        return (dist.logits,)
    base = dist.base_dist if isinstance(dist, Independent) else dist
    assert isinstance(base, Normal)
    return base.loc, base.scale


class BehaviorPolicy(TensorDictModuleBase):
    r"""A policy that writes the parameters of its distribution beside the action of an actor.

    It reads the entries that the actor reads and writes ``action``. For a categorical distribution
    it also writes ``("behavior", "logits")`` ``[*, A]``, normalized; for a Gaussian
    ``("behavior", "loc")`` and ``("behavior", "scale")`` ``[*, D]``. The action is written as
    sampled: it may lie outside the bounds of the environment, which clips it. With TorchRL's
    exploration type ``RANDOM``, as in a collector, the policy samples; with any other type it takes
    the most likely action, or the mean.

    Args:
        actor: an actor, see :func:`action_kind`; shared, not copied.
        behavior_keys: the entries that the distribution's parameters are written to, in the order
            above. Default: the entries above.
        mask_key: the key of the mask of allowed discrete actions, bool ``[*, A]``. Default: no
            mask.

    Raises:
        ConfigError: for an actor of another kind.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.actors import categorical_actor
    >>> policy = BehaviorPolicy(categorical_actor(3, 2))
    >>> out = policy(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))
    >>> out["action"].shape, out["behavior", "logits"].shape
    (torch.Size([5]), torch.Size([5, 2]))
    """

    def __init__(
        self,
        actor: ProbabilisticTensorDictSequential,
        behavior_keys: tuple[NestedKey, ...] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        self.kind = action_kind(actor)
        self.mask_key = mask_key
        self.actor = actor
        self.behavior_keys = behavior_keys or _behavior_keys(self.kind)
        masks = [] if mask_key is None else [mask_key]
        self.in_keys = [unravel_key(key) for key in (*actor.in_keys, *masks)]
        out_keys = map(unravel_key, actor.out_keys)
        self._next_keys = [key for key in out_keys if isinstance(key, tuple) and key[0] == "next"]
        keys = (actor.dist_sample_keys[0], *self.behavior_keys, *self._next_keys)
        self.out_keys = [unravel_key(key) for key in keys]

    blueprint = blueprint_property("actor", "behavior_keys", "mask_key")

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write action and parameters into ``tensordict`` and return it."""
        states = tensordict.select(*self.in_keys, strict=False)
        parameters = distribution_parameters(self._dist(states))
        next_states = (states[key] for key in self._next_keys)
        if exploration_type() is ExplorationType.RANDOM:
            action = _draw_action(*parameters)
        else:
            action = parameters[0].argmax(-1) if self.kind == "discrete" else parameters[0].clone()
        for key, value in zip(self.out_keys, (action, *parameters, *next_states), strict=True):
            tensordict.set(key, value)
        return tensordict

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """Return the distribution of the action, as a probabilistic actor does."""
        return self._dist(tensordict.select(*self.in_keys, strict=False))

    def _dist(self, states: TensorDictBase) -> Distribution:
        """Return the distribution. A memory writes its next state into ``states``."""
        if self.mask_key is None:
            return cast(Distribution, self.actor.get_dist(states))
        dist: Any = build_dist(self.actor, self.actor.get_dist_params(states))
        logits = getattr(dist, "raw_logits", dist.logits)
        logits = normalized_log_prob(logits, read_action_mask(states, self.mask_key, logits))
        return Categorical(logits=logits, validate_args=False)


class RandomBehavior(TensorDictModuleBase):
    r"""A policy that acts at random in every state and writes the parameters of its distribution.

    Discrete actions are uniform, with logits of 0. Continuous actions are Gaussian: the mean is the
    middle of the bounds, the standard deviation half the distance between them. In each dimension
    the environment clips a third of the actions, but they have a Gaussian density, which importance
    ratios need. The policy samples in every exploration type.

    Args:
        action_spec: the spec of one action, bounded, or categorical over indices.
        behavior_keys: the same as in :class:`BehaviorPolicy`.
        mask_key: the same as in :class:`BehaviorPolicy`.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import Bounded
    >>> policy = RandomBehavior(Bounded(-1.0, 1.0, shape=[1]))
    >>> policy(TensorDict(batch_size=[5]))["behavior", "scale"].flatten()
    tensor([1., 1., 1., 1., 1.])
    """

    def __init__(
        self,
        action_spec: TensorSpec,
        behavior_keys: tuple[NestedKey, ...] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        self.mask_key = mask_key
        if isinstance(action_spec, CategoricalSpec):
            self.kind: ActionKind = "discrete"
            parameters = [torch.zeros(action_spec.space.n, device=action_spec.device)]
        else:
            self.kind = "continuous"
            low, high = action_spec.space.low, action_spec.space.high
            check_bounds(low, high)
            parameters = [0.5 * (low + high), 0.5 * (high - low)]
        for number, parameter in enumerate(parameters):
            self.register_buffer(f"parameter_{number}", parameter)
        self.behavior_keys = behavior_keys or _behavior_keys(self.kind)
        self.in_keys: list[NestedKey] = [] if mask_key is None else [mask_key]
        self.out_keys = [unravel_key(key) for key in ("action", *self.behavior_keys)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write action and parameters into ``tensordict`` and return it."""
        parameters = [
            buffer.expand(*tensordict.batch_size, *buffer.shape) for buffer in self.buffers()
        ]
        if self.mask_key is not None:
            allowed = read_action_mask(tensordict, self.mask_key, parameters[0])
            parameters = [normalized_log_prob(parameters[0], allowed)]
        for key, value in zip(self.out_keys, (_draw_action(*parameters), *parameters), strict=True):
            tensordict.set(key, value.clone())
        return tensordict


def _draw_action(parameter: Tensor, scale: Tensor | None = None) -> Tensor:
    """Sample an action from logits, or from a mean and a standard deviation."""
    if scale is None:
        return sample_categorical(parameter)
    return parameter + scale * torch.randn_like(parameter)


def _behavior_keys(kind: ActionKind) -> tuple[NestedKey, ...]:
    names = ("logits",) if kind == "discrete" else ("loc", "scale")
    return tuple(("behavior", name) for name in names)
