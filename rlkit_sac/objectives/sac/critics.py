"""Ensembles of critics in the losses: their values, targets and losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from rlkit_sac.modules.critics import VALUE_LOGITS, RewardWeights
from rlkit_sac.modules.ensemble import EnsembleOutput, Members
from rlkit_sac.modules.masked_critic import MaskedCritic, ParameterMask
from rlkit_sac.modules.normalization import ObservationNormalizer
from rlkit_sac.objectives.batch import (
    Transitions,
    check_action,
    check_critic_values,
    check_index,
    detach_entries,
)
from rlkit_sac.objectives.checks import check_writes
from rlkit_sac.objectives.memory import RecurrentNetwork
from rlkit_sac.objectives.previous_step import PREVIOUS_ACTION, is_previous_step_key
from rlkit_sac.objectives.sac.factors import PolicySample
from rlkit_sac.objectives.sac.return_estimators import ValueEstimate

CRITICS, TARGET_CRITICS = "qvalue_network", "target_qvalue_network"


class CriticTerms(NamedTuple):
    """The terms of the critics' loss.

    Attributes:
        q_taken: the values ``[R, *, M]`` of the actions of the batch.
        target: the target y of these values.
        losses: the loss of each critic, ``[R, *]``.
        td_error: the priority ``[*]``, 0 in invalid steps.
    """

    q_taken: Tensor
    target: ValueEstimate
    losses: Tensor
    td_error: Tensor


@dataclass(frozen=True)
class SACTransitions(Transitions):
    """Transitions, with the target critics whose memories read them.

    Attributes:
        target_critics: the target critics whose memories read the batch; ``None`` without memories.
    """

    target_critics: Members | None


class ScalarHead:
    """The interpretation of critics' outputs as values ``[…, M]``, one for each reward dimension.

    Attributes:
        output_key: the entry that the critics write; ``None`` for the entry of the accepted key.
        diagnostics: the names of :meth:`extra_metrics`.
    """

    output_key: ClassVar[NestedKey | None] = None
    diagnostics: ClassVar[tuple[str, ...]] = ()

    def value(self, q: Tensor) -> Tensor:
        """Return the value ``[…, M]`` of an output."""
        return q

    def expected_min(
        self, q: Tensor, weights: Tensor | None, expectation: Callable[[Tensor], Tensor]
    ) -> ValueEstimate:
        r"""Return :math:`E_k[\min_i \bar Q_{i,k}]` from outputs ``[R, *, (K,) M]``.

        Args:
            q: the outputs of the target critics.
            weights: the weights of a vector reward.
            expectation: a function that takes the expectation over the discrete actions.
        """
        return ValueEstimate(expectation(reduce_critics(q, weights, "min")))

    def loss(self, q: Tensor, target: ValueEstimate, loss_function: LossFunction) -> Tensor:
        """Return the loss ``[R, *]`` of each critic's outputs ``[R, *, M]`` for a target."""
        return F.critic_loss(q, target.values, loss_function)

    def extra_metrics(self, target: ValueEstimate) -> dict[str, Tensor]:
        """Return the diagnostics ``[*]`` of this head."""
        return {}


class AtomHead(ScalarHead):
    """The interpretation of critics' outputs ``value_logits`` ``[…, N]`` as distributions.

    They are distributions over N atoms, see :mod:`~rlkit_sac.functional.value_distribution`. At
    each state the target is the whole distribution of the critic with the smallest mean.
    """

    output_key = VALUE_LOGITS
    diagnostics = ("clipped_share",)

    def value(self, q: Tensor) -> Tensor:
        """Return the mean value ``[…, 1]`` of logits."""
        return F.mean_over_atoms(q)

    def expected_min(
        self, q: Tensor, weights: Tensor | None, expectation: Callable[[Tensor], Tensor]
    ) -> ValueEstimate:
        """Return the atoms and their probabilities, in expectation under the policy."""
        lowest = self.value(q).argmin(0, keepdim=True).expand(1, *q.shape[1:])
        shares = expectation(q.gather(0, lowest).squeeze(0).softmax(-1))
        return ValueEstimate(F.value_atoms(q.shape[-1], q).expand_as(shares), shares)

    def loss(self, q: Tensor, target: ValueEstimate, loss_function: LossFunction) -> Tensor:
        """Return the cross-entropy ``[R, *]`` of each critic's logits to the target."""
        projected = F.project_onto_atoms(target.values, target.weights_or_ones, q.shape[-1])
        return F.atom_cross_entropy(q, projected)

    def extra_metrics(self, target: ValueEstimate) -> dict[str, Tensor]:
        """Return the share of the target that lies beyond the atoms."""
        return {"clipped_share": F.clipped_share(target.values, target.weights_or_ones)}


@dataclass(eq=False)
class Critics:
    r"""An ensemble :math:`Q_i(s, a)`, or :math:`Q_i(s, c)_k` with values for K discrete actions.

    It holds no parameters. They come with each call, as
    :class:`~rlkit_sac.modules.ensemble.Members`.

    Attributes:
        network: one of the critics, without parameters.
        encoded: the entries of a shared encoder, which the critics train.
        memory: the parts of a network with a memory; ``None`` without a memory.
        normalizer: the normalizer of observations, or ``None``.
        weights: the weights of a vector reward.
        loss_function: the distance to the target.
        reduction: the reduction on which the policy is trained, the minimum or the mean.
        action_role: the accepted key of the continuous action that the critics read, or ``None``.
        index_role: the accepted key of the discrete action whose values the critics write;
            ``None`` for critics that write one value.
        spec: the spec of the discrete action, if known.
        parameter_mask: a mask of the dimensions of the continuous action that each discrete action
            uses, or ``None``.
        head: the interpretation of the critics' outputs.
        value_key: the entry that the critics write their values to.
        action_key: the entry of the continuous action that the critics read.
        index_key: the entry of the discrete action in a batch.
        action_mask_key: the entry of the mask of allowed discrete actions; ``None`` without masks.
    """

    network: TensorDictModule
    encoded: Sequence[NestedKey]
    memory: RecurrentNetwork | None
    normalizer: ObservationNormalizer | None
    weights: RewardWeights
    loss_function: LossFunction
    reduction: CriticReduction
    action_role: str | None
    index_role: str | None
    spec: TensorSpec | None
    parameter_mask: ParameterMask | None

    def __post_init__(self) -> None:
        over_atoms = VALUE_LOGITS in map(unravel_key, self.network.out_keys)
        self.head = AtomHead() if over_atoms else ScalarHead()
        self._value_role = "state_action_value" if self.index_role is None else "action_value"

    def assign_keys(self, keys: Any) -> None:
        """Set the entries that the critics read and write, from the accepted keys of a loss."""
        self.value_key: NestedKey = unravel_key(getattr(keys, self._value_role))
        if self.action_role is not None:
            self.action_key: NestedKey = unravel_key(getattr(keys, self.action_role))
        if self.index_role is not None:
            self.index_key: NestedKey = getattr(keys, self.index_role)
        self.action_mask_key: NestedKey | None = getattr(keys, "action_mask", None)
        part = self.network if self.memory is None else self.memory.head
        key = self.head.output_key or self.value_key
        mask = self.parameter_mask
        masked = None if mask is None else (self.action_key, mask)
        self._output = EnsembleOutput.from_part(self.network, part, key, masked)
        # The value of a taken action needs only the action's own parameters and no mask.
        self._taken_output = (
            EnsembleOutput.from_part(self.network, part, key) if masked else self._output
        )

    def check_keys(self) -> None:
        """Refuse critics that do not read the action, or write their values to another entry.

        Raises:
            BatchError: naming the keys.
        """
        in_keys, role = self.network.in_keys, self.action_role
        if role is not None and self.action_key not in map(unravel_key, in_keys):
            name = "action" if role == "action" else "continuous action"
            raise BatchError(
                f"qvalue_network reads {in_keys}, not the {name} {self.action_key!r}, which is the "
                f"key the actor writes unless set_keys({role}=...) named another: let actor, "
                "critics and batch use one key"
            )
        for key in (self._output.key, self.value_key):
            check_writes("qvalue_network", self.network, key, self._value_role)

    def values(
        self, members: Members, inputs: TensorDictBase, *, entry: str = CRITICS, taken: bool = False
    ) -> Tensor:
        """Return outputs ``[R, *, (K,) M]`` of some critics, for each discrete action if any.

        Args:
            members: the live or the target critics. If their parameters have no gradient, memories
                and the encoder have none either.
            inputs: the critics' inputs ``[*]``.
            entry: the name under which the states hold the outputs of the critics' memories.
            taken: whether the inputs hold the parameters of a taken action. Then a parameter mask
                is not applied, and only the value of this action is meaningful.

        Raises:
            BatchError: for an output of another shape.
        """
        batch_size = inputs.batch_size
        if self.normalizer is not None and self.normalizer.key in inputs.keys():  # noqa: SIM118
            inputs = self.normalizer.normalize_states(inputs)
        if self.encoded or self.memory is not None:
            frozen = not any(tensor.requires_grad for tensor in members.params.values(True, True))
            inputs = detach_entries(inputs, self.encoded if frozen else ())
            if self.memory is not None:
                inputs = self.memory.head_inputs_per_member(inputs, entry, detached=frozen)
        output = self._taken_output if taken else self._output
        q = output.evaluate(members, inputs, shared=self.memory is None)
        if self.index_role is not None:
            if q.ndim == len(batch_size) + 2:
                q = q.unsqueeze(-1)  # M = 1
            if q.ndim != len(batch_size) + 3:
                raise BatchError(
                    f"qvalue_network wrote values of the shape {list(q.shape[1:])} for a batch "
                    f"{list(batch_size)}: wanted {[*batch_size]} and K values, one for "
                    "each discrete action; for vector rewards K x M"
                )
            if self.spec is not None and self.spec.space.n != q.shape[-2]:
                raise BatchError(
                    f"qvalue_network wrote values of {q.shape[-2]} discrete actions, but the "
                    f"action spec has {self.spec.space.n}"
                )
        return q.to(members.dtype)  # which autocast may have lowered

    def allowed_actions(self, states: TensorDictBase, q: Tensor) -> Tensor | None:
        """Return the mask of allowed actions at the states of values ``q``, bool ``[*, K]``.

        It is ``None`` without masks.
        """
        if self.action_mask_key is None:
            return None
        return read_action_mask(states, self.action_mask_key, q[0, ..., 0])

    def taken_values(
        self, members: Members, states: TensorDictBase, batch: TensorDictBase, sample: PolicySample
    ) -> Tensor:
        """Return outputs ``[R, *, M]`` of the live critics for the action of the batch.

        A mask of allowed actions has no effect on them.

        Args:
            members: the live critics.
            states: the states of the batch.
            batch: the batch, with its actions.
            sample: a sample of the policy at the states.
        """
        index = None if self.index_role is None else batch.get(self.index_key)
        q = sample.q_values
        if q is None:
            action = batch.get(self.action_key)
            check_action(action, sample.inputs.get(self.action_key), self.action_key)
            if self.parameter_mask is not None:
                assert index is not None
                mask = self.parameter_mask.mask
                check_index(index, len(mask), states.batch_size, self.index_key)
                action = torch.where(mask[index.long()].bool(), action, 0.0)
            q = self.values(members, states.copy().set(self.action_key, action), taken=True)
        if index is None:
            return q
        check_index(index, q.shape[-2], q.shape[1:-2], self.index_key)
        return F.taken_value(q, index.long())

    def zero_unused_parameters(
        self, tensordict: TensorDictBase, states: Iterable[NestedKey]
    ) -> TensorDictBase:
        """Return a batch with zeros for action parameters that are unused and not finite.

        Args:
            tensordict: the batch.
            states: the entries that are read at a state. Only networks that read the previous
                action read such parameters.
        """
        assert self.parameter_mask is not None
        if not any(map(is_previous_step_key, states)):
            return tensordict
        batch, mask = tensordict.copy(), self.parameter_mask.mask
        for action_key, index_key in (
            (self.action_key, self.index_key),
            ((PREVIOUS_ACTION, "continuous"), (PREVIOUS_ACTION, "discrete")),
        ):
            action, index = tensordict.get(action_key, None), tensordict.get(index_key, None)
            if action is None or index is None:
                continue
            used = mask[index.long().clamp(0, len(mask) - 1)].bool()
            if used.shape == action.shape:  # later checks refuse other shapes
                batch.set(action_key, torch.where(used | action.isfinite(), action, 0.0))
        return batch

    def reduce(self, q: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Return the minimum or mean ``[*, (K,) M]`` over the critics, in each reward dimension.

        Args:
            q: the outputs ``[R, *, (K,) M]``.
            allowed: the allowed actions, bool ``[*, K]``; other actions get the value 0.
        """
        if allowed is not None:
            q = F.zero_forbidden(q, allowed.unsqueeze(-1), dim=-2)
        return reduce_critics(self.head.value(q), self.weights.value, self.reduction)

    def draw_subset(self, members: Members, count: int, order: Tensor | None) -> Members:
        """Return a random subset of the target critics, without replacement.

        Args:
            members: all target critics.
            count: the size of the subset.
            order: a permutation of the critics, whose first ones are taken; ``None`` draws it.
        """
        params = members.params
        if count == len(params):
            return members
        if order is None:
            order = torch.randperm(len(params), device=next(params.values(True, True)).device)
        indices = order[:count]
        subset = params.data.apply(
            lambda stacked: stacked.index_select(0, indices), batch_size=indices.shape
        )
        return members._replace(params=subset, indices=indices)

    def expected_min(
        self, members: Members, next_sample: PolicySample, reward_dim: int
    ) -> ValueEstimate:
        r"""Return :math:`E_k[\min_i \bar Q_i(s', c')_k]`, or :math:`\min_i \bar Q_i(s', a')`.

        The result is the minimum even if the policy is trained on the mean. It has no entropy
        bonus.

        Args:
            members: the target critics, or a subset.
            next_sample: a sample of the policy at the next states.
            reward_dim: the number M of reward dimensions.
        """
        inputs, shape = next_sample.inputs, next_sample.inputs.batch_size
        q = self.values(members, inputs, entry=TARGET_CRITICS)
        if next_sample.allowed is not None:
            q = F.zero_forbidden(q, next_sample.allowed.unsqueeze(-1), dim=-2)
        expectation: Callable[[Tensor], Tensor] = lambda value: value  # noqa: E731
        if next_sample.log_probs is not None:
            prob = next_sample.log_probs.detach().exp()
            shape, expectation = prob.shape, lambda value: F.expected_value(value, prob)
        check_critic_values(self.head.value(q), (*shape, reward_dim), reward_dim)
        return self.head.expected_min(q, self.weights.value, expectation)

    def loss_terms(self, q: Tensor, target: ValueEstimate, valid: Tensor | None) -> CriticTerms:
        """Return the terms of the loss of outputs ``[R, *, M]`` for a target y."""
        q_taken = self.head.value(q)
        error = F.td_error(q_taken, target.mean)
        if valid is not None:
            error = torch.where(valid, error, torch.zeros_like(error))
        losses = self.head.loss(q, target, self.loss_function)
        return CriticTerms(q_taken, target, losses, error)

    def acting_critics(self, stack: TensorDictModuleBase) -> TensorDictModuleBase:
        """Return the critics for the acting policy, with the same parameter mask as in the losses.

        Args:
            stack: R critics with stacked parameters.
        """
        if self.parameter_mask is None:
            return stack
        return MaskedCritic(
            stack,
            self.parameter_mask.mask.expand(len(next(stack.parameters())), -1, -1),
            action_key=self.action_key,
            action_value_key=self.value_key,
        )
