"""Soft actor-critic with a state-value network, its first form."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.objectives.utils import distance_loss

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.functional.critics import CriticReduction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.batch import check_values
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss, ContinuousSample
from rlkit_sac.objectives.sac.critics import DEFAULT_COUNT, check_member
from rlkit_sac.objectives.sac.diagnostics import statistic_keys, value_statistics
from rlkit_sac.objectives.sac.soft_actor_critic import LossFunction, PolicyLossSteps
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy


@dataclass(frozen=True)
class ValueSample(ContinuousSample):
    """A draw from a continuous policy, and what critics and value network say of it.

    Attributes:
        value: ``[*, M]``, the pessimistic value of the live critics, a function of ``action``.
        state_value: ``[*, M]``, of the live value network.
    """

    value: Tensor
    state_value: Tensor


class ValueSACLoss(ContinuousSACLoss):
    r"""Losses of soft actor-critic with a value network V(s), for continuous actions.

    The critics regress on the target value network; the value network regresses on the critics.
    With one sample :math:`a \sim \pi(\cdot|s)` and the minimum over R critics,

    .. math::
        y &= r + \gamma\,(1 - \text{terminated})\,\bar V(s') \\
        L_Q &= \textstyle\sum_i \operatorname{mean}_B (Q_i(s, a_B) - y)^2 \\
        L_V &= \operatorname{mean}_B \left(V(s)
            - \operatorname{sg}\left(\min_i Q_i(s, a) - \alpha \log\pi(a|s)\right)\right)^2 \\
        L_\pi &= \operatorname{mean}_B \left[\alpha \log\pi(a|s)
            - \left(\min_i Q_i(s, a) - \operatorname{sg}(V(s))\right)\right] \\
        L_\alpha &= \operatorname{mean}_B
            \left[\log\alpha \cdot (-\log\pi(a|s) - \bar{\mathcal H})\right]

    where each loss trains its own parameters alone, sg stops gradients and the critics are the
    live ones: only the value network has a target network. V(s) in the actor loss changes its
    value, not its gradient. Source: Haarnoja et al. 2018 (arXiv:1801.01290), eq. 5-13, without the
    factor 1/2 of eq. 5 and 7 and with the two critics of its section 4.2; the temperature is
    that of arXiv:1812.05905. A time limit (``truncated``) bootstraps; only ``terminated`` does not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` here
    alone); ``action`` ``[*, D]``; ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``;
    ``("next", "terminated")`` ``[*, 1]``; ``("next", "done")`` ``[*, 1]`` for sequences;
    ``priority_weight`` ``[*]`` and ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha``, ``loss_value``, ``alpha`` and ``entropy`` (nats), with a prior
    ``kl`` (nats), and the statistics of critics and value network with ``diagnostics=True``.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor``; its distribution gives reparameterized
            samples and log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: writes ``state_action_value`` ``[*, 1]`` (``[*, M]`` for vector rewards). A
            single module is copied, each copy initialized afresh; the modules of a list are kept as
            they are. A trunk shared with the actor becomes the critics' own copy.
        value_network: reads no action and writes ``state_value`` ``[*, 1]`` (``[*, M]``). A trunk
            shared with the actor becomes its own copy.

    Keyword Args:
        num_qvalue_nets: number of critics made of a single module. Default 2.
        policy_reduction: what policy and value network go by, the ``"min"`` (default) or the
            ``"mean"`` of the critics.
        gamma: discount in [0, 1]. Default 0.99.
        loss_function: ``"l2"`` (default), ``"l1"`` or ``"smooth_l1"`` distance to the target, in
            ``loss_qvalue``, summed over critics, and ``loss_value``; averaged over reward
            dimensions.
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
        use_entropy_reward: whether the targets of the value network hold the entropy. Default
            ``True``.
        normalize_entropy_reward: subtract a running mean of :math:`\log\pi` from it there.
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
    >>> from rlkit_sac.modules import state_action_critic, state_critic, tanh_gaussian_actor
    >>> loss = ValueSACLoss(
    ...     tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1), state_critic(3)
    ... )
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
    ['alpha', 'entropy', 'loss_actor', 'loss_alpha', 'loss_qvalue', 'loss_value']
    """

    target_critics = False

    value_network: TensorDictModule
    value_network_params: TensorDictParams
    target_value_network_params: TensorDictParams

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        value_network: TensorDictModule,
        *,
        num_qvalue_nets: int = DEFAULT_COUNT,
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
        super().__init__(
            actor_network,
            qvalue_network,
            num_qvalue_nets=num_qvalue_nets,
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
            target_kld_per_dim=target_kld_per_dim,
            action_spec=action_spec,
            dqda_clipping=dqda_clipping,
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
        if not hasattr(value_network, "in_keys"):
            raise ConfigError(
                f"value_network is a {type(value_network).__name__} without in_keys: wrap it in a "
                "TensorDictModule that reads the observation"
            )
        check_member(value_network, "value_network")
        of_actor = {id(parameter) for parameter in actor_network.parameters()}
        if any(id(parameter) in of_actor for parameter in value_network.parameters()):
            value_network = deepcopy(value_network)
        self.convert_to_functional(value_network, "value_network", create_target_params=True)

    def train(self, mode: bool = True) -> ValueSACLoss:
        """Set training mode here and in the networks (dropout)."""
        super().train(mode)
        self.value_network.train(mode)
        return self

    # ------------------------------------------------------------------ keys

    def _network_keys(self) -> list[NestedKey]:
        read = [*super()._network_keys(), *map(unravel_key, self.value_network.in_keys)]
        return list(dict.fromkeys(read))

    def _check_critic_keys(self) -> None:
        super()._check_critic_keys()
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

    def _default_out_keys(self) -> list[str]:
        losses, scalars = super()._default_out_keys()[:3], super()._default_out_keys()[3:]
        return [*losses, "loss_value", *scalars, *(statistic_keys("v") if self.diagnostics else [])]

    # ------------------------------------------------------------------ values

    def _sample_policy(self, states: TensorDictBase) -> ValueSample:
        drawn = super()._sample_policy(states)
        value = self._policy_value(states, drawn)
        state_value = self._state_value(states, self.value_network_params, value.shape[-1])
        return ValueSample(**vars(drawn), value=value, state_value=state_value)

    def _next_sample(self, next_states: TensorDictBase) -> ContinuousSample | None:
        if self.policy_loss_steps != "first":
            return self._sample_policy(next_states)
        if not (self.value_estimator.lmbda or self.entropy_centers):
            return None
        with torch.no_grad():  # the log-probability is all that is asked for
            return super()._sample_policy(next_states)

    def _state_value(
        self, states: TensorDictBase, params: TensorDictParams, reward_dim: int
    ) -> Tensor:
        """What the value network writes for the states with the given parameters, ``[*, M]``."""
        with params.to_module(self.value_network, preserve_module_state=False):
            value = self.value_network(self._normalized(states).copy()).get(self.tensor_keys.value)
        check_values(
            value.unsqueeze(0), (*states.batch_size, reward_dim), reward_dim, "value_network"
        )
        return value

    def _next_value(
        self,
        next_states: TensorDictBase,
        next_sample: ContinuousSample | None,
        reward_dim: int,
    ) -> tuple[Tensor, Tensor]:
        value = self._state_value(next_states, self.target_value_network_params, reward_dim)
        if next_sample is None:
            return value, torch.zeros_like(value)
        return value, self._entropy_bonus(next_sample).unsqueeze(-1)

    # ------------------------------------------------------------------ losses

    def _actor_loss(self, states: TensorDictBase, sample: ContinuousSample) -> Tensor:
        r"""Loss ``[*]``: :math:`\alpha \log\pi(a|s) - (Q_{min}(s, a) - V(s))`."""
        assert isinstance(sample, ValueSample)
        baseline = weigh_rewards(sample.state_value.detach(), self.reward_weights)
        return super()._actor_loss(states, sample) + baseline

    def _policy_value(self, states: TensorDictBase, sample: ContinuousSample) -> Tensor:
        if isinstance(sample, ValueSample):
            return sample.value
        return super()._policy_value(states, sample)

    def _further_losses(
        self, states: TensorDictBase, sample: ContinuousSample
    ) -> dict[str, Tensor]:
        assert isinstance(sample, ValueSample)
        with torch.no_grad():
            target = sample.value + self._entropy_bonus(sample).unsqueeze(-1)
        distance = distance_loss(sample.state_value, target, self.loss_function)
        return {"loss_value": distance.mean(-1)}

    def _further_diagnostics(
        self, sample: ContinuousSample, valid: Tensor | None
    ) -> dict[str, Tensor]:
        assert isinstance(sample, ValueSample)
        return value_statistics("v", sample.state_value, valid)
