"""Soft actor-critic for hybrid actions, with a discrete and a continuous part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensordict import NestedKey
from tensordict.nn import TensorDictModule
from torch import Tensor

from rlkit_sac.config.loss import HybridLossConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.distributions import TanhGaussian
from rlkit_sac.modules.masked_critic import check_mask
from rlkit_sac.objectives.arguments import SACOptions, add_options
from rlkit_sac.objectives.sac.factors import ContinuousFactor, DiscreteFactor
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss


@add_options(HybridLossConfig, SACOptions)
class HybridSACLoss(SoftActorCriticLoss):
    r"""Losses of soft actor-critic over hybrid actions, one discrete and one continuous part.

    The policy is :math:`\pi(d, c|s) = \pi_c(c|s)\,\pi_d(d|s, c)`. The actor samples the continuous
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

    where each loss trains only its own parameters, and sg stops gradients. With a prior,
    :math:`\log\pi - \log\pi^0` replaces :math:`\log\pi` in each part, and :math:`\pi_d \propto
    \pi^0_d \exp(\min_i Q_i / \alpha_d)`. The discrete policy is computed from the live critics, the
    values in V from the target critics :math:`\bar Q_i`. Source: the two temperatures and the
    weighting of the two entropies are from Delalleau et al. 2019 (arXiv:1912.11077), where an actor
    writes the discrete policy. The losses are eq. 5-9 and 18 of Haarnoja et al. 2018
    (arXiv:1812.05905), without the factor 1/2 of eq. 5, and the discrete policy is theorem 1 of
    Haarnoja et al. 2017 (arXiv:1702.08165). With one discrete action this is
    :class:`ContinuousSACLoss`. A time limit (``truncated``) bootstraps; only ``terminated`` does
    not.

    The loss reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and other
    inputs of the networks and a prior, at the state and under ``next`` (``prev_action`` and
    ``is_init`` only at the state); ``("action", "continuous")`` ``[*, D]``;
    ``("action", "discrete")``, an integer index ``[*]`` from 0 to K - 1 (never one-hot);
    ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``; ``("next", "terminated")`` ``[*, 1]``;
    ``("next", "done")`` ``[*, 1]`` for sequences; ``priority_weight`` ``[*]``,
    ``steps_to_next_obs`` ``[*]`` (frames of each transition) and ``("collector", "mask")``
    ``[*]`` if present. Masks of allowed discrete actions are read as in :class:`DiscreteSACLoss`.

    It writes the priority ``td_error`` ``[*]`` into the batch: :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. It returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha`` (the sum over both temperatures), ``alpha_discrete``,
    ``alpha_continuous``, ``entropy_discrete`` and ``entropy_continuous`` (nats), with a prior also
    ``kl_discrete`` and ``kl_continuous`` (nats), and with ``diagnostics=True`` statistics of the
    critics.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor`` that writes the continuous action to
            ``("action", "continuous")``. Its distribution gives reparameterized samples and
            log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: a critic that reads the continuous action and writes ``action_value``
            ``[*, K]`` (``[*, K, M]`` for vector rewards). A single module is copied, and each copy
            is newly initialized; the modules of a list are used as they are. If the critic shares a
            trunk with the actor, it gets its own copy of the trunk.
        parameter_mask: a matrix ``[K, D]``, true where discrete action k uses continuous dimension
            j, for parameterized actions. Default: every action uses every dimension. The options
            ``mask_entropy`` and ``mask_critics`` select the effects of the mask m.
            ``mask_entropy`` weights each dimension by the probability :math:`u_j = \sum_k
            \operatorname{sg}(\pi_d(k|s, c))\,m_{kj}` that it is used: :math:`\sum_j u_j
            \log\pi_{c,j}(c_j|s)` replaces :math:`\log\pi_c` everywhere, and the target entropy of
            each state is :math:`\bar{\mathcal H}_c \sum_j u_j / D`. The discrete policy does not
            change, and the actor's distribution must be a
            :class:`~rlkit_sac.modules.TanhGaussian` (Delalleau et al. 2019, arXiv:1912.11077).
            ``mask_critics`` computes the value of each action only from the action's own
            parameters, :math:`Q_i(s, c \odot m_k)_k`, in losses, targets and policy (Bester et al.
            2019, arXiv:1905.04388).

    Further keyword arguments are the fields of :class:`SACOptions` and the fields of
    :class:`~rlkit_sac.config.HybridLossConfig` except ``schedules``.

    Raises:
        ConfigError: for an invalid option or network.
        BatchError: in a call, for a missing entry or a wrong shape.

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
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        action_value: NestedKey = "action_value"
        action_mask: NestedKey | None = None
        action_continuous: NestedKey = ("action", "continuous")
        action_discrete: NestedKey = ("action", "discrete")

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    factor_kinds = (("discrete", DiscreteFactor), ("continuous", ContinuousFactor))

    target_entropy_discrete: float | None
    target_entropy_continuous: float | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        *,
        parameter_mask: Tensor | Sequence[Sequence[bool]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(actor_network, qvalue_network, options, parameter_mask=parameter_mask)
        if self.parameter_mask is None:
            return
        mask, spec = self.parameter_mask.mask, self.specs["action_continuous"]
        check_mask(mask, self.num_actions or len(mask), (mask if spec is None else spec).shape[-1])
        assert self.continuous is not None
        dist = getattr([*actor_network.modules()][-1], "distribution_class", None)
        if (
            self.continuous.weighs_dimensions
            and isinstance(dist, type)
            and not issubclass(dist, TanhGaussian)
        ):
            raise ConfigError(
                f"the actor's distribution is {dist.__name__}: parameter_mask needs the density of "
                "each dimension, which rlkit_sac.modules.TanhGaussian gives; or mask_entropy=False"
            )

    def set_keys(self, **kwargs: Any) -> None:
        """Rename entries; ``action`` renames both parts of the action, which are nested in it."""
        if "action" in kwargs:
            whole = kwargs["action"] or "action"
            path = whole if isinstance(whole, tuple) else (whole,)
            kwargs.setdefault("action_continuous", (*path, "continuous"))
            kwargs.setdefault("action_discrete", (*path, "discrete"))
        super().set_keys(**kwargs)
