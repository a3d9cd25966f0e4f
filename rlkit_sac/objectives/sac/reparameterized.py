"""What the losses ask of an actor over continuous actions."""

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from torch import Tensor
from torch.distributions import Distribution
from torchrl.data import TensorSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules.distributions.utils import rsample_and_log_prob

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import clip_action_gradient
from rlkit_sac.modules import TanhGaussian
from rlkit_sac.objectives.sac.target_entropy import action_leaf


def actor_keys(actor: TensorDictModule) -> tuple[NestedKey, NestedKey]:
    """Where an actor writes its action and its log-probability.

    Raises:
        ConfigError: for a module that is no probabilistic actor.
    """
    if not hasattr(actor, "get_dist"):
        raise ConfigError(
            f"actor_network is a {type(actor).__name__} without get_dist(): pass a TorchRL "
            "ProbabilisticActor"
        )
    (action,) = actor.dist_sample_keys
    return action, actor.log_prob_keys[0]


def policy_distribution(
    actor: TensorDictModule, params: TensorDictParams, states: TensorDictBase
) -> Distribution:
    """The actor's distribution at ``states`` with the given parameters."""
    with (
        set_exploration_type(ExplorationType.RANDOM),
        params.to_module(actor, preserve_module_state=False),
    ):
        return actor.get_dist(states.copy())


def draw(dist: Distribution, batch_size: torch.Size) -> tuple[Tensor, Tensor]:
    """A reparameterized action ``[*, D]`` and its log-density ``[*]``.

    Raises:
        BatchError: for a distribution that does not sum over the action's dimensions.
    """
    action, log_prob = rsample_and_log_prob(dist)
    if log_prob.shape != batch_size:
        raise BatchError(
            f"the actor's {type(dist).__name__} gives log-probabilities of the shape "
            f"{list(log_prob.shape)} for a batch {list(batch_size)}: they must be "
            "summed over the action's dimensions (event dimension 1, Independent)"
        )
    return action, log_prob


def draw_each_dimension(dist: Distribution) -> tuple[Tensor, Tensor]:
    """A reparameterized action and the log-density of each dimension, ``[*, D]`` both.

    Raises:
        BatchError: for a distribution that gives only their sum.
    """
    if not isinstance(dist, TanhGaussian):
        raise BatchError(
            f"the actor's distribution is {type(dist).__name__}: parameter_mask needs the density "
            "of each dimension, which rlkit_sac.modules.TanhGaussian gives"
        )
    return dist.rsample_and_log_probs()


def pathwise_loss(
    value: Tensor,
    action: Tensor,
    alpha: Tensor,
    log_ratio: Tensor,
    bound: float | Tensor | None,
) -> Tensor:
    r"""Loss ``[*]`` of a reparameterized policy, :math:`\alpha\log\pi(a|s) - Q(s, a)`.

    With a prior :math:`\log\pi - \log\pi^0` stands for :math:`\log\pi`.

    Args:
        value: ``[*]``, a function of ``action``.
        action: ``[*, D]``.
        alpha: the temperature.
        log_ratio: ``[*]``.
        bound: of each element of :math:`\partial Q/\partial a`, or ``None``.
    """
    return -clip_action_gradient(value, action, bound) + alpha * log_ratio


def check_clipping(bound: float | None) -> None:
    """Refuse a negative bound.

    Raises:
        ConfigError: naming the option.
    """
    if bound is not None and not bound >= 0:
        raise ConfigError(f"dqda_clipping must be None or a bound >= 0, not {bound}")


def the_action_spec(
    given: TensorSpec | None, of_actor: TensorSpec | None, key: NestedKey
) -> TensorSpec | None:
    """The spec of one action: the one passed, or else the actor's.

    Raises:
        ConfigError: where the two have different shapes, or for bounds without a width.
    """
    passed, own = action_leaf(given, key), action_leaf(of_actor, key)
    if passed is not None and own is not None and passed.shape != own.shape:
        raise ConfigError(
            f"action_spec has the shape {list(passed.shape)}, but the actor's actions have "
            f"{list(own.shape)}: pass the spec of one action (for a batched environment "
            "env.action_spec_unbatched)"
        )
    return own if passed is None else passed
