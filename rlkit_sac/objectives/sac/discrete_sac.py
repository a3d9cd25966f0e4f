"""Soft actor-critic for discrete actions, with and without an actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensordict import NestedKey
from tensordict.nn import TensorDictModule

from rlkit_sac.config.loss import DiscreteLossConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.objectives.arguments import SACOptions, add_options
from rlkit_sac.objectives.sac.factors import DiscreteFactor
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss


@add_options(DiscreteLossConfig, SACOptions)
class DiscreteSACLoss(SoftActorCriticLoss):
    r"""Losses of soft actor-critic over discrete actions, with or without an actor.

    Without an actor the policy is the soft-optimal one of the live critics,

    .. math:: \pi(k|s) = \operatorname{softmax}_k\left(\min_i Q_i(s)_k / \alpha\right)

    With an actor the policy is the actor's. Every expectation over actions is an exact sum:

    .. math::
        V(s') &= \textstyle\sum_k \pi(k|s')
            \left[\min_i \bar Q_i(s')_k - \alpha \log\pi(k|s')\right] \\
        y &= r + \gamma\,(1 - \text{terminated})\,V(s') \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s)_{a_B} - y)^2 \\
        L_\alpha &= \operatorname{mean}_B
            \left[\log\alpha \cdot (\mathcal H(\pi(\cdot|s)) - \bar{\mathcal H})\right] \\
        L_\pi &= \operatorname{mean}_B \textstyle\sum_k \pi(k|s)
            \left[\alpha\log\pi(k|s) - \min_i Q_i(s)_k\right]

    where each loss trains only its own parameters, and the last loss requires an actor. With a
    prior, :math:`\log\pi - \log\pi^0` replaces :math:`\log\pi`, and without an actor :math:`\pi
    \propto \pi^0 \exp(\min_i Q_i / \alpha)`. The policy is computed from the live critics, the
    values in V from the target critics :math:`\bar Q_i`. Source: Christodoulou 2019
    (arXiv:1910.07207), eq. 10-12, without the factor 1/2 of the critic loss; without an actor
    Haarnoja et al. 2017 (arXiv:1702.08165), theorem 1. A time limit (``truncated``) bootstraps;
    only ``terminated`` does not.

    The loss reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and other
    inputs of the networks and a prior, at the state and under ``next`` (``prev_action`` and
    ``is_init`` only at the state); ``action``, an integer index ``[*]`` from 0 to K - 1 (never
    one-hot); ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``; ``("next", "terminated")``
    ``[*, 1]``; ``("next", "done")`` ``[*, 1]`` for sequences; ``priority_weight`` ``[*]``,
    ``steps_to_next_obs`` ``[*]`` (frames of each transition) and ``("collector", "mask")``
    ``[*]`` if present. After ``set_keys(action_mask="action_mask")`` it also reads this mask of
    allowed actions, bool ``[*, K]``, at the state and under ``next``. Then the policy, targets,
    entropy, named target entropies and a prior are over the allowed actions of each state. A
    forbidden action in the batch is trained as any other.

    It writes the priority ``td_error`` ``[*]`` into the batch: :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. It returns ``loss_actor``
    (with an actor), ``loss_qvalue``, ``loss_alpha``, ``alpha`` and ``entropy`` (nats), with a prior
    ``kl`` (nats), and with ``diagnostics=True`` statistics of the critics.

    Args:
        qvalue_network: a critic that reads no action and writes ``action_value`` ``[*, K]``
            (``[*, K, M]`` for vector rewards). A single module is copied, and each copy is newly
            initialized; the modules of a list are used as they are. If the critic shares a trunk
            with the actor, it gets its own copy of the trunk.
        actor_network: a TorchRL ``ProbabilisticActor`` with a ``Categorical`` distribution over
            indices, or ``None``. TorchRL's order, the actor first, is accepted too.

    Further keyword arguments are the fields of :class:`SACOptions` and the fields of
    :class:`~rlkit_sac.config.DiscreteLossConfig` except ``schedules``.

    Raises:
        ConfigError: for an invalid option or network.
        BatchError: in a call, for a missing entry or a wrong shape.

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

    @dataclass
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        action_value: NestedKey = "action_value"
        action_mask: NestedKey | None = None

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    factor_kinds = (("", DiscreteFactor),)

    target_entropy: float | None

    def __init__(
        self,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        actor_network: TensorDictModule | None = None,
        **options: Any,
    ) -> None:
        if hasattr(qvalue_network, "get_dist"):  # TorchRL's order: the actor first
            qvalue_network, actor_network = actor_network, qvalue_network
        if qvalue_network is None or hasattr(qvalue_network, "get_dist"):
            raise ConfigError(
                "DiscreteSACLoss got an actor, or two, and no critic: pass qvalue_network, which "
                "writes one value for each action, and an actor_network or None"
            )
        super().__init__(actor_network, qvalue_network, options)
