"""Ensembles of critics that describe a value by a distribution, and the choice of a kind."""

from __future__ import annotations

from typing import Any

from tensordict import NestedKey
from tensordict.nn import TensorDictModule
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac import functional as F
from rlkit_sac.modules.critics import VALUE_LOGITS
from rlkit_sac.objectives.sac.critics import ActionValueCritics, Critics
from rlkit_sac.objectives.sac.return_estimators import Target


class CategoricalCritics(Critics):
    """An ensemble of critics that describe each value by a distribution over N atoms.

    They write logits ``[*, N]`` under ``value_logits``, in place of the M values of other critics,
    see :mod:`~rlkit_sac.functional.value_distribution`. The target is the whole distribution of the
    critic with the smaller mean, of each state by itself.
    """

    further_diagnostics = ("clipped_share",)

    @property
    def written(self) -> NestedKey:
        """The entry of the logits."""
        return VALUE_LOGITS

    def scalar(self, q: Tensor) -> Tensor:
        """The value ``[…, 1]`` that logits ``[…, N]`` describe."""
        return F.distribution_mean(q)

    def target_of(self, q: Tensor, log_probs: Tensor | None) -> Target:
        """The atoms and their probabilities, over actions mixed as the policy chooses them."""
        lowest = self.scalar(q).argmin(0, keepdim=True).expand(1, *q.shape[1:])
        weights = self.expected(q.gather(0, lowest).squeeze(0).softmax(-1), log_probs)
        return Target(F.value_atoms(q.shape[-1], q).expand_as(weights), weights)

    def further(self, target: Target) -> dict[str, Tensor]:
        """The share of the target that is beyond the atoms."""
        return {"clipped_share": F.clipped_share(target.values, target.shares)}

    def loss(self, q: Tensor, target: Target) -> Tensor:
        """The cross-entropy ``[R, *]`` of each critic's logits to the target over the atoms."""
        projected = F.project_values(target.values, target.shares, q.shape[-1])
        return F.distribution_loss(q, projected)


class CategoricalActionValueCritics(CategoricalCritics, ActionValueCritics):
    """The same for K discrete actions, with logits ``[*, K, N]``."""


def critics_kind(network: TensorDictModule, *, of_each_action: bool = False) -> type[Any]:
    """The class of the critics that a network is one of, by what it writes.

    Args:
        network: one of the critics.
        of_each_action: whether it writes a value of each discrete action.
    """
    if VALUE_LOGITS in map(unravel_key, network.out_keys):
        return CategoricalActionValueCritics if of_each_action else CategoricalCritics
    return ActionValueCritics if of_each_action else Critics
