"""The policy that acts with the networks of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensordict.nn import TensorDictModuleBase, TensorDictSequential

from rlkit_sac.modules import BoltzmannPolicy, EpsilonGreedy
from rlkit_sac.modules.masked_critic import MaskedCritic
from rlkit_sac.modules.normalization import NormalizedPolicy
from rlkit_sac.objectives.sac.critics import CRITICS

if TYPE_CHECKING:
    from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss


def acting_policy(owner: SoftActorCriticLoss, epsilon: float | None) -> TensorDictModuleBase:
    """The actor of a loss, its Boltzmann policy or both, as one module with its live parameters.

    Args:
        owner: the loss.
        epsilon: as in :meth:`SoftActorCriticLoss.policy`.
    """
    modules: list[TensorDictModuleBase] = []
    if owner.actor_network is not None:
        modules.append(owner.get_stateful_net("actor_network"))
    discrete = owner._discrete
    if discrete is not None and (owner._continuous is not None or not modules):
        modules.append(
            BoltzmannPolicy(
                _acting_critics(owner),
                getattr(owner, discrete.key("log_alpha")),
                discrete.temperature,
                reward_weights=owner._reward_weights,
                reduction=owner.policy_reduction,
                prior=owner.priors.get(discrete.name),
                action_key=owner._action_key(discrete),
                action_value_key=getattr(owner.tensor_keys, owner.critics.role),
            )
        )
    if epsilon is not None:
        modules = [EpsilonGreedy(module, epsilon) for module in modules]
    policy = modules[0] if len(modules) == 1 else TensorDictSequential(*modules)
    normalizer = owner.observation_normalizer
    return policy if normalizer is None else NormalizedPolicy(policy, normalizer)


def _acting_critics(owner: SoftActorCriticLoss) -> TensorDictModuleBase:
    """The stack of critics, with the mask that they have in the losses."""
    critics = owner.get_stateful_net(CRITICS)
    if not owner.mask_critics:
        return critics
    mask = owner._parameter_mask
    assert mask is not None
    assert owner._continuous is not None
    return MaskedCritic(
        critics,
        mask.expand(owner.num_qvalue_nets, *mask.shape),
        action_key=owner._action_key(owner._continuous),
        action_value_key=getattr(owner.tensor_keys, owner.critics.role),
    )
