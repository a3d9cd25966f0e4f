"""Soft actor-critic for actions that are discrete and continuous at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.functional.critics import CriticReduction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.batch import check_action
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.critics import DEFAULT_COUNT
from rlkit_sac.objectives.sac.discrete_factor import (
    DiscreteEntropy,
    DiscreteFactorLoss,
    DiscreteSample,
)
from rlkit_sac.objectives.sac.factors import PerFactor, PolicySample
from rlkit_sac.objectives.sac.reparameterized import (
    actor_keys,
    check_clipping,
    draw,
    draw_each_dimension,
    pathwise_loss,
    policy_distribution,
    the_action_spec,
)
from rlkit_sac.objectives.sac.soft_actor_critic import LossFunction, PolicyLossSteps
from rlkit_sac.objectives.sac.target_entropy import (
    TargetEntropy,
    discrete_leaf,
    hybrid_leaf,
    resolve_continuous_target_entropy,
)
from rlkit_sac.objectives.sac.target_kld import resolve_continuous_target_kld


@dataclass(frozen=True)
class HybridSample(DiscreteSample):
    """A continuous action, and the discrete policy and values given it.

    Attributes:
        action: the continuous action, reparameterized, ``[*, D]``.
        value: ``[*, K, M]``, the pessimistic value of the live critics, a function of ``action``.
        share: the expected share ``[*]`` of the continuous dimensions that the discrete action
            uses, ``None`` where it uses them all.
        log_prior_of_each: of each discrete action, ``[*, K]``, a function of ``action`` if the
            prior is; ``None`` without a prior.
    """

    action: Tensor
    value: Tensor
    share: Tensor | None
    log_prior_of_each: Tensor | None


class HybridSACLoss(DiscreteFactorLoss[HybridSample]):
    r"""Losses of soft actor-critic over a discrete and a continuous action at once.

    The policy is :math:`\pi(d, c|s) = \pi_c(c|s)\,\pi_d(d|s, c)`. The actor draws the continuous
    action c; the critics read it and have one output for each discrete action d; the discrete
    policy is the soft-optimal one of the live critics,

    .. math:: \pi_d(k|s, c) =
        \operatorname{softmax}_k\left(\min_i Q_i(s, c)_k / \alpha_d\right)

    With one sample :math:`c' \sim \pi_c(\cdot|s')` and one :math:`c \sim \pi_c(\cdot|s)`,

    .. math::
        V(s') &= \textstyle\sum_k \pi_d(k|s', c')
            \left[\min_i \bar Q_i(s', c')_k - \alpha_d \log\pi_d(k|s', c')\right]
            - \alpha_c \log\pi_c(c'|s') \\
        y &= r + \gamma\,(1 - \text{terminated})\,V(s') \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s, c_B)_{d_B} - y)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha_c \log\pi_c(c|s)
            - \textstyle\sum_k \operatorname{sg}(\pi_d(k|s, c)) \min_i Q_i(s, c)_k\right] \\
        L_\alpha &= \operatorname{mean}_B \left[
            \log\alpha_d \cdot (\mathcal H(\pi_d(\cdot|s, c)) - \bar{\mathcal H}_d)
            + \log\alpha_c \cdot (-\log\pi_c(c|s) - \bar{\mathcal H}_c)\right]

    where each loss trains its own parameters alone and sg stops gradients. The discrete policy
    comes from the live critics, the values in V from the target critics. The two temperatures and
    the weighting of the two entropies are those of Delalleau et al. 2019 (arXiv:1912.11077), whose
    discrete policy is an actor's output; the losses are eq. 5-9 and 18 of Haarnoja et al. 2018
    (arXiv:1812.05905), without the factor 1/2 of eq. 5, and the discrete policy is theorem 1 of
    Haarnoja et al. 2017 (arXiv:1702.08165). With one discrete action this is
    :class:`ContinuousSACLoss`. A time limit (``truncated``) bootstraps; only ``terminated`` does
    not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` here
    alone); ``("action", "continuous")`` ``[*, D]``; ``("action", "discrete")``, an integer index
    ``[*]`` from 0 to K - 1 (never one-hot);
    ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``; ``("next", "terminated")`` ``[*, 1]``;
    ``("next", "done")`` ``[*, 1]`` for sequences; ``priority_weight`` ``[*]`` and
    ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha`` (the sum over both temperatures), ``alpha_discrete``,
    ``alpha_continuous``, ``entropy_discrete`` and ``entropy_continuous`` (nats), and the critics'
    statistics with ``diagnostics=True``. With a prior also ``kl_discrete`` and ``kl_continuous``
    (nats).

    Args:
        actor_network: a TorchRL ``ProbabilisticActor`` over the continuous action, which it writes
            under ``("action", "continuous")``; its distribution gives reparameterized samples and
            log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: reads the continuous action and writes ``action_value`` ``[*, K]``
            (``[*, K, M]`` for vector rewards). A single module is copied, each copy initialized
            afresh; the modules of a list are kept as they are. A trunk shared with the actor
            becomes the critics' own copy.

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
            sum makes the discrete policy; targets stay one for each dimension.
        alpha_init: temperature to start from. Default 1. This option and the next five take one
            value for both temperatures or a (discrete, continuous) pair.
        min_alpha: lower bound of the temperature, ``alpha_init`` included. Default none. Losses and
            policy read it within its bounds; :meth:`project_parameters` moves the parameter there.
        max_alpha: upper bound of the temperature. Default none.
        fixed_alpha: keep the temperature at ``alpha_init``; its share of ``loss_alpha`` is zero.
        alpha_parametrization: what the parameters ``log_alpha_discrete`` and
            ``log_alpha_continuous`` hold and their losses multiply: ``"log"`` (default)
            :math:`\log\alpha` and :math:`\log\alpha`, ``"exp"`` :math:`\log\alpha` and
            :math:`\alpha`, ``"direct"`` :math:`\alpha` and :math:`\alpha`.
        target_entropy: ``"auto"`` (default; discrete :math:`p(\log(K-1) - \log p) -
            (1-p)\log(1-p)`, continuous :math:`\sum_d\log(p(\text{high}_d-\text{low}_d))`), a
            number of nats, or a function of the spec of that part; ``"scaled_log_k"``
            (:math:`0.98\log K`) for the discrete, ``"neg_dim"`` (:math:`-\dim`) for the
            continuous one. The attribute ``target_entropy_discrete`` is ``None`` while K is not
            known.
        min_prob: p of ``"auto"``. Default 0.1.
        prior_network: a prior :math:`\pi^0` over both parts of the action, such as
            :class:`~rlkit_sac.modules.UniformPrior`, or any module with ``in_keys`` and
            ``get_dist(tensordict)``: everywhere :math:`\log\pi` becomes
            :math:`\log\pi - \log\pi^0`, and the discrete policy is
            :math:`\pi_k \propto \pi^0_k \exp(\min_i Q_{i,k}/\alpha_d)`. Or a (discrete,
            continuous) pair of priors, either of which may be ``None``. The loss keeps copies that
            nothing trains. Default none.
        target_kld_per_dim: the divergence that the continuous temperature aims at with a prior,
            nats for each dimension, in the place of the target entropy. Default 3.
        target_kld_discrete: the divergence of the discrete policy that its temperature aims at with
            a prior, in the place of the target entropy. Default :math:`\tfrac12\log K`.
        action_spec: composite spec of the environment or of its action; default the actor's for the
            continuous part. Without one the critics' output tells the number of discrete actions.
        parameter_mask: ``[K, D]``, true where discrete action k uses continuous dimension j; for
            parameterized actions, of which each has its own parameters. Default: every dimension
            counts. With the mask m the continuous entropy counts as far as it is used: with
            :math:`u_j = \sum_k \operatorname{sg}(\pi_d(k|s, c))\,m_{kj}`, everywhere
            :math:`\log\pi_c` becomes :math:`\sum_j u_j \log\pi_{c,j}(c_j|s)`, and the target
            entropy of each state :math:`\bar{\mathcal H}_c \sum_j u_j / D`; the discrete policy
            stays as it is. The actor's distribution must be a
            :class:`~rlkit_sac.modules.TanhGaussian`.
        discrete_entropy: ``"expected"`` (default) takes the exact discrete entropy in V and in the
            temperature loss, ``"sampled"`` minus the log-probability of one sampled action.
        dqda_clipping: bound x on every element of each sample's
            :math:`\partial(\sum_k \pi_d Q_k)/\partial c` in the actor loss. Default off.
        use_entropy_reward: whether the targets hold the entropies. Default ``True``.
        normalize_entropy_reward: subtract from each factor's :math:`\log\pi` its own running mean
            in the targets.
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
    >>> from rlkit_sac.modules import hybrid_critic, tanh_gaussian_actor
    >>> actor = tanh_gaussian_actor(3, [-1.0], [1.0], action_key=("action", "continuous"))
    >>> loss = HybridSACLoss(actor, hybrid_critic(3, 1, 2), target_entropy=(0.3, "auto"))
    >>> batch = TensorDict(
    ...     {
    ...         "observation": torch.randn(8, 3),
    ...         "action": {"continuous": torch.rand(8, 1), "discrete": torch.randint(2, (8,))},
    ...         "next": {
    ...             "observation": torch.randn(8, 3),
    ...             "reward": torch.randn(8, 1),
    ...             "done": torch.zeros(8, 1, dtype=torch.bool),
    ...             "terminated": torch.zeros(8, 1, dtype=torch.bool),
    ...         },
    ...     },
    ...     batch_size=[8],
    ... )
    >>> for key in sorted(loss(batch).keys()):
    ...     print(key)
    alpha_continuous
    alpha_discrete
    entropy_continuous
    entropy_discrete
    loss_actor
    loss_alpha
    loss_qvalue
    """

    @dataclass
    class _AcceptedKeys(DiscreteFactorLoss._AcceptedKeys):
        action_continuous: NestedKey = ("action", "continuous")
        action_discrete: NestedKey = ("action", "discrete")

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    action_roles = ("action_continuous", "action_discrete")
    factors = ("discrete", "continuous")
    discrete_factor = "discrete"

    actor_network: TensorDictModule
    target_entropy_discrete: float | None
    target_entropy_continuous: float | None
    _parameter_mask: Tensor | None

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
        alpha_init: PerFactor[float] = 1.0,
        min_alpha: PerFactor[float | None] = None,
        max_alpha: PerFactor[float | None] = None,
        fixed_alpha: PerFactor[bool] = False,
        alpha_parametrization: PerFactor[AlphaParametrization] = "log",
        target_entropy: PerFactor[TargetEntropy] = "auto",
        min_prob: float = 0.1,
        prior_network: PerFactor[nn.Module | None] = None,
        target_kld_per_dim: float = 3.0,
        target_kld_discrete: float | None = None,
        action_spec: TensorSpec | None = None,
        parameter_mask: Tensor | Sequence[Sequence[bool]] | None = None,
        discrete_entropy: DiscreteEntropy = "expected",
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
            target_kld=(target_kld_discrete, target_kld_per_dim),
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
        self._set_discrete_entropy(discrete_entropy)
        self.register_buffer("_parameter_mask", None, persistent=False)
        if parameter_mask is not None:
            self._parameter_mask = self._as_mask(parameter_mask)

    def set_keys(self, **kwargs: Any) -> None:
        """Rename entries; ``action`` renames both parts of the action, which are nested in it."""
        if "action" in kwargs:
            whole = kwargs["action"] or "action"
            path = whole if isinstance(whole, tuple) else (whole,)
            kwargs.setdefault("action_continuous", (*path, "continuous"))
            kwargs.setdefault("action_discrete", (*path, "discrete"))
        super().set_keys(**kwargs)

    def _as_mask(self, mask: Tensor | Sequence[Sequence[bool]]) -> Tensor:
        like = next(self.qvalue_network_params.parameters())
        mask = torch.as_tensor(mask, device=like.device).to(like.dtype)
        if mask.ndim != 2 or not bool(((mask == 0) | (mask == 1)).all()):
            raise ConfigError(
                "parameter_mask must be a matrix [K, D] of true and false, one row for each "
                f"discrete action, not {mask.tolist()}"
            )
        return mask

    def _set_actor_keys(self) -> None:
        action, log_prob = actor_keys(self.actor_network)
        self.set_keys(action_continuous=action, log_prob=log_prob)

    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        keys = self.tensor_keys
        continuous = hybrid_leaf(given, keys.action_continuous)
        self._action_spec = the_action_spec(continuous, of_actor, keys.action_continuous)
        discrete = hybrid_leaf(given, keys.action_discrete)
        self._keep_spec(discrete_leaf(discrete, keys.action_discrete))

    def _resolve_target_entropy(
        self, factor: str, option: TargetEntropy, min_prob: float
    ) -> float | None:
        if factor == "discrete":
            return self._resolve_discrete(option, min_prob)
        return resolve_continuous_target_entropy(option, self._action_spec, min_prob=min_prob)

    def _resolve_target_kld(self, factor: str, target: Any, prior: nn.Module) -> float | None:
        if factor == "discrete":
            return self._resolve_discrete_kld(target, prior)
        return resolve_continuous_target_kld(target, self._action_spec)

    def _target_entropy(self, factor: str, sample: PolicySample) -> float | Tensor:
        target = super()._target_entropy(factor, sample)
        assert isinstance(sample, HybridSample)
        return target if factor == "discrete" or sample.share is None else target * sample.share

    def _check_critic_keys(self) -> None:
        keys, read = self.tensor_keys, set(map(unravel_key, self.qvalue_network.in_keys))
        if unravel_key(keys.action_continuous) not in read:
            raise BatchError(
                f"qvalue_network reads {self.qvalue_network.in_keys}, not the continuous action "
                f"{keys.action_continuous!r}, which is the key the actor writes unless "
                "set_keys(action_continuous=...) named another: let actor, critics and batch use "
                "one key"
            )
        if unravel_key(keys.action_discrete) in read:
            raise BatchError(
                f"qvalue_network reads the discrete action {keys.action_discrete!r}: a critic "
                "writes one value for each discrete action instead"
            )

    def _with_action(self, states: TensorDictBase, action: Tensor) -> TensorDictBase:
        return states.copy().set(self.tensor_keys.action_continuous, action)

    def _sample_policy(self, states: TensorDictBase) -> HybridSample:
        dist = policy_distribution(
            self.actor_network, self.actor_network_params, self._normalized(states)
        )
        mask = self._parameter_mask
        if mask is None:
            action, log_prob = draw(dist, states.batch_size)
        else:
            action, log_prob = draw_each_dimension(dist)
        inputs = self._with_action(states, action)
        value = self._reduced_for_policy(
            self._action_values(inputs, self.qvalue_network_params.data)
        )
        log_prior = self._log_prior(inputs, value.shape[-2], self.tensor_keys.action_discrete)
        log_probs = self._boltzmann(value, log_prior)
        log_prob_discrete, log_prior_of = self._discrete_scores(log_probs, log_prior)
        log_prior_continuous = self._continuous_log_prior(inputs, action)
        share = None
        if mask is not None:
            used = self._used_dimensions(log_probs, action, mask)
            log_prob = (used * log_prob).sum(-1)
            if log_prior_continuous is not None:
                log_prior_continuous = (used * log_prior_continuous).sum(-1)
            share = used.mean(-1)
        if log_prior_continuous is not None:
            log_prior_of["continuous"] = log_prior_continuous
        both = {"discrete": log_prob_discrete, "continuous": log_prob}
        return HybridSample(both, log_prior_of, log_probs, action, value, share, log_prior)

    def _continuous_log_prior(self, inputs: TensorDictBase, action: Tensor) -> Tensor | None:
        """Log-density ``[*]`` under the prior; with a mask that of each dimension, ``[*, D]``."""
        prior = self.priors.get("continuous")
        if prior is None:
            return None
        score = prior.log_prob
        if self._parameter_mask is not None:
            score = prior.log_prob_of_each_dimension
        return score(inputs, action, self.tensor_keys.action_continuous)

    def _used_dimensions(self, log_probs: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """The probability ``[*, D]`` that the discrete action uses each continuous dimension."""
        wanted = (log_probs.shape[-1], action.shape[-1])
        if mask.shape != wanted:
            raise BatchError(
                f"parameter_mask has the shape {list(mask.shape)}, wanted {list(wanted)}: one row "
                "for each discrete action, one column for each continuous dimension"
            )
        return log_probs.exp() @ mask

    def _sampled_values(
        self, states: TensorDictBase, sample: HybridSample, params: TensorDictParams
    ) -> Tensor:
        return self._action_values(self._with_action(states, sample.action), params)

    def _taken_values(
        self, states: TensorDictBase, batch: TensorDictBase, sample: HybridSample
    ) -> Tensor:
        keys = self.tensor_keys
        action = batch.get(keys.action_continuous)
        check_action(action, sample.action, keys.action_continuous)
        q = self._action_values(self._with_action(states, action), self.qvalue_network_params)
        return self._taken(q, batch.get(keys.action_discrete), keys.action_discrete)

    def _actor_loss(self, states: TensorDictBase, sample: HybridSample) -> Tensor:
        r"""Loss ``[*]``: :math:`\alpha_c\log\pi_c - \sum_k \operatorname{sg}(\pi_d) Q_{min,k}`."""
        value = weigh_rewards(self._expected_value(sample.value, sample), self.reward_weights)
        alpha, log_ratio = self.alpha("continuous"), sample.log_ratio("continuous")
        loss = pathwise_loss(value, sample.action, alpha, log_ratio, self.dqda_clipping)
        log_prior = sample.log_prior_of_each
        if log_prior is not None and log_prior.requires_grad:
            # The soft maximum of a discrete prior that depends on c has this share in its gradient.
            change = log_prior - log_prior.detach()
            favored = (sample.log_probs.exp() * change).sum(-1)
            loss = loss - self.alpha("discrete") * favored
        return loss

    def _acting_modules(self) -> list[TensorDictModuleBase]:
        return [
            *super()._acting_modules(),
            self._boltzmann_policy(self.tensor_keys.action_discrete),
        ]
