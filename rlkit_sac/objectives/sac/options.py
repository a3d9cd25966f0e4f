"""The options of the soft actor-critic losses, documented and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar

from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional.sac import CriticReduction, LossFunction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.options import check_choice, check_number
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy

T = TypeVar("T")

#: One value for all factors of the policy, or a (discrete, continuous) pair.
PerFactor: TypeAlias = T | tuple[T, T] | list[T]

PolicyLossSteps = Literal["first", "next", "all"]
DiscreteEntropy = Literal["expected", "sampled"]

#: Default number of critics made of a single module.
NUM_CRITICS = 2


@dataclass(frozen=True, eq=False)
class SACOptions:
    r"""Options of the soft actor-critic losses; they mean the same in every loss that takes them.

    They are keyword arguments of the losses; the signature of a loss lists those that it takes.
    :class:`~rlkit_sac.objectives.HybridSACLoss` takes one value for both factors of its policy or
    a (discrete, continuous) pair for ``alpha_init``, ``min_alpha``, ``max_alpha``,
    ``fixed_alpha``, ``alpha_parametrization``, ``target_entropy`` and ``prior_network``.

    Args:
        num_qvalue_nets: number of critics made of a single module. Default 2.
        target_subset: number of target critics, sampled in each call, of which the targets take
            the minimum. Default all. Source: Chen et al. 2021 (arXiv:2101.05982).
        policy_reduction: the value that the policy maximizes, the ``"min"`` (default) or the
            ``"mean"`` of the critics.
        gamma: discount in [0, 1]. Default 0.99.
        loss_function: ``"l2"`` (default), ``"l1"`` or ``"smooth_l1"`` distance to the target,
            summed over critics, averaged over reward dimensions.
        qvalue_coef: factor on ``loss_qvalue``. Default 1.
        reward_scale: factor on the reward in the targets. Default 1.
        reward_weights: ``[M]`` weights of a vector reward (default ones), an attribute that may be
            assigned during a run; not part of the state dict. The minimum over critics is taken in
            each dimension before weighting, a maximum where the weight is negative; the policy
            maximizes the weighted sum; each dimension has its own target.
        alpha_init: initial temperature. Default 1.
        min_alpha: lower bound of the temperature, ``alpha_init`` included. Default none. Losses and
            policy clamp it; ``project_parameters()`` clamps the parameter itself.
        max_alpha: upper bound of the temperature. Default none.
        fixed_alpha: keep the temperature at ``alpha_init``; its part of ``loss_alpha`` is zero.
        alpha_parametrization: what the parameter ``log_alpha`` holds and its loss multiplies:
            ``"log"`` (default) :math:`\log\alpha` and :math:`\log\alpha`, ``"exp"``
            :math:`\log\alpha` and :math:`\alpha`, ``"direct"`` :math:`\alpha` and :math:`\alpha`
            (the parameter keeps its name; ``alpha()`` reads the temperature in every mode).
        target_entropy: ``"auto"`` (default), a number of nats, or a function of the action spec.
            Continuous actions: ``"auto"`` is :math:`\sum_d\log(p(\text{high}_d-\text{low}_d))`,
            ``"neg_dim"`` :math:`-\dim`. Discrete actions: ``"auto"`` is :math:`p(\log(K-1) -
            \log p) - (1-p)\log(1-p)`, ``"scaled_log_k"`` :math:`0.98\log K`; the attribute
            ``target_entropy`` is ``None`` if K is known from the critics only.
        min_prob: p of ``"auto"``. Default 0.1.
        prior_network: a prior :math:`\pi^0` such as :class:`~rlkit_sac.modules.UniformPrior`, or
            any module with ``in_keys`` and ``get_dist(tensordict)``: :math:`\log\pi - \log\pi^0`
            replaces :math:`\log\pi` everywhere, and a discrete policy without an actor is
            :math:`\pi_k \propto \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy,
            which is not trained. Default none.
        target_kld_per_dim: with a prior, the target divergence from it for the temperature of
            continuous actions, nats for each action dimension, which replaces
            ``target_entropy``. Default 3.
        target_kld_discrete: the same for discrete actions, nats. Default :math:`\tfrac12\log K`.
        action_spec: spec of one action, or the composite spec of the environment; default the
            actor's. Without one the number of discrete actions is that of the critics' output.
        parameter_mask: ``[K, D]``, true where discrete action k uses continuous dimension j; for
            parameterized actions, each of which has its own parameters. Default: every action
            uses every dimension. The next two options say what the mask m changes.
        mask_entropy: with a mask, weight each dimension by the probability
            :math:`u_j = \sum_k \operatorname{sg}(\pi_d(k|s, c))\,m_{kj}` that it is used:
            :math:`\sum_j u_j \log\pi_{c,j}(c_j|s)` replaces :math:`\log\pi_c` everywhere, and the
            target entropy of each state is :math:`\bar{\mathcal H}_c \sum_j u_j / D`; the discrete
            policy is unchanged. The actor's distribution must be a
            :class:`~rlkit_sac.modules.TanhGaussian`. Default ``True``. Source: Delalleau et al.
            2019 (arXiv:1912.11077).
        mask_critics: with a mask, evaluate each value with the parameters of its own action alone,
            :math:`Q_i(s, c \odot m_k)_k`, in losses, targets and policy. Default ``False``. Source:
            Bester et al. 2019 (arXiv:1905.04388).
        discrete_entropy: ``"expected"`` (default) takes the exact entropy of the discrete policy in
            V and in the temperature loss, ``"sampled"`` minus the log-probability of one sample.
        dqda_clipping: bound x on every element of each sample's :math:`\partial Q/\partial a` in
            the actor loss. Default none.
        use_entropy_reward: whether the targets include the entropy. Default ``True``.
        normalize_entropy_reward: center the entropy of the targets by a running mean of
            :math:`\log\pi`, one for each factor.
        policy_loss_steps: states of the actor and temperature losses: ``"first"`` (default), s;
            ``"next"``, s' (ALF's ``reproduce_locomotion``); ``"all"``, the sum over both. The
            critic loss is unchanged. (ALF averages over its two steps, with no critic loss at
            the second: the same relative weights.)
        reduction: ``"mean"`` (default), ``"sum"`` or ``"none"``, over the valid steps.
        scalar_output_mode: with ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars.
        use_prioritized_weights: whether losses are weighted by ``priority_weight``
            (:math:`\sum wl/\sum w`). Default ``"auto"``: if it is present.
        observation_normalizer: normalizes the observations of networks and policy; ``observe()``
            updates its statistics. Default none.
        reward_normalizer: normalizes the rewards in the targets, before ``reward_scale``; updated
            in the same way. Default none.
        burn_in: of networks with a memory, number of first steps of each row that the memories see,
            without gradient and without loss. Default 0.
        deactivate_vmap: call the critics one after another.
        diagnostics: add statistics of the critics to the output.

    Raises:
        ConfigError: for a value that is out of range.

    >>> SACOptions(qvalue_coef=-1.0)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: qvalue_coef must be a finite number >= 0, not -1.0
    """

    num_qvalue_nets: int = NUM_CRITICS
    target_subset: int | None = None
    policy_reduction: CriticReduction = "min"
    gamma: float = 0.99
    loss_function: LossFunction = "l2"
    qvalue_coef: float = 1.0
    reward_scale: float = 1.0
    reward_weights: Tensor | Sequence[float] | None = None
    alpha_init: PerFactor[float] = 1.0
    min_alpha: PerFactor[float | None] = None
    max_alpha: PerFactor[float | None] = None
    fixed_alpha: PerFactor[bool] = False
    alpha_parametrization: PerFactor[AlphaParametrization] = "log"
    target_entropy: PerFactor[TargetEntropy] = "auto"
    min_prob: float = 0.1
    prior_network: PerFactor[nn.Module | None] = None
    target_kld_per_dim: float = 3.0
    target_kld_discrete: float | None = None
    action_spec: TensorSpec | None = None
    parameter_mask: Tensor | Sequence[Sequence[bool]] | None = None
    mask_entropy: bool = True
    mask_critics: bool = False
    discrete_entropy: DiscreteEntropy = "expected"
    dqda_clipping: float | None = None
    use_entropy_reward: bool = True
    normalize_entropy_reward: bool = False
    policy_loss_steps: PolicyLossSteps = "first"
    reduction: Reduction = "mean"
    scalar_output_mode: ScalarOutputMode | None = None
    use_prioritized_weights: bool | Literal["auto"] = "auto"
    observation_normalizer: ObservationNormalizer | None = None
    reward_normalizer: RewardNormalizer | None = None
    burn_in: int = 0
    deactivate_vmap: bool = False
    diagnostics: bool = False

    def __post_init__(self) -> None:
        check_choice("loss_function", self.loss_function, ("l2", "l1", "smooth_l1"))
        check_choice("policy_reduction", self.policy_reduction, ("min", "mean"))
        check_choice("policy_loss_steps", self.policy_loss_steps, ("first", "next", "all"))
        check_choice("discrete_entropy", self.discrete_entropy, ("expected", "sampled"))
        check_number("qvalue_coef", self.qvalue_coef)
        check_number("reward_scale", self.reward_scale)
        check_number("burn_in", self.burn_in)
        if self.dqda_clipping is not None and not self.dqda_clipping >= 0:
            raise ConfigError(
                f"dqda_clipping must be None or a bound >= 0, not {self.dqda_clipping}"
            )

    @classmethod
    def of_call(cls, arguments: Mapping[str, Any]) -> SACOptions:
        """The options among the arguments of a constructor.

        Args:
            arguments: the ``locals()`` of the constructor of a loss.
        """
        names = [field.name for field in fields(cls)]
        return cls(**{name: arguments[name] for name in names if name in arguments})

    def of_each(self, name: str, factors: Sequence[str]) -> dict[str, Any]:
        """The value of an option for each factor.

        Args:
            name: of the option.
            factors: names of the policy's factors, ``[""]`` for a single one.

        Raises:
            ConfigError: for a sequence of another length.

        >>> SACOptions(alpha_init=(0.5, 1.0)).of_each("alpha_init", ["discrete", "continuous"])
        {'discrete': 0.5, 'continuous': 1.0}
        """
        value = getattr(self, name)
        if not isinstance(value, tuple | list):
            return dict.fromkeys(factors, value)
        if len(factors) == 1:
            raise ConfigError(f"{name} takes one value here, not {value!r}")
        if len(value) != len(factors):
            raise ConfigError(
                f"{name} takes one value or one for each of ({', '.join(factors)}), not {value!r}"
            )
        return dict(zip(factors, value, strict=True))
