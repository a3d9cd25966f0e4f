"""Soft actor-critic for discrete actions, with and without an actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import normalized_log_prob, weigh_rewards
from rlkit_sac.functional.critics import CriticReduction
from rlkit_sac.modules.behavior import ONE_HOT
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.critics import DEFAULT_COUNT
from rlkit_sac.objectives.sac.discrete_factor import (
    DiscreteEntropy,
    DiscreteFactorLoss,
    DiscreteSample,
)
from rlkit_sac.objectives.sac.reparameterized import actor_keys, policy_distribution
from rlkit_sac.objectives.sac.soft_actor_critic import LossFunction, PolicyLossSteps
from rlkit_sac.objectives.sac.target_entropy import (
    TargetEntropy,
    discrete_leaf,
)


@dataclass(frozen=True)
class ValuedSample(DiscreteSample):
    """A discrete policy at some states, and what the live critics say there.

    Attributes:
        values: ``[R, *, K, M]`` of R critics.
        log_prior_of_each: of each discrete action, ``[*, K]``; ``None`` without a prior.
    """

    values: Tensor
    log_prior_of_each: Tensor | None


class DiscreteSACLoss(DiscreteFactorLoss[ValuedSample]):
    r"""Losses of soft actor-critic over discrete actions; the critics alone make a policy.

    Without an actor the policy is the soft-optimal one of the live critics,

    .. math:: \pi(k|s) = \operatorname{softmax}_k\left(\min_i Q_i(s)_k / \alpha\right)

    With an actor it is the actor's. Every expectation over actions is a sum:

    .. math::
        V(s') &= \textstyle\sum_k \pi(k|s')
            \left[\min_i \bar Q_i(s')_k - \alpha \log\pi(k|s')\right] \\
        y &= r + \gamma\,(1 - \text{terminated})\,V(s') \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s)_{a_B} - y)^2 \\
        L_\alpha &= \operatorname{mean}_B
            \left[\log\alpha \cdot (\mathcal H(\pi(\cdot|s)) - \bar{\mathcal H})\right] \\
        L_\pi &= \operatorname{mean}_B \textstyle\sum_k \pi(k|s)
            \left[\alpha\log\pi(k|s) - \min_i Q_i(s)_k\right]

    where each loss trains its own parameters alone, and the last exists with an actor only. The
    policy comes from the live critics, the values in V from the target critics. Source:
    Christodoulou 2019 (arXiv:1910.07207), eq. 10-12, without the factor 1/2 of the critic loss;
    without an actor Haarnoja et al. 2017 (arXiv:1702.08165), theorem 1. A time limit
    (``truncated``) bootstraps; only ``terminated`` does not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` here
    alone); ``action``, an integer index ``[*]`` from 0 to K - 1 (never one-hot);
    ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``; ``("next", "terminated")`` ``[*, 1]``;
    ``("next", "done")`` ``[*, 1]`` for sequences; ``priority_weight`` ``[*]`` and
    ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``
    (with an actor), ``loss_qvalue``, ``loss_alpha``, ``alpha`` and ``entropy`` (nats), with a prior
    ``kl`` (nats), and the critics' statistics with ``diagnostics=True``.

    Args:
        qvalue_network: reads no action and writes ``action_value`` ``[*, K]`` (``[*, K, M]`` for
            vector rewards). A single module is copied, each copy initialized afresh; the modules of
            a list are kept as they are. A trunk shared with the actor becomes the critics' own.
        actor_network: a TorchRL ``ProbabilisticActor`` with a ``Categorical`` distribution over
            indices, or ``None``.

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
            each dimension before weighting, a maximum where the weight is negative; the weighted
            sum makes the policy; targets stay one for each dimension.
        alpha_init: temperature to start from. Default 1.
        min_alpha: lower bound of the temperature, ``alpha_init`` included. Default none. Losses and
            policy read it within its bounds; :meth:`project_parameters` moves the parameter there.
        max_alpha: upper bound of the temperature. Default none.
        fixed_alpha: keep the temperature at ``alpha_init``; ``loss_alpha`` is zero then.
        alpha_parametrization: what the parameter ``log_alpha`` holds and its loss multiplies:
            ``"log"`` (default) :math:`\log\alpha` and :math:`\log\alpha`, ``"exp"``
            :math:`\log\alpha` and :math:`\alpha`, ``"direct"`` :math:`\alpha` and :math:`\alpha`.
        target_entropy: ``"auto"`` (default; :math:`p(\log(K-1) - \log p) - (1-p)\log(1-p)`),
            ``"scaled_log_k"`` (:math:`0.98\log K`), a number of nats, or a function of the action
            spec. The attribute of that name is ``None`` while K is not known.
        min_prob: p of ``"auto"``. Default 0.1.
        prior_network: a prior :math:`\pi^0` such as
            :class:`~rlkit_sac.modules.UniformPrior`, or any module with ``in_keys`` and
            ``get_dist(tensordict)``: everywhere :math:`\log\pi` becomes
            :math:`\log\pi - \log\pi^0`, and without an actor the policy is
            :math:`\pi_k \propto \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy that
            nothing trains. Default none.
        target_kld_discrete: the divergence of the discrete policy that its temperature aims at with
            a prior, in the place of the target entropy. Default :math:`\tfrac12\log K`.
        action_spec: spec of one action; default the actor's. Without one the critics' output tells
            the number of actions.
        discrete_entropy: ``"expected"`` (default) takes the exact entropy in V and in the
            temperature loss, ``"sampled"`` minus the log-probability of one sampled action.
        use_entropy_reward: whether the targets hold the entropy. Default ``True``.
        normalize_entropy_reward: subtract a running mean of :math:`\log\pi` (of minus the entropy)
            from it in the targets.
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
    >>> from rlkit_sac.modules import action_value_critic
    >>> loss = DiscreteSACLoss(action_value_critic(3, 2), target_entropy="scaled_log_k")
    >>> batch = TensorDict(
    ...     {
    ...         "observation": torch.randn(8, 3),
    ...         "action": torch.randint(2, (8,)),
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
    ['alpha', 'entropy', 'loss_alpha', 'loss_qvalue']
    >>> loss.policy()(batch.select("observation"))["action"].shape
    torch.Size([8])
    """

    target_entropy: float | None

    def __init__(
        self,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        actor_network: TensorDictModule | None = None,
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
        target_kld_discrete: float | None = None,
        action_spec: TensorSpec | None = None,
        discrete_entropy: DiscreteEntropy = "expected",
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
            target_kld=target_kld_discrete,
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
        self._set_discrete_entropy(discrete_entropy)

    def _set_actor_keys(self) -> None:
        if self.actor_network is not None:
            action, log_prob = actor_keys(self.actor_network)
            self.set_keys(action=action, log_prob=log_prob)

    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        key = self.tensor_keys.action
        passed, own = discrete_leaf(given, key), discrete_leaf(of_actor, key)
        if passed is not None and own is not None and passed.space.n != own.space.n:
            raise ConfigError(
                f"action_spec has {passed.space.n} actions, but the actor's spec {own.space.n}"
            )
        self._keep_spec(own if passed is None else passed)

    def _resolve_target_entropy(
        self, factor: str, option: TargetEntropy, min_prob: float
    ) -> float | None:
        return self._resolve_discrete(option, min_prob)

    def _resolve_target_kld(
        self, factor: str, target: float | None, prior: nn.Module
    ) -> float | None:
        return self._resolve_discrete_kld(target, prior)

    def _check_critic_keys(self) -> None:
        key = self.tensor_keys.action
        if unravel_key(key) in map(unravel_key, self.qvalue_network.in_keys):
            raise BatchError(
                f"qvalue_network reads the action {key!r}: with discrete actions a critic reads "
                "the state alone and writes one value for each action"
            )

    def _sample_policy(self, states: TensorDictBase) -> ValuedSample:
        values = self._action_values(states, self.qvalue_network_params)
        log_prior = self._log_prior(states, values.shape[-2], self.tensor_keys.action)
        if self.actor_network is None:
            log_probs = self._boltzmann(self._reduced_for_policy(values.detach()), log_prior)
        else:
            log_probs = self._actor_log_probs(states, values.shape[-2])
        log_prob, log_prior_of = self._discrete_scores(log_probs, log_prior)
        return ValuedSample({"": log_prob}, log_prior_of, log_probs, values, log_prior)

    def _actor_log_probs(self, states: TensorDictBase, num_actions: int) -> Tensor:
        assert self.actor_network is not None
        dist = policy_distribution(
            self.actor_network, self.actor_network_params, self._normalized(states)
        )
        if not isinstance(dist, Categorical) or isinstance(dist, ONE_HOT):
            raise BatchError(
                f"the actor's distribution is {type(dist).__name__}, wanted a "
                "torch.distributions.Categorical: actions are indices, not one-hot vectors"
            )
        if dist.logits.shape[-1] != num_actions:
            raise BatchError(
                f"the actor has {dist.logits.shape[-1]} actions, but qvalue_network writes "
                f"{num_actions} values"
            )
        return normalized_log_prob(dist.logits)

    def _sampled_values(
        self, states: TensorDictBase, sample: ValuedSample, params: TensorDictParams
    ) -> Tensor:
        return self._action_values(states, params)

    def _taken_values(
        self, states: TensorDictBase, batch: TensorDictBase, sample: ValuedSample
    ) -> Tensor:
        key = self.tensor_keys.action
        return self._taken(sample.values, batch.get(key), key)

    def _actor_loss(self, states: TensorDictBase, sample: ValuedSample) -> Tensor:
        r"""Loss ``[*]``: :math:`\sum_k \pi_k [\alpha\log\pi_k - Q_k]`, relative to a prior."""
        q = weigh_rewards(self._reduced_for_policy(sample.values.detach()), self.reward_weights)
        log_ratios = sample.log_probs
        if sample.log_prior_of_each is not None:
            log_ratios = log_ratios - sample.log_prior_of_each
        return (sample.log_probs.exp() * (self.alpha() * log_ratios - q)).sum(-1)

    def _acting_modules(self) -> list[TensorDictModuleBase]:
        if self.actor_network is not None:
            return super()._acting_modules()
        return [self._boltzmann_policy(self.tensor_keys.action)]
