"""Soft actor-critic with a value network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import soft_value, value_loss, weigh_rewards
from rlkit_sac.functional.sac import CriticReduction, LossFunction
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.batch import check_values
from rlkit_sac.objectives.checks.networks import check_member
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode
from rlkit_sac.objectives.sac.critics import Critics, SACTransitions
from rlkit_sac.objectives.sac.diagnostics import statistic_keys, value_statistics
from rlkit_sac.objectives.sac.draws import PolicyDraw
from rlkit_sac.objectives.sac.factors import ContinuousFactor
from rlkit_sac.objectives.sac.options import NUM_CRITICS, PolicyLossSteps, SACOptions
from rlkit_sac.objectives.sac.soft_actor_critic import CriticTerms, SoftActorCriticLoss
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy


class ValueSACLoss(SoftActorCriticLoss):
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

    where each loss trains its own parameters only, sg stops gradients and the critics are the
    live ones: only the value network has a target network. V(s) in the actor loss changes its
    value, not its gradient. Source: Haarnoja et al. 2018 (arXiv:1801.01290), eq. 5-13, without the
    factor 1/2 of eq. 5 and 7 and with the two critics of its section 4.2; the temperature is
    that of arXiv:1812.05905. A time limit (``truncated``) bootstraps; only ``terminated`` does not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks and a prior read, here and under ``next`` (``prev_action`` and ``is_init`` only
    here); ``action`` ``[*, D]``; ``("next", "reward")`` ``[*, 1]`` or ``[*, M]``;
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
            single module is copied, each copy newly initialized; the modules of a list are used as
            given. A trunk shared with the actor becomes the critics' own copy.
        value_network: reads no action and writes ``state_value`` ``[*, 1]`` (``[*, M]``). A trunk
            shared with the actor becomes its own copy.

    All keyword arguments are documented in :class:`SACOptions`.

    Raises:
        ConfigError: for an invalid option or network.
        BatchError: in a call, for a missing entry or a wrong shape.

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

    @dataclass
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        state_action_value: NestedKey = "state_action_value"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    factor_kinds = (("", ContinuousFactor),)
    critics = Critics()
    target_networks = ("value_network",)

    value_network: TensorDictModule
    value_network_params: TensorDictParams
    target_value_network_params: TensorDictParams
    target_entropy: float | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        value_network: TensorDictModule,
        *,
        num_qvalue_nets: int = NUM_CRITICS,
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
        burn_in: int = 0,
        deactivate_vmap: bool = False,
        diagnostics: bool = False,
    ) -> None:
        options = SACOptions.of_call(locals())
        super().__init__(actor_network, qvalue_network, options)
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
        self._find_memory("value_network")

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the value network alone, ``loss_value`` of :meth:`forward`.

        The running mean of ``normalize_entropy_reward`` moves in :meth:`forward` and
        :meth:`qvalue_loss` only.

        Args:
            tensordict: ``[*]``, not modified.

        Returns:
            The loss, and ``alpha``, ``entropy`` and, with a prior, ``kl``.
        """
        read = self._read(tensordict)
        draw = self._draw(read.states)
        loss = self._reduce_alone(self._further_losses(draw)["loss_value"], tensordict)
        return loss, self._scalars(draw, read.valid)

    # ------------------------------------------------------------------ networks and keys

    def _networks(self) -> Iterable[TensorDictModuleBase]:
        return [*super()._networks(), self.value_network]

    def _network_keys(self) -> list[NestedKey]:
        return [*super()._network_keys(), *self._keys_of("value_network")]

    def _check_network_keys(self) -> None:
        super()._check_network_keys()
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

    def _loss_keys(self) -> list[str]:
        return [*super()._loss_keys(), "loss_value"]

    def _default_out_keys(self) -> list[str]:
        return [*super()._default_out_keys(), *(statistic_keys("v") if self.diagnostics else [])]

    # ------------------------------------------------------------------ values and losses

    def _draw(self, states: TensorDictBase) -> PolicyDraw:
        draw = super()._draw(states)
        value = self._policy_value(draw)
        state_value = self._state_value(states, "value_network", value.shape[-1])
        return replace(draw, value=value, state_value=state_value)

    def _next_draw(self, read: SACTransitions) -> PolicyDraw | None:
        if self.policy_loss_steps != "first":
            return self._draw(read.next_states)
        if not (self.lmbda or self.entropy_centers):
            return None
        with torch.no_grad():  # the log-probability is all that is asked for
            return super()._draw(read.next_states)

    def _state_value(self, states: TensorDictBase, name: str, reward_dim: int) -> Tensor:
        """The output ``[*, M]`` of the value network or of its target."""
        inputs = self._head_inputs("value_network", self._normalized(states).copy(), name)
        params = getattr(self, f"{name}_params")
        with params.to_module(self.value_network, preserve_module_state=False):
            value = self._head("value_network")(inputs).get(self.tensor_keys.value)
        check_values(
            value.unsqueeze(0), (*states.batch_size, reward_dim), reward_dim, "value_network"
        )
        return value.to(self.compute_dtype)

    def _next_value(
        self, read: SACTransitions, next_draw: PolicyDraw | None, reward_dim: int
    ) -> tuple[Tensor, Tensor]:
        value = self._state_value(read.next_states, "target_value_network", reward_dim)
        if next_draw is None:
            return value, torch.zeros_like(value)
        return value, self._entropy_bonus(next_draw).unsqueeze(-1)

    def _actor_loss_at(self, draw: PolicyDraw) -> Tensor:
        """Loss ``[*]`` with the baseline V(s), which changes its value, not its gradient."""
        assert draw.state_value is not None
        baseline = weigh_rewards(draw.state_value.detach(), self.reward_weights)
        return super()._actor_loss_at(draw) + baseline

    def _further_losses(self, draw: PolicyDraw) -> dict[str, Tensor]:
        assert draw.value is not None
        assert draw.state_value is not None
        with torch.no_grad():
            target = soft_value(draw.value, self._entropy_bonus(draw).unsqueeze(-1))
        return {"loss_value": value_loss(draw.state_value, target, self.loss_function)}

    def _statistics(
        self, critics: CriticTerms, draw: PolicyDraw, valid: Tensor | None
    ) -> dict[str, Tensor]:
        assert draw.state_value is not None
        of_critics = super()._statistics(critics, draw, valid)
        return of_critics | value_statistics("v", draw.state_value, valid)
