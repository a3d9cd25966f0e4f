"""The Boltzmann policy of critics and a temperature, over discrete actions."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.envs.utils import ExplorationType, exploration_type

from rlkit_sac import functional as F
from rlkit_sac.functional.sac import CriticReduction
from rlkit_sac.modules.allowed_actions import read_action_mask
from rlkit_sac.modules.critics import RewardWeights
from rlkit_sac.modules.memory import next_key, policy_states
from rlkit_sac.modules.normalization import restore_observation
from rlkit_sac.modules.notes import Note, make_note
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.modules.temperature import Temperature


class BoltzmannPolicy(TensorDictModuleBase):
    r"""Acts with :math:`\pi_k \propto \pi^0_k \exp(\min_i Q_{i,k} / \alpha)`, without an actor.

    Without a prior :math:`\pi^0` is the same for all actions. Reads what the critics and the prior
    read and writes ``action``, an index int64 ``[*]``, and of critics with a memory its state under
    ``next``, ``[*, R, L, H]`` of R critics. With TorchRL's exploration type ``RANDOM``,
    as in a collector, it samples; with any other it takes the most likely action, without a prior
    the one with the highest value, :math:`\arg\max_k \min_i Q_{i,k}`. With vector rewards the
    minimum is taken for each dimension, then their weighted sum, as in the losses. The state dict
    has the weights of critics and prior, the temperature's parameter and the reward weights.

    Args:
        critics: a TensorDictModule that writes ``action_value`` ``[*, K]`` (``[*, K, M]``), each
            parameter and buffer with a first dimension R for the critics, see
            :func:`~rlkit_sac.modules.critics.stack_critics`.
        log_alpha: the temperature's parameter, a scalar parameter or buffer.
        temperature: how to read it.
        reward_weights: weights of a vector reward, shared with a loss; default ones.
        reduction: over the critics, ``"min"`` (default) or ``"mean"``.
        prior: shared with a loss; it reads observations before they are normalized. Default none.
        action_key: where to write the action.
        action_value_key: what the critics write.
        mask_key: of the mask of allowed actions, bool ``[*, K]``, to choose among. Default none.

    Source: Haarnoja et al. 2017 (arXiv:1702.08165), theorem 1.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.critics import action_value_critic, stack_critics
    >>> critics = stack_critics([action_value_critic(3, 2), action_value_critic(3, 2)])
    >>> policy = BoltzmannPolicy(critics, torch.zeros(()), Temperature())
    >>> policy(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5])
    """

    log_alpha: Tensor

    def __init__(
        self,
        critics: TensorDictModuleBase,
        log_alpha: Tensor,
        temperature: Temperature,
        *,
        reward_weights: RewardWeights | None = None,
        reduction: CriticReduction = "min",
        prior: FrozenPrior | None = None,
        action_key: NestedKey = "action",
        action_value_key: NestedKey = "action_value",
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        self.critics = critics.eval()  # dropout is for learning values, not for acting by them
        if isinstance(log_alpha, nn.Parameter):
            self.log_alpha = log_alpha
        else:
            self.register_buffer("log_alpha", log_alpha)
        self.temperature = temperature
        self.reduction = reduction
        self.reward_weights = RewardWeights() if reward_weights is None else reward_weights
        self.prior = prior
        self.action_value_key, self.mask_key = action_value_key, mask_key
        read = [*critics.in_keys, *(prior.in_keys if prior is not None else [])]
        read += [] if mask_key is None else [mask_key]
        self.in_keys = [
            key for key in dict.fromkeys(map(unravel_key, read)) if key != unravel_key(action_key)
        ]
        self._states = list(policy_states(critics))
        self.out_keys = [action_key, *(next_key(key) for key in self._states)]

    @property
    def note(self) -> Note | None:
        """How to build it, see :mod:`rlkit_sac.modules.notes`."""
        first = next(self.critics.parameters(), None)
        if first is None:
            return None
        return make_note(
            "BoltzmannPolicy",
            critic=self.critics,
            num_qvalue_nets=len(first),
            **asdict(self.temperature),
            reduction=self.reduction,
            prior=self.prior,
            action_key=self.out_keys[0],
            action_value_key=self.action_value_key,
            mask_key=self.mask_key,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action into ``tensordict`` and return it."""
        value, states = self._evaluate(tensordict)
        if exploration_type() is ExplorationType.RANDOM:
            action = F.sample_categorical(self._log_prob(tensordict, value))
        elif self.prior is None:
            action = F.mask_logits(value, self._allowed(tensordict, value)).argmax(-1)
        else:
            action = self._log_prob(tensordict, value).argmax(-1)
        for key, entry in zip(self.out_keys, (action, *states), strict=True):
            tensordict.set(key, entry)
        return tensordict

    def get_dist(self, tensordict: TensorDictBase) -> Categorical:
        """The distribution over the actions, as of a probabilistic actor."""
        value = self.action_value(tensordict)
        return Categorical(logits=self._log_prob(tensordict, value), validate_args=False)

    def _log_prob(self, states: TensorDictBase, value: Tensor) -> Tensor:
        log_prior, allowed = None, self._allowed(states, value)
        if self.prior is not None:
            key = self.out_keys[0]
            raw = restore_observation(states)
            log_prior = self.prior.log_prob_of_each_action(raw, value.shape[-1], key, allowed)
        return F.boltzmann_log_prob(value, self.alpha(), log_prior, allowed)

    def _allowed(self, states: TensorDictBase, value: Tensor) -> Tensor | None:
        return read_action_mask(states, self.mask_key, value)

    def action_value(self, tensordict: TensorDictBase) -> Tensor:
        """The value ``[*, K]`` of each action, reduced over critics and reward dimensions."""
        return self._evaluate(tensordict)[0]

    def _evaluate(self, tensordict: TensorDictBase) -> tuple[Tensor, list[Tensor]]:
        """The values, and the states of the critics' memories after the step."""
        states = tensordict.select(*self.critics.in_keys, strict=not self._states)
        remembered = [key for key in self._states if key in states.keys(True)]
        names, stacked = zip(
            *chain(self.critics.named_parameters(), self.critics.named_buffers()), strict=True
        )
        outs = []
        # For a few states a loop is quicker than vmap, and torch.export can follow it.
        for place, tensors in enumerate(zip(*(each.unbind(0) for each in stacked), strict=True)):
            member, own = dict(zip(names, tensors, strict=True)), states.copy()
            for key in remembered:
                own.set(key, own.get(key).select(-3, place))
            outs.append(torch.func.functional_call(self.critics, member, (own,)))
        q = torch.stack([out.get(self.action_value_key) for out in outs])
        if q.ndim == tensordict.ndim + 2:
            q = q.unsqueeze(-1)
        weights = self.reward_weights.value
        value = F.weigh_rewards(F.reduce_critics(q, weights, self.reduction), weights)
        after = [torch.stack([out.get(key) for out in outs], -3) for key in self.out_keys[1:]]
        return value, after

    def train(self, mode: bool = True) -> BoltzmannPolicy:
        """Set training mode, but for the critics."""
        super().train(mode)
        self.critics.eval()
        return self

    def alpha(self) -> Tensor:
        """The temperature, a scalar within its bounds."""
        return self.temperature.alpha(self.log_alpha)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.reward_weights.value is not None:
            destination[f"{prefix}reward_weights.value"] = self.reward_weights.value
