"""The Boltzmann policy over discrete actions, made of critics and a temperature."""

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
from rlkit_sac.modules.blueprints import Blueprint, make_blueprint
from rlkit_sac.modules.critics import RewardWeights
from rlkit_sac.modules.memory import next_key, policy_states
from rlkit_sac.modules.normalization import restore_observation
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.modules.temperature import Temperature


class BoltzmannPolicy(TensorDictModuleBase):
    r"""A policy :math:`\pi_k \propto \pi^0_k \exp(\min_i Q_{i,k} / \alpha)` without an actor.

    Without a prior, :math:`\pi^0` is the same for all actions. The policy reads the entries that
    critics and prior read, and writes ``action``, an index int64 ``[*]``. If the R critics have
    memories, it also writes their states under ``next``, ``[*, R, L, H]``. With TorchRL's
    exploration type ``RANDOM``, as in a collector, it samples; with any other type it takes the
    most likely action. Without a prior this is the action with the highest value,
    :math:`\arg\max_k \min_i Q_{i,k}`. With vector rewards the minimum is taken in each dimension,
    then the weighted sum, as in the losses. The state dict has the weights of critics and prior,
    the temperature's parameter and the reward weights.

    Args:
        critics: a TensorDictModule that writes ``action_value`` ``[*, K]`` (``[*, K, M]``). Each
            parameter and buffer has a first dimension R for the critics, see
            :func:`~rlkit_sac.modules.critics.stack_critics`.
        log_alpha: the temperature's parameter, a scalar parameter or buffer.
        temperature: the parametrization and the bounds of the temperature.
        reward_weights: the weights of a vector reward, shared with a loss. Default: ones.
        reduction: the reduction over the critics, ``"min"`` (default) or ``"mean"``.
        prior: a prior, shared with a loss. It reads observations before they are normalized.
            Default: no prior.
        action_key: the entry that the action is written to.
        action_value_key: the entry that the critics write.
        mask_key: the key of the mask of allowed actions, bool ``[*, K]``. Default: no mask.

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
        self.critics = critics.eval()  # dropout is for training, not for acting
        if isinstance(log_alpha, nn.Parameter):
            self.log_alpha = log_alpha
        else:
            self.register_buffer("log_alpha", log_alpha)
        self.temperature = temperature
        self.reduction = reduction
        self.reward_weights = RewardWeights() if reward_weights is None else reward_weights
        self.prior = prior
        self.action_value_key, self.mask_key = action_value_key, mask_key
        keys = [*critics.in_keys, *(prior.in_keys if prior is not None else [])]
        keys += [] if mask_key is None else [mask_key]
        self.in_keys = [
            key for key in dict.fromkeys(map(unravel_key, keys)) if key != unravel_key(action_key)
        ]
        self._states = list(policy_states(critics))
        self.out_keys = [action_key, *(next_key(key) for key in self._states)]

    @property
    def blueprint(self) -> Blueprint | None:
        """The builder and the arguments of this policy, see :mod:`rlkit_sac.modules.blueprints`."""
        parameter = next(self.critics.parameters(), None)
        if parameter is None:
            return None
        return make_blueprint(
            "BoltzmannPolicy",
            critic=self.critics,
            num_qvalue_nets=len(parameter),
            **asdict(self.temperature),
            reduction=self.reduction,
            prior=self.prior,
            action_key=self.out_keys[0],
            action_value_key=self.action_value_key,
            mask_key=self.mask_key,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action into ``tensordict`` and return it."""
        value, states = self._evaluate_critics(tensordict)
        if exploration_type() is ExplorationType.RANDOM:
            action = F.sample_categorical(self._log_prob(tensordict, value))
        elif self.prior is None:
            action = F.mask_logits(value, self._action_mask(tensordict, value)).argmax(-1)
        else:
            action = self._log_prob(tensordict, value).argmax(-1)
        for key, entry in zip(self.out_keys, (action, *states), strict=True):
            tensordict.set(key, entry)
        return tensordict

    def get_dist(self, tensordict: TensorDictBase) -> Categorical:
        """Return the distribution over the actions, as a probabilistic actor does."""
        value = self.action_value(tensordict)
        return Categorical(logits=self._log_prob(tensordict, value), validate_args=False)

    def _log_prob(self, states: TensorDictBase, value: Tensor) -> Tensor:
        log_prior, allowed = None, self._action_mask(states, value)
        if self.prior is not None:
            key = self.out_keys[0]
            raw = restore_observation(states)
            log_prior = self.prior.log_prob_of_each_action(raw, value.shape[-1], key, allowed)
        return F.boltzmann_log_prob(value, self.alpha(), log_prior, allowed)

    def _action_mask(self, states: TensorDictBase, value: Tensor) -> Tensor | None:
        return read_action_mask(states, self.mask_key, value)

    def action_value(self, tensordict: TensorDictBase) -> Tensor:
        """Return the value ``[*, K]`` of each action, reduced over critics and rewards."""
        return self._evaluate_critics(tensordict)[0]

    def _evaluate_critics(self, tensordict: TensorDictBase) -> tuple[Tensor, list[Tensor]]:
        """Return the values, and the states of the critics' memories after the step."""
        states = tensordict.select(*self.critics.in_keys, strict=not self._states)
        memory_keys = [key for key in self._states if key in states.keys(True)]
        names, stacks = zip(
            *chain(self.critics.named_parameters(), self.critics.named_buffers()), strict=True
        )
        outs = []
        # For a few states a loop is quicker than vmap, and torch.export can follow it.
        for i, tensors in enumerate(zip(*(stack.unbind(0) for stack in stacks), strict=True)):
            weights, inputs = dict(zip(names, tensors, strict=True)), states.copy()
            for key in memory_keys:
                inputs.set(key, inputs.get(key).select(-3, i))
            outs.append(torch.func.functional_call(self.critics, weights, (inputs,)))
        q = torch.stack([out.get(self.action_value_key) for out in outs])
        if q.ndim == tensordict.ndim + 2:
            q = q.unsqueeze(-1)
        reward_weights = self.reward_weights.value
        q = F.reduce_critics(q, reward_weights, self.reduction)
        next_states = [torch.stack([out.get(key) for out in outs], -3) for key in self.out_keys[1:]]
        return F.weigh_rewards(q, reward_weights), next_states

    def train(self, mode: bool = True) -> BoltzmannPolicy:
        """Set the training mode, except of the critics, which stay in evaluation mode."""
        super().train(mode)
        self.critics.eval()
        return self

    def alpha(self) -> Tensor:
        """Return the temperature, a scalar within its bounds."""
        return self.temperature.alpha(self.log_alpha)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.reward_weights.value is not None:
            destination[f"{prefix}reward_weights.value"] = self.reward_weights.value
