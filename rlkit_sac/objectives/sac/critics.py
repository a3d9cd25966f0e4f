"""Ensembles of critics, as the losses evaluate them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.functional import expected_value, taken_value
from rlkit_sac.functional.sac import CriticReduction, reduce_critics
from rlkit_sac.objectives.checks.batch import check_action, check_index, check_values
from rlkit_sac.objectives.members import MaskedAction, Members, evaluate_members
from rlkit_sac.objectives.transitions import Transitions

if TYPE_CHECKING:
    from rlkit_sac.objectives.sac.soft_actor_critic import SoftActorCriticLoss

CRITICS, TARGET_CRITICS = "qvalue_network", "target_qvalue_network"


class TargetCritics(NamedTuple):
    """Target critics, all of them or some.

    Attributes:
        params: of them.
        members: their indices; ``None`` for all.
    """

    params: TensorDictBase
    members: Tensor | None


@dataclass(frozen=True)
class SACTransitions(Transitions):
    """A batch ``[*]`` that has been checked.

    Attributes:
        targets: the target critics whose memories read it; ``None`` without memories.
    """

    targets: TargetCritics | None


@dataclass(frozen=True)
class Critics:
    """An ensemble :math:`Q_i(s, a)` with one value for each reward dimension.

    Attributes:
        role: the accepted key under which the critics write.
        action_roles: the accepted keys of the actions that the critics read.
    """

    role: str = "state_action_value"
    action_roles: tuple[str, ...] = ("action",)

    def check_keys(self, owner: SoftActorCriticLoss) -> None:
        """Refuse critics that do not read the action that the actor writes.

        Raises:
            BatchError: naming the keys.
        """
        read = owner.qvalue_network.in_keys
        for role in self.action_roles:
            key = getattr(owner.tensor_keys, role)
            if unravel_key(key) not in map(unravel_key, read):
                name = role.replace("_", " ").replace("action continuous", "continuous action")
                raise BatchError(
                    f"qvalue_network reads {read}, not the {name} {key!r}, which is the key the "
                    f"actor writes unless set_keys({role}=...) named another: let actor, critics "
                    "and batch use one key"
                )

    def values(
        self,
        owner: SoftActorCriticLoss,
        inputs: TensorDictBase,
        params: TensorDictBase,
        remembered: str = CRITICS,
        masked: MaskedAction | None = None,
    ) -> Tensor:
        """Values ``[R, *, (K,) M]`` of all critics with the given parameters.

        Args:
            owner: the loss.
            inputs: ``[*]``, the critics' inputs.
            params: those of the live or of the target critics. Where none has a gradient, neither
                have their memories.
            remembered: the entry of what their memories remember.
            masked: the value of each discrete action reads its own parameters.

        Raises:
            BatchError: for an output under another key, or of another shape.
        """
        network, key = owner.qvalue_network, unravel_key(getattr(owner.tensor_keys, self.role))
        if key not in map(unravel_key, network.out_keys):
            raise BatchError(
                f"qvalue_network writes {network.out_keys}, not {key!r}: name its output so, or "
                f"name the right one with set_keys({self.role}=...)"
            )
        if owner.observation_normalizer is not None:
            inputs = owner.observation_normalizer.normalized(inputs)
        recurrent = owner.recurrent.get(CRITICS)
        if recurrent is not None:
            frozen = not any(each.requires_grad for each in params.values(True, True))
            inputs = recurrent.head_inputs_of_each(inputs, remembered, detached=frozen)
            network = recurrent.head
        q = evaluate_members(
            Members(owner.qvalue_network, params, owner.vmap_randomness, owner.deactivate_vmap),
            network,
            inputs,
            key,
            shared=recurrent is None,
            masked=masked,
        )
        return q.to(owner.compute_dtype)  # which autocast may have lowered

    def values_of_taken(
        self,
        owner: SoftActorCriticLoss,
        states: TensorDictBase,
        batch: TensorDictBase,
        like: Tensor | None,
    ) -> Tensor:
        """Values ``[R, *, (K,) M]`` of the live critics for the continuous action of the batch.

        Args:
            owner: the loss.
            states: of the batch.
            batch: with its actions.
            like: an action of the policy at the states; ``None`` if no action is continuous.
        """
        if like is not None:
            key: NestedKey = getattr(owner.tensor_keys, self.action_roles[0])
            action = batch.get(key)
            check_action(action, like, key)
            states = states.copy().set(key, action)
        return self.values(owner, states, owner.qvalue_network_params)

    def of_taken_index(
        self, owner: SoftActorCriticLoss, q: Tensor, batch: TensorDictBase
    ) -> Tensor:
        """Values ``[R, *, M]`` for the discrete action of the batch."""
        return q

    def expected(self, value: Tensor, log_probs: Tensor | None) -> Tensor:
        """The expectation ``[*, M]`` of reduced values ``[*, (K,) M]`` under the policy.

        Args:
            value: reduced over the critics.
            log_probs: of the discrete actions, ``[*, K]``.
        """
        return value

    def reduced(self, owner: SoftActorCriticLoss, q: Tensor, reduction: CriticReduction) -> Tensor:
        """The minimum or mean ``[*, (K,) M]`` over the critics, in each reward dimension.

        Raises:
            BatchError: for critics without one value for each reward weight.
        """
        weights = owner.reward_weights
        if weights is not None and q.shape[-1] != len(weights):
            raise BatchError(
                f"qvalue_network wrote {q.shape[-1]} values for {len(weights)} reward_weights: a "
                "critic needs one output for each reward dimension"
            )
        return reduce_critics(q, weights, reduction)

    def target(
        self,
        owner: SoftActorCriticLoss,
        targets: TargetCritics,
        inputs: TensorDictBase,
        log_probs: Tensor | None,
        reward_dim: int,
    ) -> Tensor:
        r"""The minimum over target critics, in expectation under the policy, ``[*, M]``.

        Args:
            owner: the loss.
            targets: what :meth:`draw_targets` returned.
            inputs: next states and the continuous action sampled there.
            log_probs: of the discrete actions, ``[*, K]``.
            reward_dim: M.
        """
        q = self.values(owner, inputs, targets.params, TARGET_CRITICS)
        choices = () if log_probs is None else log_probs.shape[-1:]
        check_values(q, (*inputs.batch_size, *choices, reward_dim), reward_dim)
        return self.expected(self.reduced(owner, q, "min"), log_probs)

    def draw_targets(self, owner: SoftActorCriticLoss) -> TargetCritics:
        """All target critics, or a random subset, without replacement."""
        params = owner.target_qvalue_network_params
        if owner.target_subset in (None, owner.num_qvalue_nets):
            return TargetCritics(params, None)
        device = next(params.buffers()).device
        order = owner.critic_order
        if order is None:
            order = torch.randperm(owner.num_qvalue_nets, device=device)
        members = order[: owner.target_subset]
        subset = params.data.apply(
            lambda stacked: stacked.index_select(0, members), batch_size=members.shape
        )
        return TargetCritics(subset, members)


@dataclass(frozen=True)
class ActionValueCritics(Critics):
    """An ensemble :math:`Q_i(s)_k` or :math:`Q_i(s, c)_k` with values for K discrete actions.

    Attributes:
        index_role: the accepted key of the discrete action, which the critics do not read.
    """

    role: str = "action_value"
    action_roles: tuple[str, ...] = ()
    index_role: str = "action"

    def check_keys(self, owner: SoftActorCriticLoss) -> None:
        """Refuse critics that read the discrete action, or another continuous one."""
        super().check_keys(owner)
        key = getattr(owner.tensor_keys, self.index_role)
        if unravel_key(key) in map(unravel_key, owner.qvalue_network.in_keys):
            read = "the state and the continuous action" if self.action_roles else "the state alone"
            raise BatchError(
                f"qvalue_network reads the discrete action {key!r}: a critic reads {read} and "
                "writes one value for each discrete action"
            )

    def values(
        self,
        owner: SoftActorCriticLoss,
        inputs: TensorDictBase,
        params: TensorDictBase,
        remembered: str = CRITICS,
        masked: MaskedAction | None = None,
    ) -> Tensor:
        """Values ``[R, *, K, M]`` of all critics with the given parameters."""
        q = super().values(owner, inputs, params, remembered, masked or self._masked(owner))
        return self._checked(owner, inputs, q)

    def values_of_taken(
        self,
        owner: SoftActorCriticLoss,
        states: TensorDictBase,
        batch: TensorDictBase,
        like: Tensor | None,
    ) -> Tensor:
        """Values ``[R, *, K, M]`` of the live critics for the continuous action of the batch.

        Critics with a mask are evaluated once, with the parameters of the discrete action of the
        batch: their values of the others are not those of :meth:`values`.
        """
        masked = self._masked(owner)
        if masked is None:
            return super().values_of_taken(owner, states, batch, like)
        taken, key = batch.get(masked.key), getattr(owner.tensor_keys, self.index_role)
        assert like is not None
        check_action(taken, like, masked.key)
        index = batch.get(key)
        check_index(index, len(masked.mask), states.batch_size, key)
        own = masked.mask[index.long()].bool()
        used = states.copy().set(masked.key, torch.where(own, taken, 0.0))
        q = super().values(owner, used, owner.qvalue_network_params)
        return self._checked(owner, used, q)

    def _masked(self, owner: SoftActorCriticLoss) -> MaskedAction | None:
        if not owner.mask_critics:
            return None
        assert owner._parameter_mask is not None
        key = unravel_key(getattr(owner.tensor_keys, self.action_roles[0]))
        return MaskedAction(key, owner._parameter_mask, owner._used_dimensions)

    def _checked(self, owner: SoftActorCriticLoss, inputs: TensorDictBase, q: Tensor) -> Tensor:
        if q.ndim == inputs.ndim + 2:
            q = q.unsqueeze(-1)
        if q.ndim != inputs.ndim + 3:
            raise BatchError(
                f"qvalue_network wrote values of the shape {list(q.shape[1:])} for a batch "
                f"{list(inputs.batch_size)}: wanted {[*inputs.batch_size]} and K values, one for "
                "each discrete action; for vector rewards K x M"
            )
        spec = owner.specs[self.index_role]
        if spec is not None and spec.space.n != q.shape[-2]:
            raise BatchError(
                f"qvalue_network wrote values of {q.shape[-2]} discrete actions, but the action "
                f"spec has {spec.space.n}"
            )
        return q

    def of_taken_index(
        self, owner: SoftActorCriticLoss, q: Tensor, batch: TensorDictBase
    ) -> Tensor:
        """Values ``[R, *, M]`` for the discrete action of the batch."""
        key: NestedKey = getattr(owner.tensor_keys, self.index_role)
        action = batch.get(key)
        check_index(action, q.shape[-2], q.shape[1:-2], key)
        return taken_value(q, action.long())

    def expected(self, value: Tensor, log_probs: Tensor | None) -> Tensor:
        """The expectation ``[*, M]`` of reduced values ``[*, K, M]`` under the policy."""
        assert log_probs is not None
        return expected_value(value, log_probs.detach().exp())
