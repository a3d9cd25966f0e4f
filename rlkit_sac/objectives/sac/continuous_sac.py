"""Soft actor-critic for continuous actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensordict import NestedKey
from tensordict.nn import TensorDictModule

from rlkit_sac.config.loss import ContinuousLossConfig
from rlkit_sac.objectives.arguments import SACOptions, add_options
from rlkit_sac.objectives.sac.factors import ContinuousFactor
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss


@add_options(ContinuousLossConfig, SACOptions)
class ContinuousSACLoss(SoftActorCriticLoss):
    r"""Losses of soft actor-critic with a reparameterized policy over continuous actions.

    With one sample :math:`a' \sim \pi(\cdot|s')` and one sample :math:`a \sim \pi(\cdot|s)` of the
    live policy, and the minimum over R critics,

    .. math::
        y &= r + \gamma\,(1 - \text{terminated})
            \left[\min_i \bar Q_i(s', a') - \alpha \log\pi(a'|s')\right] \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s, a_B) - y)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha \log\pi(a|s) - \min_i Q_i(s, a)\right] \\
        L_\alpha &= \operatorname{mean}_B
            \left[\log\alpha \cdot (-\log\pi(a|s) - \bar{\mathcal H})\right]

    where :math:`\bar Q_i` are the target critics, and each loss trains only its own parameters.
    With a prior, :math:`\log\pi - \log\pi^0` replaces :math:`\log\pi`. Source: Haarnoja et al. 2018
    (arXiv:1812.05905), eq. 5-9 and 18, without the factor 1/2 of eq. 5. A time limit
    (``truncated``) bootstraps; only ``terminated`` does not. The original form, with a value
    network, is :class:`ValueSACLoss`.

    The loss reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and other
    inputs of the networks and a prior, at the state and under ``next`` (``prev_action`` and
    ``is_init`` only at the state); ``action`` ``[*, D]``; ``("next", "reward")`` ``[*, 1]`` or
    ``[*, M]``; ``("next", "terminated")`` ``[*, 1]``; ``("next", "done")`` ``[*, 1]`` for
    sequences; ``priority_weight`` ``[*]``, ``steps_to_next_obs`` ``[*]`` (frames of each
    transition) and ``("collector", "mask")`` ``[*]`` if present.

    It writes the priority ``td_error`` ``[*]`` into the batch: :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. It returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha``, ``alpha`` and ``entropy`` (nats), with a prior ``kl`` (nats),
    and with ``diagnostics=True`` statistics of the critics.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor``. Its distribution gives reparameterized
            samples and log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: a critic that writes ``state_action_value`` ``[*, 1]`` (``[*, M]`` for
            vector rewards). A single module is copied, and each copy is newly initialized; the
            modules of a list are used as they are. If the critic shares a trunk with the actor, it
            gets its own copy of the trunk.

    Further keyword arguments are the fields of :class:`SACOptions` and the fields of
    :class:`~rlkit_sac.config.ContinuousLossConfig` except ``schedules``.

    Raises:
        ConfigError: for an invalid option or network.
        BatchError: in a call, for a missing entry or a wrong shape.

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
    factor_kinds = (("", ContinuousFactor),)

    target_entropy: float | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        **options: Any,
    ) -> None:
        super().__init__(actor_network, qvalue_network, options)
