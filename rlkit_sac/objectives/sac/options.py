"""The options of the soft actor-critic losses, with default, bound and text in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional.sac import CriticReduction, LossFunction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.options import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    UNIT,
    check_options,
)
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])

#: One value for all factors of the policy, or a (discrete, continuous) pair.
PerFactor: TypeAlias = T | tuple[T, T] | list[T]

#: Default number of critics made of a single module.
NUM_CRITICS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class SACOptions:
    r"""Options that all soft actor-critic losses take as keyword arguments.

    :class:`~rlkit_sac.objectives.HybridSACLoss` takes one value for both factors of its policy or
    a (discrete, continuous) pair for ``alpha_init``, ``min_alpha``, ``max_alpha``,
    ``fixed_alpha``, ``alpha_parametrization``, ``target_entropy`` and ``prior_network``.

    Raises:
        ConfigError: for a value that is out of range.

    >>> SACOptions(qvalue_coef=-1.0)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: qvalue_coef must be a finite number >= 0, not -1.0
    """

    encoder_network: TensorDictModuleBase | None = None
    """One encoder of the states for actor and critics, which read what it writes, such as
    ``features``, in place of the observation. ``loss_qvalue`` alone trains it, and it has no
    target, as in DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645)."""
    num_qvalue_nets: Annotated[int, POSITIVE] = NUM_CRITICS
    """Number of critics made of a single module."""
    target_subset: int | None = None
    """Number of target critics, sampled in each call, of which the targets take the minimum; all
    by default. Source: Chen et al. 2021 (arXiv:2101.05982)."""
    policy_reduction: CriticReduction = "min"
    """The value that the policy maximizes, the ``"min"`` or the ``"mean"`` of the critics."""
    gamma: Annotated[float, UNIT] = 0.99
    """Discount in [0, 1]."""
    loss_function: LossFunction = "l2"
    """Distance to the target, ``"l2"``, ``"l1"`` or ``"smooth_l1"``, summed over critics, averaged
    over reward dimensions."""
    qvalue_coef: Annotated[float, NOT_NEGATIVE] = 1.0
    """Factor on ``loss_qvalue``."""
    reward_scale: Annotated[float, FINITE] = 1.0
    """Factor on the reward in the targets."""
    reward_weights: Tensor | Sequence[float] | None = None
    """``[M]`` weights of a vector reward (default ones), an attribute that may be assigned during a
    run; not part of the state dict. The minimum over critics is taken in each dimension before
    weighting, a maximum where the weight is negative; the policy maximizes the weighted sum; each
    dimension has its own target."""
    alpha_init: Annotated[PerFactor[float], POSITIVE] = 1.0
    """Initial temperature."""
    min_alpha: Annotated[PerFactor[float | None], NOT_NEGATIVE] = None
    """Lower bound of the temperature, ``alpha_init`` included. Losses and policy clamp it;
    ``project_parameters()`` clamps the parameter itself."""
    max_alpha: Annotated[PerFactor[float | None], POSITIVE] = None
    """Upper bound of the temperature."""
    fixed_alpha: PerFactor[bool] = False
    """Keep the temperature at ``alpha_init``; its part of ``loss_alpha`` is zero."""
    alpha_parametrization: PerFactor[AlphaParametrization] = "log"
    r"""What the parameter ``log_alpha`` holds and its loss multiplies: ``"log"``
    :math:`\log\alpha` and :math:`\log\alpha`, ``"exp"`` :math:`\log\alpha` and :math:`\alpha`,
    ``"direct"`` :math:`\alpha` and :math:`\alpha` (the parameter keeps its name; ``alpha()`` reads
    the temperature in every mode)."""
    target_entropy: PerFactor[TargetEntropy] = "auto"
    r"""``"auto"``, a number of nats, or a function of the action spec. Continuous actions:
    ``"auto"`` is :math:`\sum_d\log(p(\text{high}_d-\text{low}_d))`, ``"neg_dim"``
    :math:`-\dim`. Discrete actions: ``"auto"`` is :math:`p(\log(K-1) - \log p) -
    (1-p)\log(1-p)`, ``"scaled_log_k"`` :math:`0.98\log K`; the attribute ``target_entropy`` is
    ``None`` if K is known from the critics only."""
    min_prob: Annotated[float, SHARE] = 0.1
    """p of ``"auto"``, in (0, 1]."""
    prior_network: PerFactor[nn.Module | None] = None
    r"""A prior :math:`\pi^0` such as :class:`~rlkit_sac.modules.UniformPrior`, or any module with
    ``in_keys`` and ``get_dist(tensordict)``: :math:`\log\pi - \log\pi^0` replaces
    :math:`\log\pi` everywhere, and a discrete policy without an actor is :math:`\pi_k \propto
    \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy, which is not trained."""
    action_spec: TensorSpec | None = None
    """Spec of one action, or the composite spec of the environment; default the actor's. Without
    one the number of discrete actions is that of the critics' output."""
    use_entropy_reward: bool = True
    """Whether the targets include the entropy."""
    normalize_entropy_reward: bool = False
    r"""Center the entropy of the targets by a running mean of :math:`\log\pi`, one for each
    factor."""
    policy_loss_steps: Literal["first", "next", "all"] = "first"
    """States of the actor and temperature losses: ``"first"``, s; ``"next"``, s' (ALF's
    ``reproduce_locomotion``); ``"all"``, the sum over both. The critic loss is unchanged. (ALF
    averages over its two steps, with no critic loss at the second: the same relative weights.)"""
    reduction: Reduction = "mean"
    """``"mean"``, ``"sum"`` or ``"none"``, over the valid steps."""
    scalar_output_mode: ScalarOutputMode | None = None
    """With ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars."""
    use_prioritized_weights: Literal[True, False, "auto"] = "auto"
    r"""Whether losses are weighted by ``priority_weight`` (:math:`\sum wl/\sum w`); ``"auto"``: if
    it is present."""
    observation_normalizer: ObservationNormalizer | None = None
    """Normalizes the observations of networks and policy; ``observe()`` updates its statistics."""
    reward_normalizer: RewardNormalizer | None = None
    """Normalizes the rewards in the targets, before ``reward_scale``; updated in the same way."""
    burn_in: Annotated[int, COUNT] = 0
    """Of networks with a memory, number of first steps of each row that the memories see, without
    gradient and without loss."""
    deactivate_vmap: bool = False
    """Call the critics one after another."""
    diagnostics: bool = False
    """Add statistics of the critics to the output."""

    def __post_init__(self) -> None:
        check_options(self)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousSACOptions(SACOptions):
    """Options of the losses over continuous actions."""

    target_kld_per_dim: Annotated[float, NOT_NEGATIVE] = 3.0
    """With a prior, the target divergence from it for the temperature of continuous actions, nats
    for each action dimension, which replaces ``target_entropy``."""
    dqda_clipping: Annotated[float | None, NOT_NEGATIVE] = None
    r"""Bound x on every element of each sample's :math:`\partial Q/\partial a` in the actor
    loss."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscreteSACOptions(SACOptions):
    """Options of the losses over discrete actions."""

    target_kld_discrete: Annotated[float | None, NOT_NEGATIVE] = None
    r"""With a prior, the target divergence from it for the temperature of discrete actions, nats;
    default :math:`\tfrac12\log K`."""
    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """``"expected"`` takes the exact entropy of the discrete policy in V and in the temperature
    loss, ``"sampled"`` minus the log-probability of one sample."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HybridSACOptions(ContinuousSACOptions, DiscreteSACOptions):
    """Options of the loss over hybrid actions."""

    parameter_mask: Tensor | Sequence[Sequence[bool]] | None = None
    """``[K, D]``, true where discrete action k uses continuous dimension j; for parameterized
    actions, each of which has its own parameters. Default: every action uses every dimension. The
    next two options say what the mask m changes."""
    mask_entropy: bool = True
    r"""With a mask, weight each dimension by the probability :math:`u_j = \sum_k
    \operatorname{sg}(\pi_d(k|s, c))\,m_{kj}` that it is used: :math:`\sum_j u_j
    \log\pi_{c,j}(c_j|s)` replaces :math:`\log\pi_c` everywhere, and the target entropy of each
    state is :math:`\bar{\mathcal H}_c \sum_j u_j / D`; the discrete policy is unchanged. The
    actor's distribution must be a :class:`~rlkit_sac.modules.TanhGaussian`. Source: Delalleau et
    al. 2019 (arXiv:1912.11077)."""
    mask_critics: bool = False
    r"""With a mask, evaluate each value with the parameters of its own action alone,
    :math:`Q_i(s, c \odot m_k)_k`, in losses, targets and policy. Source: Bester et al. 2019
    (arXiv:1905.04388)."""

    @property
    def masks_entropy(self) -> bool:
        """Whether there is a mask that weights the dimensions of the continuous action."""
        return self.parameter_mask is not None and self.mask_entropy


def takes(options: type[SACOptions]) -> Callable[[Class], Class]:
    """Let the signature of a loss show the options that its ``**options`` are.

    Args:
        options: their class.

    >>> from rlkit_sac.objectives import DiscreteSACLoss
    >>> inspect.signature(DiscreteSACLoss).parameters["gamma"].default
    0.99
    """

    def add(loss: Class) -> Class:
        own = [*inspect.signature(loss.__init__).parameters.values()][:-1]
        shown = [*own, *inspect.signature(options).parameters.values()]
        loss.__init__.__signature__ = inspect.Signature(shown)
        loss.options_class = options
        return loss

    return add
