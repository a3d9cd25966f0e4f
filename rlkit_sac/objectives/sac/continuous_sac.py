"""Soft actor-critic for continuous actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.functional.critics import CriticReduction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.batch import check_action
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.critics import DEFAULT_COUNT
from rlkit_sac.objectives.sac.factors import PolicySample
from rlkit_sac.objectives.sac.reparameterized import (
    actor_keys,
    check_clipping,
    draw,
    pathwise_loss,
    policy_distribution,
    the_action_spec,
)
from rlkit_sac.objectives.sac.soft_actor_critic import (
    LossFunction,
    PolicyLossSteps,
    SoftActorCriticLoss,
)
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy, resolve_continuous_target_entropy
from rlkit_sac.objectives.sac.target_kld import resolve_continuous_target_kld


@dataclass(frozen=True)
class ContinuousSample(PolicySample):
    """A draw from a continuous policy.

    Attributes:
        action: reparameterized, ``[*, D]``.
    """

    action: Tensor


class ContinuousSACLoss(SoftActorCriticLoss[ContinuousSample]):
    r"""Losses of soft actor-critic with a reparameterized policy over continuous actions.

    With one sample :math:`a' \sim \pi(\cdot|s')` of the live policy, one :math:`a \sim
    \pi(\cdot|s)`, and the minimum over R critics,

    .. math::
        y &= r + \gamma\,(1 - \text{terminated})
            \left[\min_i \bar Q_i(s', a') - \alpha \log\pi(a'|s')\right] \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s, a_B) - y)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha \log\pi(a|s) - \min_i Q_i(s, a)\right] \\
        L_\alpha &= \operatorname{mean}_B
            \left[\log\alpha \cdot (-\log\pi(a|s) - \bar{\mathcal H})\right]

    where each loss trains its own parameters alone. Source: Haarnoja et al. 2018
    (arXiv:1812.05905), eq. 5-9 and 18, without the factor 1/2 of eq. 5. A time limit
    (``truncated``) bootstraps; only ``terminated`` does not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` here
    alone); ``action`` ``[*, D]``; ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``;
    ``("next", "terminated")`` ``[*, 1]``; ``("next", "done")`` ``[*, 1]`` for sequences;
    ``priority_weight`` ``[*]`` and ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha``, ``alpha`` and ``entropy`` (nats), with a prior ``kl`` (nats),
    and the critics' statistics with ``diagnostics=True``.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor``; its distribution gives reparameterized
            samples and log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: writes ``state_action_value`` ``[*, 1]`` (``[*, M]`` for vector rewards). A
            single module is copied, each copy initialized afresh; the modules of a list are kept as
            they are. A trunk shared with the actor becomes the critics' own copy.

    Keyword Args:
        num_qvalue_nets: number of critics made of a single module. Default 2.
        target_subset: number of target critics, drawn anew in each call, whose minimum the targets
            take. Default all. Source: Chen et al. 2021 (arXiv:2101.05982).
        policy_reduction: what the policy goes by, the ``"min"`` (default) or the ``"mean"`` of the
            critics.
        gamma: discount in [0, 1]. Default 0.99.
        loss_function: ``"l2"`` (default), ``"l1"`` or ``"smooth_l1"`` distance to the target,
            summed over critics, averaged over reward dimensions.
        qvalue_coef: factor on ``loss_qvalue``. Default 1.
        reward_scale: factor on the reward in the targets. Default 1.
        reward_weights: ``[M]`` weights of a vector reward (default ones), an attribute one may
            assign during a run; not part of the state dict. The minimum over critics is taken for
            each dimension before weighting, a maximum where the weight is negative; targets stay
            one for each dimension.
        alpha_init: temperature to start from. Default 1.
        min_alpha: lower bound of the temperature, ``alpha_init`` included. Default none. The losses
            read it within its bounds; :meth:`project_parameters` moves the parameter there.
        max_alpha: upper bound of the temperature. Default none.
        fixed_alpha: keep the temperature at ``alpha_init``; ``loss_alpha`` is zero then.
        alpha_parametrization: what the parameter ``log_alpha`` holds and its loss multiplies:
            ``"log"`` (default) :math:`\log\alpha` and :math:`\log\alpha`, ``"exp"``
            :math:`\log\alpha` and :math:`\alpha`, ``"direct"`` :math:`\alpha` and :math:`\alpha`
            (the parameter keeps its name; :meth:`alpha` reads the temperature in every mode).
        target_entropy: ``"auto"`` (default; :math:`\sum_d\log(p(\text{high}_d-\text{low}_d))`),
            ``"neg_dim"`` (:math:`-\dim`), a number of nats, or a function of the action spec.
        min_prob: p of ``"auto"``. Default 0.1.
        prior_network: a prior :math:`\pi^0` such as
            :class:`~rlkit_sac.modules.UniformPrior`, or any module with ``in_keys`` and
            ``get_dist(tensordict)``: everywhere :math:`\log\pi` becomes
            :math:`\log\pi - \log\pi^0`. The loss keeps a copy that nothing trains. Default none.
        target_kld_per_dim: the divergence that the temperature aims at with a prior, nats for each
            action dimension; it takes the place of ``target_entropy``. Default 3.
        action_spec: spec of one action; default the actor's.
        dqda_clipping: bound x on every element of each sample's
            :math:`\partial Q/\partial a` in the actor loss. Default off.
        use_entropy_reward: whether the targets hold the entropy. Default ``True``.
        normalize_entropy_reward: subtract a running mean of :math:`\log\pi` from it in the targets.
        policy_loss_steps: states of the actor and temperature losses: ``"first"`` (default), the
            batch's; ``"next"``, the next ones (ALF's ``reproduce_locomotion``); ``"all"``, both,
            added. The critic loss stays. (ALF averages over its two steps, with no critic loss at
            the second: the same relative weights.)
        reduction: ``"mean"`` (default), ``"sum"`` or ``"none"``, over the valid steps.
        scalar_output_mode: with ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars.
        use_prioritized_weights: whether losses are weighted by ``priority_weight``
            (:math:`\sum wl/\sum w`). Default ``"auto"``: where it is present.
        observation_normalizer: what networks and policy see observations through; :meth:`observe`
            moves its statistics. Default none.
        reward_normalizer: what the targets see rewards through, before ``reward_scale``; moved in
            the same way. Default none.
        deactivate_vmap: call the critics one after another.
        diagnostics: add statistics of the critics to the output.

    Raises:
        ConfigError: for an impossible option or network.
        BatchError: in the call, for a missing entry or a wrong shape.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> loss = ContinuousSACLoss(tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1))
    >>> _ = loss.make_value_estimator(gamma=0.98)
    >>> batch = TensorDict(
    ...     {
    ...         "observation": torch.randn(8, 3),
    ...         "action": torch.rand(8, 1),
    ...         "next": {
    ...             "observation": torch.randn(8, 3),
    ...             "reward": torch.randn(8, 1),
    ...             "done": torch.zeros(8, 1, dtype=torch.bool),
    ...             "terminated": torch.zeros(8, 1, dtype=torch.bool),
    ...         },
    ...     },
    ...     batch_size=[8],
    ... )
    >>> sorted(loss(batch).keys())
    ['alpha', 'entropy', 'loss_actor', 'loss_alpha', 'loss_qvalue']
    >>> batch["td_error"].shape
    torch.Size([8])
    """

    @dataclass
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        state_action_value: NestedKey = "state_action_value"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    value_role = "state_action_value"
    value_dims = 1

    actor_network: TensorDictModule
    target_entropy: float | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        *,
        num_qvalue_nets: int = DEFAULT_COUNT,
        target_subset: int | None = None,
        policy_reduction: CriticReduction = "min",
        gamma: float = 0.99,
        loss_function: LossFunction = "l2",
        qvalue_coef: float = 1.0,
        reward_scale: float = 1.0,
        reward_weights: Tensor | Sequence[float] | None = None,
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        fixed_alpha: bool = False,
        alpha_parametrization: AlphaParametrization = "log",
        target_entropy: TargetEntropy = "auto",
        min_prob: float = 0.1,
        prior_network: nn.Module | None = None,
        target_kld_per_dim: float = 3.0,
        action_spec: TensorSpec | None = None,
        dqda_clipping: float | None = None,
        use_entropy_reward: bool = True,
        normalize_entropy_reward: bool = False,
        policy_loss_steps: PolicyLossSteps = "first",
        reduction: Reduction = "mean",
        scalar_output_mode: ScalarOutputMode | None = None,
        use_prioritized_weights: bool | Literal["auto"] = "auto",
        observation_normalizer: ObservationNormalizer | None = None,
        reward_normalizer: RewardNormalizer | None = None,
        deactivate_vmap: bool = False,
        diagnostics: bool = False,
    ) -> None:
        check_clipping(dqda_clipping)
        super().__init__(
            actor_network,
            qvalue_network,
            num_qvalue_nets=num_qvalue_nets,
            target_subset=target_subset,
            policy_reduction=policy_reduction,
            gamma=gamma,
            loss_function=loss_function,
            qvalue_coef=qvalue_coef,
            reward_scale=reward_scale,
            reward_weights=reward_weights,
            alpha_init=alpha_init,
            min_alpha=min_alpha,
            max_alpha=max_alpha,
            fixed_alpha=fixed_alpha,
            alpha_parametrization=alpha_parametrization,
            target_entropy=target_entropy,
            min_prob=min_prob,
            prior_network=prior_network,
            target_kld=target_kld_per_dim,
            action_spec=action_spec,
            use_entropy_reward=use_entropy_reward,
            normalize_entropy_reward=normalize_entropy_reward,
            policy_loss_steps=policy_loss_steps,
            reduction=reduction,
            scalar_output_mode=scalar_output_mode,
            use_prioritized_weights=use_prioritized_weights,
            observation_normalizer=observation_normalizer,
            reward_normalizer=reward_normalizer,
            deactivate_vmap=deactivate_vmap,
            diagnostics=diagnostics,
        )
        self.dqda_clipping = dqda_clipping

    def _set_actor_keys(self) -> None:
        action, log_prob = actor_keys(self.actor_network)
        self.set_keys(action=action, log_prob=log_prob)

    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        self._action_spec = the_action_spec(given, of_actor, self.tensor_keys.action)

    def _resolve_target_entropy(
        self, factor: str, option: TargetEntropy, min_prob: float
    ) -> float | None:
        return resolve_continuous_target_entropy(option, self._action_spec, min_prob=min_prob)

    def _resolve_target_kld(self, factor: str, target: float, prior: nn.Module) -> float:
        return resolve_continuous_target_kld(target, self._action_spec)

    def _check_critic_keys(self) -> None:
        key = self.tensor_keys.action
        if unravel_key(key) not in map(unravel_key, self.qvalue_network.in_keys):
            raise BatchError(
                f"qvalue_network reads {self.qvalue_network.in_keys}, not the action {key!r}, "
                "which is the key the actor writes unless set_keys(action=...) named another: let "
                "actor, critics and batch use one key"
            )

    def _sample_policy(self, states: TensorDictBase) -> ContinuousSample:
        dist = policy_distribution(
            self.actor_network, self.actor_network_params, self._normalized(states)
        )
        action, log_prob = draw(dist, states.batch_size)
        prior, log_prior = self.priors.get(""), {}
        if prior is not None:
            log_prior[""] = prior.log_prob(states, action, self.tensor_keys.action)
        return ContinuousSample({"": log_prob}, log_prior, action)

    def _sampled_values(
        self, states: TensorDictBase, sample: ContinuousSample, params: TensorDictParams
    ) -> Tensor:
        return self._critic_values(
            states.copy().set(self.tensor_keys.action, sample.action), params
        )

    def _taken_values(
        self, states: TensorDictBase, batch: TensorDictBase, sample: ContinuousSample
    ) -> Tensor:
        key = self.tensor_keys.action
        action = batch.get(key)
        check_action(action, sample.action, key)
        return self._critic_values(states.copy().set(key, action), self.qvalue_network_params)

    def _expected_value(self, value: Tensor, sample: ContinuousSample) -> Tensor:
        return value

    def _actor_loss(self, states: TensorDictBase, sample: ContinuousSample) -> Tensor:
        r"""Loss ``[*]``: :math:`\alpha \log\pi(a|s) - Q_{min}(s, a)`, relative to a prior."""
        value = self._policy_value(states, sample)
        return pathwise_loss(
            weigh_rewards(value, self.reward_weights),
            sample.action,
            self.alpha(),
            sample.log_ratio(""),
            self.dqda_clipping,
        )

    def _policy_value(self, states: TensorDictBase, sample: ContinuousSample) -> Tensor:
        """The reduced value ``[*, M]`` of the live critics, a function of the drawn action."""
        q = self._sampled_values(states, sample, self.qvalue_network_params.data)
        return self._reduced_for_policy(q)
