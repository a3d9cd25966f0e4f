"""What the losses with a discrete action have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictParams
from torch import Tensor, nn
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError
from rlkit_sac.functional import (
    boltzmann_log_prob,
    expected_value,
    sample_categorical,
    taken_value,
    weigh_rewards,
)
from rlkit_sac.modules import BoltzmannPolicy
from rlkit_sac.modules.priors.parts import PartwisePrior
from rlkit_sac.objectives.checks.batch import check_index
from rlkit_sac.objectives.contract import check_choice
from rlkit_sac.objectives.sac.factors import PolicySample, factor_key
from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss
from rlkit_sac.objectives.sac.target_entropy import (
    TargetEntropy,
    named_discrete_target_entropy,
    resolve_discrete_target_entropy,
)
from rlkit_sac.objectives.sac.target_kld import default_discrete_kld, resolve_discrete_target_kld

DiscreteEntropy = Literal["expected", "sampled"]


@dataclass(frozen=True)
class DiscreteSample(PolicySample):
    """A draw from a policy with a discrete factor, whose expectations are taken exactly.

    Attributes:
        log_probs: of each discrete action, ``[*, K]``.
    """

    log_probs: Tensor


DiscreteSampleT = TypeVar("DiscreteSampleT", bound=DiscreteSample)


class DiscreteFactorLoss(SoftActorCriticLoss[DiscreteSampleT]):
    """Critics with one value for each discrete action, and the policy these amount to."""

    @dataclass
    class _AcceptedKeys(SoftActorCriticLoss._AcceptedKeys):
        action_value: NestedKey = "action_value"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    value_role = "action_value"
    value_dims = 2

    #: Name of the discrete factor.
    discrete_factor = ""

    #: K of the action spec, ``None`` without one.
    num_actions: int | None

    def _set_discrete_entropy(self, discrete_entropy: DiscreteEntropy) -> None:
        check_choice("discrete_entropy", discrete_entropy, ("expected", "sampled"))
        self.discrete_entropy = discrete_entropy

    def _keep_spec(self, spec: TensorSpec | None) -> None:
        self._discrete_spec = spec
        self.num_actions = None if spec is None else spec.space.n

    def _resolve_discrete(self, option: TargetEntropy, min_prob: float) -> float | None:
        self._entropy_option, self._min_prob = option, min_prob
        return resolve_discrete_target_entropy(option, self._discrete_spec, min_prob=min_prob)

    def _resolve_discrete_kld(self, target: float | None, prior: nn.Module) -> float | None:
        num_actions = self.num_actions
        if num_actions is None and isinstance(prior, PartwisePrior):
            num_actions = prior.num_actions()
        return resolve_discrete_target_kld(target, num_actions, prior)

    # ------------------------------------------------------------------ the policy

    def _boltzmann(self, value: Tensor, log_prior: Tensor | None) -> Tensor:
        """Log-probabilities ``[*, K]`` under reduced values ``[*, K, M]``; no gradient."""
        weighed = weigh_rewards(value.detach(), self.reward_weights)
        if log_prior is not None:
            log_prior = log_prior.detach()
        return boltzmann_log_prob(weighed, self.alpha(self.discrete_factor), log_prior)

    def _log_prior(
        self, states: TensorDictBase, num_actions: int, action_key: NestedKey
    ) -> Tensor | None:
        """Log-probabilities ``[*, K]`` of the discrete actions under the prior, if there is one."""
        prior = self.priors.get(self.discrete_factor)
        if prior is None:
            return None
        target = getattr(self, factor_key("target_entropy", self.discrete_factor))
        if target is not None:  # without an action spec only the critics tell K
            resolve_discrete_target_kld(-target, num_actions, prior.prior)
        return prior.log_prob_of_each_action(states, num_actions, action_key)

    def _discrete_scores(
        self, log_probs: Tensor, log_prior: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the entropy ``[*]`` of a policy, or the log-probability of one sample of it.

        And the same expectation, or the same sample's, under the prior.
        """
        log_probs = log_probs.detach()
        if self.discrete_entropy == "expected":
            probs = log_probs.exp()

            def score(each: Tensor) -> Tensor:
                return (probs * each).sum(-1)

        else:
            index = sample_categorical(log_probs).unsqueeze(-1)

            def score(each: Tensor) -> Tensor:
                return each.gather(-1, index).squeeze(-1)

        if log_prior is None:
            return score(log_probs), {}
        return score(log_probs), {self.discrete_factor: score(log_prior.detach())}

    def _boltzmann_policy(self, action_key: NestedKey) -> TensorDictModuleBase:
        factor = self.discrete_factor
        return BoltzmannPolicy(
            self.get_stateful_net("qvalue_network"),
            getattr(self, factor_key("log_alpha", factor)),
            self.temperatures[factor],
            reward_weights=self._reward_weights,
            reduction=self.policy_reduction,
            prior=self.priors.get(factor),
            action_key=action_key,
            action_value_key=self.tensor_keys.action_value,
        )

    def _target_entropy(self, factor: str, sample: PolicySample) -> float | Tensor:
        known: float | None = getattr(self, factor_key("target_entropy", factor))
        if known is not None:
            return known
        assert isinstance(sample, DiscreteSample)
        num_actions = sample.log_probs.shape[-1]
        if factor in sample.log_prior:
            return -default_discrete_kld(num_actions)
        assert isinstance(self._entropy_option, str)
        return named_discrete_target_entropy(self._entropy_option, num_actions, self._min_prob)

    # ------------------------------------------------------------------ values

    def _action_values(self, inputs: TensorDictBase, params: TensorDictParams) -> Tensor:
        """Values ``[R, *, K, M]`` of all critics with the given parameters."""
        q = self._critic_values(inputs, params)
        if q.ndim == inputs.ndim + self.value_dims:
            q = q.unsqueeze(-1)
        if q.ndim != inputs.ndim + self.value_dims + 1:
            raise BatchError(
                f"qvalue_network wrote values of the shape {list(q.shape[1:])} for a batch "
                f"{list(inputs.batch_size)}: wanted {[*inputs.batch_size]} and K values, one for "
                "each discrete action; for vector rewards K x M"
            )
        if self.num_actions is not None and self.num_actions != q.shape[-2]:
            raise BatchError(
                f"qvalue_network wrote values of {q.shape[-2]} discrete actions, but the action "
                f"spec has {self.num_actions}"
            )
        return q

    def _taken(self, q: Tensor, action: Tensor, key: NestedKey) -> Tensor:
        """Values ``[R, *, M]`` of the discrete actions of the batch."""
        check_index(action, q.shape[-2], q.shape[1:-2], key)
        return taken_value(q, action.long())

    def _expected_value(self, value: Tensor, sample: DiscreteSampleT) -> Tensor:
        return expected_value(value, sample.log_probs.detach().exp())
