"""Soft actor-critic for continuous actions with a value network, as first published."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac import functional as F
from rlkit_sac.config.loss import ContinuousLossConfig
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.objectives.arguments import SACOptions, add_options
from rlkit_sac.objectives.batch import check_critic_values
from rlkit_sac.objectives.checks import check_writes, name_mismatched_entries
from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss
from rlkit_sac.objectives.sac.critics import CriticTerms, SACTransitions
from rlkit_sac.objectives.sac.diagnostics import STATISTICS, value_statistics
from rlkit_sac.objectives.sac.factors import PolicySample
from rlkit_sac.objectives.sac.return_estimators import ValueEstimate

VALUE = "value_network"


@add_options(ContinuousLossConfig, SACOptions)
class ValueSACLoss(ContinuousSACLoss):
    r"""Losses of soft actor-critic with a value network V, the original form.

    The critics regress on the target network of V, and V on the live critics, which have no target
    networks of their own:

    .. math::
        y &= r + \gamma\,(1 - \text{terminated})\,\bar V(s') \\
        L_V &= \operatorname{mean}_B \left(V(s)
            - \operatorname{sg}\left(\min_i Q_i(s, a) - \alpha \log\pi(a|s)\right)\right)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha \log\pi(a|s)
            - \left(\min_i Q_i(s, a) - \operatorname{sg}(V(s))\right)\right]

    where sg stops gradients. V(s) changes the value of the actor loss, not its gradient. The other
    losses are the losses of :class:`ContinuousSACLoss`. Source: Haarnoja et al. 2018
    (arXiv:1801.01290), eq. 5-13, without the factor 1/2 of eq. 5 and 7 and with the two critics of
    section 4.2.

    The loss reads and writes the same entries as :class:`ContinuousSACLoss`, and also returns
    ``loss_value``.

    Args:
        actor_network: see :class:`ContinuousSACLoss`.
        qvalue_network: see :class:`ContinuousSACLoss`.
        value_network: a network that reads no action and writes ``state_value`` ``[*, 1]``
            (``[*, M]``). If it shares a trunk with the actor, it gets its own copy of the trunk.

    Further keyword arguments are the options of :class:`ContinuousSACLoss` except
    ``encoder_network`` and ``target_subset``.

    Raises:
        ConfigError: for an invalid option or network.
        BatchError: in a call, for a missing entry or a wrong shape.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules import state_action_critic, state_critic, tanh_gaussian_actor
    >>> actor, critic = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    >>> loss = ValueSACLoss(actor, critic, state_critic(3))
    >>> end = torch.zeros(8, 1, dtype=torch.bool)
    >>> batch = TensorDict(
    ...     observation=torch.randn(8, 3),
    ...     action=torch.rand(8, 1),
    ...     next=TensorDict(
    ...         observation=torch.randn(8, 3),
    ...         reward=torch.randn(8, 1),
    ...         done=end,
    ...         terminated=end,
    ...         batch_size=[8],
    ...     ),
    ...     batch_size=[8],
    ... )
    >>> sorted(loss(batch).keys())
    ['alpha', 'entropy', 'loss_actor', 'loss_alpha', 'loss_qvalue', 'loss_value']
    """

    target_networks = (VALUE,)

    value_network: TensorDictModule
    value_network_params: TensorDictParams
    target_value_network_params: TensorDictParams

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        value_network: TensorDictModule,
        **options: Any,
    ) -> None:
        if options.get("encoder_network") is not None:
            raise ConfigError(
                "encoder_network is for an actor and critics alone: leave it or value_network out"
            )
        super().__init__(actor_network, qvalue_network, **options)
        if self.target_subset is not None:
            raise ConfigError(
                f"target_subset is {self.target_subset}, but with a value_network the critics have "
                "no targets: leave it out"
            )
        actor_ids = {id(parameter) for parameter in actor_network.parameters()}
        if any(id(parameter) in actor_ids for parameter in value_network.parameters()):
            value_network = deepcopy(value_network)
        self._register_network(VALUE, value_network, create_target_params=True)
        self._find_memories((VALUE,))

    @name_mismatched_entries
    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``loss_value``, and ``alpha``, ``entropy`` and, with a prior, ``kl``.

        Only :meth:`forward` and :meth:`qvalue_loss` update the running mean of
        ``normalize_entropy_reward``.

        Args:
            tensordict: the batch ``[*]``; not changed.
        """
        transitions = self._read(tensordict)
        sample = self._sample_policy(transitions.states)
        loss = self._reduce_single_loss(self._value_loss(sample), tensordict)
        return loss, self._scalars(sample, transitions.valid)

    def _losses(
        self, sample: PolicySample, next_sample: PolicySample, critics: CriticTerms
    ) -> dict[str, Tensor]:
        losses = super()._losses(sample, next_sample, critics)
        return losses | {"loss_value": self._value_loss(sample)}

    def _value_loss(self, sample: PolicySample) -> Tensor:
        """Return the loss ``[*]`` of the value network."""
        with torch.no_grad():
            target = F.soft_value(self._reduced_q(sample), self._entropy_bonus(sample))
        return F.value_loss(_state_value(sample), target, self.critics.loss_function)

    def _next_value(
        self, transitions: SACTransitions, next_sample: PolicySample, reward_dim: int
    ) -> tuple[ValueEstimate, Tensor]:
        value = self._evaluate_value(transitions.next_states, f"target_{VALUE}", reward_dim)
        if not next_sample.factors:
            return ValueEstimate(value), torch.zeros_like(value)
        return ValueEstimate(value), self._entropy_bonus(next_sample)

    def _actor_loss(self, sample: PolicySample) -> Tensor:
        baseline = F.weigh_rewards(_state_value(sample).detach(), self.critics.weights.value)
        return super()._actor_loss(sample) + baseline

    def _sample_policy(self, states: TensorDictBase) -> PolicySample:
        sample = super()._sample_policy(states)
        q = self._reduced_q(sample)
        state_value = self._evaluate_value(states, VALUE, q.shape[-1])
        return replace(sample, reduced_q=q, state_value=state_value)

    def _next_sample(self, transitions: SACTransitions) -> PolicySample:
        if self.policy_loss_steps != "first":
            return super()._next_sample(transitions)
        if not (self.return_estimator.sequential or self.entropy_centers):
            return PolicySample({}, transitions.next_states)  # the losses need no next sample
        with torch.no_grad():  # the losses need only the log-probability
            return super()._sample_policy(transitions.next_states)

    def _evaluate_value(self, states: TensorDictBase, name: str, reward_dim: int) -> Tensor:
        """Return the output ``[*, M]`` of the value network or of its target."""
        inputs = self._head_inputs(VALUE, self._normalize_states(states).copy(), name)
        params = getattr(self, f"{name}_params")
        with params.to_module(self.value_network, preserve_module_state=False):
            value = self._head(VALUE)(inputs).get(self.tensor_keys.value)
        check_critic_values(value.unsqueeze(0), (*states.batch_size, reward_dim), reward_dim, VALUE)
        return value.to(self._reference.dtype)

    def _diagnostics(
        self, sample: PolicySample, critics: CriticTerms, valid: Tensor | None
    ) -> dict[str, Tensor]:
        critic_statistics = super()._diagnostics(sample, critics, valid)
        return critic_statistics | value_statistics("v", _state_value(sample), valid)

    def _check_network_keys(self) -> None:
        super()._check_network_keys()
        in_keys = self.value_network.in_keys
        if unravel_key(self.tensor_keys.action) in map(unravel_key, in_keys):
            raise BatchError(
                f"value_network reads {in_keys}, and so the action {self.tensor_keys.action!r}: it "
                "values states, so let it read the observation alone"
            )
        check_writes(VALUE, self.value_network, self.tensor_keys.value, "value")

    def _default_out_keys(self) -> list[str]:
        keys = super()._default_out_keys()
        keys.insert(keys.index("loss_alpha") + 1, "loss_value")
        return keys + [f"v_{name}" for name in STATISTICS if self.diagnostics]


def _state_value(sample: PolicySample) -> Tensor:
    assert sample.state_value is not None
    return sample.state_value
