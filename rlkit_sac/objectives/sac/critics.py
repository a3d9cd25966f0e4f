"""Ensembles of critics, as the losses evaluate them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor
from torchrl.data import TensorSpec

from rlkit_sac import functional as F
from rlkit_sac.errors import BatchError
from rlkit_sac.functional.sac import CriticReduction, LossFunction, reduce_critics
from rlkit_sac.modules.allowed_actions import read_action_mask
from rlkit_sac.modules.critics import VALUE_LOGITS
from rlkit_sac.modules.masked_critic import MaskedCritic, ParameterMask
from rlkit_sac.modules.normalization import ObservationNormalizer
from rlkit_sac.modules.reward_weights import RewardWeights
from rlkit_sac.objectives.checks import check_action, check_index, check_values
from rlkit_sac.objectives.members import Members, evaluate_members
from rlkit_sac.objectives.memory import RecurrentNetwork
from rlkit_sac.objectives.sac.return_estimators import Target
from rlkit_sac.objectives.transitions import Transitions, detached

CRITICS, TARGET_CRITICS = "qvalue_network", "target_qvalue_network"


class TargetCritics(NamedTuple):
    """Target critics, all of them or some.

    Attributes:
        members: the networks.
        indices: of them; ``None`` for all.
    """

    members: Members
    indices: Tensor | None


class CriticTerms(NamedTuple):
    """The terms of the critics' loss.

    Attributes:
        q: values ``[R, *, M]`` of the live critics for the actions of the batch.
        target: ``[*, M]``.
        losses: of each critic, ``[R, *]``.
        td_error: the priority ``[*]``, 0 in invalid steps.
        further: what the head of the critics tells besides, each ``[*]``.
    """

    q: Tensor
    target: Tensor
    losses: Tensor
    td_error: Tensor
    further: dict[str, Tensor]


@dataclass(frozen=True)
class SACTransitions(Transitions):
    """A batch ``[*]`` that has been checked.

    Attributes:
        targets: the target critics whose memories read it; ``None`` without memories.
    """

    targets: TargetCritics | None


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


@dataclass(frozen=True, eq=False)
class Critics:
    r"""An ensemble :math:`Q_i(s, a)`, or :math:`Q_i(s, c)_k` with values for K discrete actions.

    It holds no parameters: they come with each call, as
    :class:`~rlkit_sac.objectives.members.Members`.

    Attributes:
        network: one of the critics, without parameters.
        keys: of the loss; ``set_keys`` may change them later.
        encoded: the entries of what the critics share an encoder of, which they train.
        memory: the parts of a network with a memory.
        normalizer: of observations.
        weights: of a vector reward.
        loss_function: distance to the target.
        action_role: the accepted key of the continuous action that the critics read, or ``None``.
        index_role: the accepted key of the discrete action whose values the critics write;
            ``None`` for critics that write one value.
        spec: of the discrete action, if known.
        mask: which dimensions of the continuous action each discrete action reads.
    """

    network: TensorDictModule
    keys: Any
    encoded: Sequence[NestedKey]
    memory: RecurrentNetwork | None
    normalizer: ObservationNormalizer | None
    weights: RewardWeights
    loss_function: LossFunction
    action_role: str | None
    index_role: str | None
    spec: TensorSpec | None
    mask: ParameterMask | None

    @cached_property
    def head(self) -> ScalarHead:
        """What an output of the critics means."""
        over_atoms = VALUE_LOGITS in map(unravel_key, self.network.out_keys)
        return AtomHead() if over_atoms else ScalarHead()

    @property
    def role(self) -> str:
        """The accepted key under which the critics write."""
        return "state_action_value" if self.index_role is None else "action_value"

    @property
    def value_key(self) -> NestedKey:
        """Where the critics write their values."""
        return unravel_key(getattr(self.keys, self.role))

    @property
    def action_key(self) -> NestedKey:
        """Where the critics read the continuous action."""
        assert self.action_role is not None
        return unravel_key(getattr(self.keys, self.action_role))

    def check_keys(self) -> None:
        """Refuse critics that do not read the action that the actor writes.

        Raises:
            BatchError: naming the keys.
        """
        read, role = self.network.in_keys, self.action_role
        if role is not None and self.action_key not in map(unravel_key, read):
            name = "action" if role == "action" else "continuous action"
            raise BatchError(
                f"qvalue_network reads {read}, not the {name} {self.action_key!r}, which is the "
                f"key the actor writes unless set_keys({role}=...) named another: let actor, "
                "critics and batch use one key"
            )

    def values(
        self,
        members: Members,
        inputs: TensorDictBase,
        *,
        remembered: str = CRITICS,
        masked: bool = True,
    ) -> Tensor:
        """Outputs ``[R, *, (K,) M]`` of some critics, of each discrete action where there are any.

        Args:
            members: the live or the target critics. Where no parameter has a gradient, neither
                have their memories and the encoder.
            inputs: ``[*]``, the critics' inputs.
            remembered: the entry of what their memories remember.
            masked: whether with a mask the value of each discrete action reads its own parameters.

        Raises:
            BatchError: for an output under another key, or of another shape.
        """
        network, states, batch_size = self.network, inputs, inputs.batch_size
        key = self.head.written or self.value_key
        for needed in (key, self.value_key):
            if needed not in map(unravel_key, network.out_keys):
                raise BatchError(
                    f"qvalue_network writes {network.out_keys}, not {needed!r}: name its output "
                    f"so, or name the right one with set_keys({self.role}=...)"
                )
        if self.normalizer is not None and self.normalizer.key in inputs.keys():  # noqa: SIM118
            inputs = self.normalizer.normalized(inputs)
        if self.encoded or self.memory is not None:
            frozen = True not in [each.requires_grad for each in members.params.values(True, True)]
            inputs = detached(inputs, self.encoded if frozen else ())
        if self.memory is not None:
            inputs = self.memory.head_inputs_of_each(inputs, remembered, detached=frozen)
            network = self.memory.head
        mask = None if self.mask is None or not masked else (self.action_key, self.mask)
        q = evaluate_members(members, network, inputs, key, shared=self.memory is None, mask=mask)
        if self.index_role is not None:
            q = self._of_each_action(q, batch_size)
            if (mask_key := self.keys.action_mask) is not None:
                allowed = read_action_mask(states, mask_key, q[0, ..., 0])
                assert allowed is not None
                q = F.without_forbidden(q, allowed.unsqueeze(-1), dim=-2)
        return q.to(members.dtype)  # which autocast may have lowered

    def of_taken(
        self,
        members: Members,
        states: TensorDictBase,
        batch: TensorDictBase,
        *,
        like: Tensor | None = None,
        q: Tensor | None = None,
    ) -> Tensor:
        """Outputs ``[R, *, M]`` of the live critics for the action of the batch.

        Critics with a mask are evaluated once, with the parameters of the discrete action of the
        batch: their outputs for the others are not those of :meth:`values`.

        Args:
            members: the live critics.
            states: of the batch.
            batch: with its actions.
            like: an action of the policy at the states; ``None`` if no action is continuous.
            q: what :meth:`values` returned, if the critics read no action.
        """
        index = index_key = None
        if self.index_role is not None:
            index_key = getattr(self.keys, self.index_role)
            index = batch.get(index_key)
        if q is None:
            action = batch.get(self.action_key)
            assert like is not None
            check_action(action, like, self.action_key)
            if self.mask is not None:
                assert index is not None
                check_index(index, len(self.mask.mask), states.batch_size, index_key)
                action = torch.where(self.mask.mask[index.long()].bool(), action, 0.0)
            inputs = states.copy().set(self.action_key, action)
            q = self.values(members, inputs, masked=False)
        if index is None:
            return q
        check_index(index, q.shape[-2], q.shape[1:-2], index_key)
        return F.taken_value(q, index.long())

    def _of_each_action(self, q: Tensor, batch_size: torch.Size) -> Tensor:
        """Outputs ``[R, *, K, M]``, with M = 1 where it was left out."""
        if q.ndim == len(batch_size) + 2:
            q = q.unsqueeze(-1)
        if q.ndim != len(batch_size) + 3:
            raise BatchError(
                f"qvalue_network wrote values of the shape {list(q.shape[1:])} for a batch "
                f"{list(batch_size)}: wanted {[*batch_size]} and K values, one for "
                "each discrete action; for vector rewards K x M"
            )
        if self.spec is not None and self.spec.space.n != q.shape[-2]:
            raise BatchError(
                f"qvalue_network wrote values of {q.shape[-2]} discrete actions, but the action "
                f"spec has {self.spec.space.n}"
            )
        return q

    def expected(self, value: Tensor, log_probs: Tensor | None) -> Tensor:
        """The expectation ``[*, M]`` of reduced values ``[*, (K,) M]`` under the policy.

        Args:
            value: reduced over the critics.
            log_probs: of the discrete actions, ``[*, K]``.
        """
        if self.index_role is None:
            return value
        assert log_probs is not None
        return F.expected_value(value, log_probs.detach().exp())

    def reduced(self, q: Tensor, reduction: CriticReduction) -> Tensor:
        """The minimum or mean ``[*, (K,) M]`` over the critics, in each reward dimension."""
        return reduce_critics(self.head.scalar(q), self.weights.value, reduction)

    def targets(self, members: Members, count: int | None, order: Tensor | None) -> TargetCritics:
        """All target critics, or a random subset, without replacement.

        Args:
            members: all.
            count: size of the subset; ``None`` for all.
            order: whose first ones are taken; ``None`` draws it.
        """
        params = members.params
        if count in (None, len(params)):
            return TargetCritics(members, None)
        if order is None:
            order = torch.randperm(len(params), device=next(params.values(True, True)).device)
        indices = order[:count]
        subset = params.data.apply(
            lambda stacked: stacked.index_select(0, indices), batch_size=indices.shape
        )
        return TargetCritics(members._replace(params=subset), indices)

    def target(
        self,
        targets: TargetCritics,
        inputs: TensorDictBase,
        log_probs: Tensor | None,
        reward_dim: int,
    ) -> Target:
        r"""The minimum over target critics, in expectation under the policy.

        Args:
            targets: all of them, or a subset.
            inputs: next states and the continuous action sampled there.
            log_probs: of the discrete actions, ``[*, K]``.
            reward_dim: M.
        """
        q = self.values(targets.members, inputs, remembered=TARGET_CRITICS)
        choices = () if log_probs is None else log_probs.shape[-1:]
        check_values(self.head.scalar(q), (*inputs.batch_size, *choices, reward_dim), reward_dim)
        expected = partial(self.expected, log_probs=log_probs)
        return self.head.target(q, self.weights.value, expected)

    def terms(self, q: Tensor, target: Target, valid: Tensor | None) -> CriticTerms:
        """The terms of the loss of outputs ``[R, *, M]`` at a target."""
        value = self.head.scalar(q)
        error = F.td_error(value, target.mean)
        if valid is not None:
            error = torch.where(valid, error, torch.zeros_like(error))
        losses = self.head.loss(q, target, self.loss_function)
        return CriticTerms(value, target.mean, losses, error, self.head.further(target))

    def acting(self, stack: TensorDictModuleBase) -> TensorDictModuleBase:
        """The critics as a policy evaluates them, with the mask that they have in the losses.

        Args:
            stack: R critics with stacked parameters.
        """
        if self.mask is None:
            return stack
        return MaskedCritic(
            stack,
            self.mask.mask.expand(len(next(stack.parameters())), -1, -1),
            action_key=self.action_key,
            action_value_key=self.value_key,
        )
