"""What critics write of a value: the value itself, or a distribution over atoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tensordict import NestedKey
from tensordict.nn import TensorDictModule
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac import functional as F
from rlkit_sac.functional.sac import LossFunction, reduce_critics
from rlkit_sac.modules.critics import VALUE_LOGITS
from rlkit_sac.objectives.sac.return_estimators import Target


class ScalarHead:
    """The values ``[…, M]`` themselves, one for each reward dimension.

    Attributes:
        written: the entry that the critics write; ``None`` for the accepted key's.
        diagnostics: the names of :meth:`further`.
    """

    written: ClassVar[NestedKey | None] = None
    diagnostics: ClassVar[tuple[str, ...]] = ()

    def scalar(self, q: Tensor) -> Tensor:
        """The value ``[…, M]`` that an output means."""
        return q

    def target(
        self, q: Tensor, weights: Tensor | None, expected: Callable[[Tensor], Tensor]
    ) -> Target:
        """What the outputs ``[R, *, (K,) M]`` of all target critics are for the live ones.

        Args:
            q: the outputs.
            weights: of a vector reward.
            expected: the expectation over the discrete actions.
        """
        return Target(expected(reduce_critics(q, weights, "min")))

    def loss(self, q: Tensor, target: Target, loss_function: LossFunction) -> Tensor:
        """The loss ``[R, *]`` of each critic's outputs ``[R, *, M]`` at a target."""
        return F.critic_loss(q, target.values, loss_function)

    def further(self, target: Target) -> dict[str, Tensor]:
        """Diagnostics ``[*]`` of this head."""
        return {}


class AtomHead(ScalarHead):
    """Logits ``[…, N]`` of a distribution over N atoms, under ``value_logits``.

    See :mod:`~rlkit_sac.functional.value_distribution`. The target is the whole distribution of the
    critic with the smaller mean, of each state by itself.
    """

    written = VALUE_LOGITS
    diagnostics = ("clipped_share",)

    def scalar(self, q: Tensor) -> Tensor:
        """The value ``[…, 1]`` that logits describe."""
        return F.distribution_mean(q)

    def target(
        self, q: Tensor, weights: Tensor | None, expected: Callable[[Tensor], Tensor]
    ) -> Target:
        """The atoms and their probabilities, over actions mixed as the policy chooses them."""
        lowest = self.scalar(q).argmin(0, keepdim=True).expand(1, *q.shape[1:])
        shares = expected(q.gather(0, lowest).squeeze(0).softmax(-1))
        return Target(F.value_atoms(q.shape[-1], q).expand_as(shares), shares)

    def loss(self, q: Tensor, target: Target, loss_function: LossFunction) -> Tensor:
        """The cross-entropy ``[R, *]`` of each critic's logits to the target over the atoms."""
        projected = F.project_values(target.values, target.shares, q.shape[-1])
        return F.distribution_loss(q, projected)

    def further(self, target: Target) -> dict[str, Tensor]:
        """The share of the target that is beyond the atoms."""
        return {"clipped_share": F.clipped_share(target.values, target.shares)}


def value_head(network: TensorDictModule) -> ScalarHead:
    """The head of a critic, by what it writes."""
    return AtomHead() if VALUE_LOGITS in map(unravel_key, network.out_keys) else ScalarHead()
