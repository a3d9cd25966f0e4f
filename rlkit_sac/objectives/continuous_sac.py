"""Soft actor-critic for continuous actions."""

from __future__ import annotations

from tensordict import TensorDictBase
from torchrl.data import TensorSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules.distributions.utils import rsample_and_log_prob

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.objectives.soft_actor_critic import PolicySample, SoftActorCriticLoss
from rlkit_sac.objectives.target_entropy import (
    TargetEntropy,
    action_leaf,
    resolve_continuous_target_entropy,
)


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

    where each loss trains its own parameters alone. Source: Haarnoja et al. 2018
    (arXiv:1812.05905), eq. 5-9 and 18, without the factor 1/2 of eq. 5. A time limit
    (``truncated``) bootstraps; only ``terminated`` does not.

    Reads, with batch shape ``[*]`` (for sequences ``[*, T]``): ``observation`` and whatever else
    the networks read, here and under ``next``; ``action`` ``[*, D]``; ``("next", "reward")``
    ``[*, 1]`` or ``[*, M]``; ``("next", "terminated")`` ``[*, 1]``; ``("next", "done")`` ``[*, 1]``
    for sequences; ``priority_weight`` ``[*]`` and ``("collector", "mask")`` ``[*]`` if present.

    Writes into the batch the priority ``td_error`` ``[*]``, :math:`\sqrt{\sum_i (Q_i - y)^2}`
    with the mean square over reward dimensions, and 0 in invalid steps. Returns ``loss_actor``,
    ``loss_qvalue``, ``loss_alpha``, ``alpha`` and ``entropy`` (nats), and the critics' statistics
    with ``diagnostics=True``.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor``; its distribution gives reparameterized
            samples and log-probabilities ``[*]`` (summed over the action's dimensions).
        qvalue_network: writes ``state_action_value`` ``[*, 1]`` (``[*, M]`` for vector rewards). A
            single module is copied, each copy initialized afresh; the modules of a list are kept as
            they are. A trunk shared with the actor becomes the critics' own copy.

    Keyword Args:
        num_qvalue_nets: number of critics made of a single module. Default 2.
        gamma: discount in [0, 1]. Default 0.99.
        loss_function: ``"l2"`` (default), ``"l1"`` or ``"smooth_l1"`` distance to the target,
            summed over critics, averaged over reward dimensions.
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
        action_spec: spec of one action; default the actor's.
        dqda_clipping: bound x on every element of each sample's
            :math:`\partial Q/\partial a` in the actor loss. Default off.
        use_entropy_reward: whether the targets hold the entropy. Default ``True``.
        normalize_entropy_reward: subtract a running mean of :math:`\log\pi` from it in the targets.
        policy_loss_steps: ``"first"`` (default) or ``"all"``: actor and temperature losses at the
            next states too, added to those at the states; the critic loss stays. (ALF averages
            both over its two steps, with no critic loss at the second: the same relative weights.)
        reduction: ``"mean"`` (default), ``"sum"`` or ``"none"``, over the valid steps.
        scalar_output_mode: with ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars.
        use_prioritized_weights: whether losses are weighted by ``priority_weight``
            (:math:`\sum wl/\sum w`). Default ``"auto"``: where it is present.
        deactivate_vmap: call the critics one after another.
        diagnostics: add statistics of the critics to the output.

    Raises:
        ConfigError: for an impossible option or network.
        BatchError: in the call, for a missing entry or a wrong shape.

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

    target_entropy: float | None = None

    def _set_actor_keys(self) -> None:
        if not hasattr(self.actor_network, "get_dist"):
            raise ConfigError(
                f"actor_network is a {type(self.actor_network).__name__} without get_dist(): pass "
                "a TorchRL ProbabilisticActor"
            )
        (action,) = self.actor_network.dist_sample_keys
        self.set_keys(action=action, log_prob=self.actor_network.log_prob_keys[0])

    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        key = self.tensor_keys.action
        passed, own = action_leaf(given, key), action_leaf(of_actor, key)
        if passed is not None and own is not None and passed.shape != own.shape:
            raise ConfigError(
                f"action_spec has the shape {list(passed.shape)}, but the actor's actions have "
                f"{list(own.shape)}: pass the spec of one action (for a batched environment "
                "env.action_spec_unbatched)"
            )
        self._action_spec = own if passed is None else passed

    def _set_target_entropies(self, option: TargetEntropy, min_prob: float) -> None:
        self.target_entropy = resolve_continuous_target_entropy(
            option, self._action_spec, min_prob=min_prob
        )

    def _sample_policy(self, states: TensorDictBase) -> PolicySample:
        with (
            set_exploration_type(ExplorationType.RANDOM),
            self.actor_network_params.to_module(self.actor_network, preserve_module_state=False),
        ):
            dist = self.actor_network.get_dist(states.copy())
            action, log_prob = rsample_and_log_prob(dist)
        if log_prob.shape != states.batch_size:
            raise BatchError(
                f"the actor's {type(dist).__name__} gives log-probabilities of the shape "
                f"{list(log_prob.shape)} for a batch {list(states.batch_size)}: they must be "
                "summed over the action's dimensions (event dimension 1, Independent)"
            )
        return PolicySample(action, {"": log_prob})
