"""Soft actor-critic for continuous actions."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.config.loss import KLPriorLossConfig
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.objectives.arguments import SACOptions, takes
from rlkit_sac.objectives.checks import check_values, refuse_batch_norm
from rlkit_sac.objectives.sac.critics import CRITICS, SACTransitions
from rlkit_sac.objectives.sac.factors import ContinuousFactor
from rlkit_sac.objectives.sac.policy import PolicyDraw
from rlkit_sac.objectives.sac.return_estimators import Target
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss


@takes(KLPriorLossConfig, SACOptions)
class ContinuousSACLoss(SoftActorCriticLoss):
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

    where each loss trains its own parameters only. Source: Haarnoja et al. 2018
    (arXiv:1812.05905), eq. 5-9 and 18, without the factor 1/2 of eq. 5. A time limit
    (``truncated``) bootstraps; only ``terminated`` does not.

    **With a value network** V, the original form, the critics regress on its target network and it
    on the live critics, which then have no targets of their own,

    .. math::
        y &= r + \gamma\,(1 - \text{terminated})\,\bar V(s') \\
        L_V &= \operatorname{mean}_B \left(V(s)
            - \operatorname{sg}\left(\min_i Q_i(s, a) - \alpha \log\pi(a|s)\right)\right)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha \log\pi(a|s)
            - \left(\min_i Q_i(s, a) - \operatorname{sg}(V(s))\right)\right]

    with the other losses as above; sg stops gradients, and V(s) in the actor loss changes its
    value, not its gradient. Source: Haarnoja et al. 2018 (arXiv:1801.01290), eq. 5-13, without the
    factor 1/2 of eq. 5 and 7 and with the two critics of its section 4.2.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` only
    here); ``action`` ``[*, D]``; ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``;
    ``("next", "terminated")`` ``[*, 1]``; ``("next", "done")`` ``[*, 1]`` for sequences;
    ``priority_weight`` ``[*]``, ``steps_to_next_obs`` ``[*]`` (frames of each transition) and
    ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha``, with a value network ``loss_value``, ``alpha`` and ``entropy``
    (nats), with a prior ``kl`` (nats), and the critics' statistics with ``diagnostics=True``.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor``; its distribution gives reparameterized
            samples and log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: writes ``state_action_value`` ``[*, 1]`` (``[*, M]`` for vector rewards). A
            single module is copied, each copy newly initialized; the modules of a list are used as
            given. A trunk shared with the actor becomes the critics' own copy.
        value_network: reads no action and writes ``state_value`` ``[*, 1]`` (``[*, M]``), or
            ``None`` (default). A trunk shared with the actor becomes its own copy.

    Further keyword arguments are the fields of :class:`SACOptions` and, but for ``schedules``,
    of :class:`~rlkit_sac.config.KLPriorLossConfig`.

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
    >>> from rlkit_sac.modules import state_critic
    >>> actor, critic = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    >>> "loss_value" in ContinuousSACLoss(actor, critic, state_critic(3))(batch)
    True
    """

    @dataclass
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        state_action_value: NestedKey = "state_action_value"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    factor_kinds = (("", ContinuousFactor),)

    value_network_params: TensorDictParams
    target_value_network_params: TensorDictParams
    target_entropy: float | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        value_network: TensorDictModule | None = None,
        **options: Any,
    ) -> None:
        if value_network is not None and options.get("encoder_network") is not None:
            raise ConfigError(
                "encoder_network is for an actor and critics alone: leave it or value_network out"
            )
        with_targets = CRITICS if value_network is None else _VALUE
        super().__init__(actor_network, qvalue_network, options, with_targets=with_targets)
        if value_network is None:
            return
        if self.target_subset is not None:
            raise ConfigError(
                f"target_subset is {self.target_subset}, but with a value_network the critics have "
                "no targets: leave it out"
            )
        refuse_batch_norm(value_network, _VALUE)
        of_actor = {id(parameter) for parameter in actor_network.parameters()}
        if any(id(parameter) in of_actor for parameter in value_network.parameters()):
            value_network = deepcopy(value_network)
        self.convert_to_functional(value_network, _VALUE, create_target_params=True)
        self.network_names += (_VALUE,)
        self._find_memory(_VALUE)

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the value network alone, ``loss_value`` of :meth:`forward`.

        The running mean of ``normalize_entropy_reward`` moves in :meth:`forward` and
        :meth:`qvalue_loss` only.

        Args:
            tensordict: ``[*]``, not modified.

        Returns:
            The loss, and ``alpha``, ``entropy`` and, with a prior, ``kl``.

        Raises:
            ConfigError: for a loss without a value network.
        """
        if self.value_network is None:
            raise ConfigError("this ContinuousSACLoss has no value_network: pass one")
        read = self._read(tensordict)
        draw = self._draw(read.states)
        loss = self._reduce_alone(self._policy.value_loss(draw), tensordict)
        return loss, self._policy.scalars(draw, read.valid)

    # ------------------------------------------------------------------ the value network

    def _check_network_keys(self) -> None:
        super()._check_network_keys()
        if self.value_network is None:
            return
        read, written = self.value_network.in_keys, self.value_network.out_keys
        if unravel_key(self.tensor_keys.action) in map(unravel_key, read):
            raise BatchError(
                f"value_network reads {read}, and so the action {self.tensor_keys.action!r}: it "
                "values states, so let it read the observation alone"
            )
        if unravel_key(self.tensor_keys.value) not in map(unravel_key, written):
            raise BatchError(
                f"value_network writes {written}, not {self.tensor_keys.value!r}: name its output "
                "so, or name the right one with set_keys(value=...)"
            )

    def _draw(self, states: TensorDictBase) -> PolicyDraw:
        draw = super()._draw(states)
        if self.value_network is None:
            return draw
        value = self._policy.value(draw.inputs)
        state_value = self._state_value(states, _VALUE, value.shape[-1])
        return replace(draw, value=value, state_value=state_value)

    def _next_draw(self, read: SACTransitions) -> PolicyDraw | None:
        if self.value_network is None or self.policy_loss_steps != "first":
            return super()._next_draw(read)
        if not (self.return_estimator.sequential or self.entropy_centers):
            return None
        with torch.no_grad():  # the log-probability is all that is asked for
            return super()._draw(read.next_states)

    def _state_value(self, states: TensorDictBase, name: str, reward_dim: int) -> Tensor:
        """The output ``[*, M]`` of the value network or of its target."""
        inputs = self._head_inputs(_VALUE, self._normalized(states).copy(), name)
        params = getattr(self, f"{name}_params")
        with params.to_module(self.value_network, preserve_module_state=False):
            value = self._head(_VALUE)(inputs).get(self.tensor_keys.value)
        check_values(value.unsqueeze(0), (*states.batch_size, reward_dim), reward_dim, _VALUE)
        return value.to(self._like.dtype)

    def _next_value(
        self, read: SACTransitions, next_draw: PolicyDraw | None, reward_dim: int
    ) -> tuple[Target, Tensor]:
        if self.value_network is None:
            return super()._next_value(read, next_draw, reward_dim)
        value = self._state_value(read.next_states, f"target_{_VALUE}", reward_dim)
        if next_draw is None:
            return Target(value), torch.zeros_like(value)
        return Target(value), self._policy.bonus(next_draw)


_VALUE = "value_network"
