"""Frozen copies of priors, with which losses and policies compute log-probabilities."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torch.distributions import Distribution

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import mask_logits, normalized_log_prob
from rlkit_sac.functional.discrete import LOWEST_LOG_PROB
from rlkit_sac.modules.blueprints import blueprint_property
from rlkit_sac.modules.distributions import check_log_prob
from rlkit_sac.modules.memory import policy_states


class FrozenPrior(nn.Module):
    """A copy of a prior that keeps its weights and stays in evaluation mode.

    The copy's parameters are buffers: optimizers do not see them, but state dicts, casts and moves
    to another device include them.

    Args:
        prior: any module with ``in_keys`` and ``get_dist(tensordict)``.
        part: the part of the action that the prior describes. The prior then reads
            ``("prev_action", part)`` in place of ``prev_action``. Default: the whole action.

    Raises:
        ConfigError: for a policy with memory.
        BatchError: in a call, for a distribution that does not fit the actions.

    >>> from rlkit_sac.modules.actors import tanh_gaussian_actor
    >>> from rlkit_sac.modules.priors.policy import PolicyPrior
    >>> frozen = FrozenPrior(PolicyPrior(tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[])))
    >>> len(list(frozen.parameters())), len(list(frozen.buffers()))
    (0, 2)
    """

    prior: Any

    def __init__(self, prior: Any, part: str = "") -> None:
        super().__init__()
        if states := policy_states(prior):
            raise ConfigError(
                f"prior_network acts by a memory, {', '.join(map(repr, states))}: a prior scores "
                "each state by itself, so take a policy without memory"
            )
        self.prior, self.part = frozen_copy(prior), part
        keys: list[NestedKey] = [unravel_key(key) for key in self.prior.in_keys]
        self._part_key: NestedKey | None = None
        if part and "prev_action" in keys:
            self._part_key = ("prev_action", part)
            keys = [self._part_key if key == "prev_action" else key for key in keys]
        self.in_keys = keys
        self.eval()

    blueprint = blueprint_property("prior", "part")

    def train(self, mode: bool = True) -> FrozenPrior:
        """Stay in evaluation mode."""
        super().train(False)
        return self

    def log_prob(self, states: TensorDictBase, action: Tensor, key: NestedKey) -> Tensor:
        """Return the log-density ``[*]`` of continuous actions, with gradients to the actions.

        Args:
            states: the states ``[*]``, with the entries that the prior reads.
            action: the actions ``[*, D]``.
            key: the key of the action, by which a prior over several parts finds its part.
        """
        dist = self._dist(states, key)
        log_prob = dist.log_prob(action)
        check_log_prob(log_prob, states.batch_size, dist, "the prior")
        return log_prob

    def log_prob_of_each_dimension(
        self, states: TensorDictBase, action: Tensor, key: NestedKey
    ) -> Tensor:
        """Return the log-density ``[*, D]`` of each dimension of actions, see :meth:`log_prob`."""
        dist = self._dist(states, key)
        if hasattr(dist, "log_probs"):
            return dist.log_probs(action)
        return dist.base_dist.log_prob(action)  # type: ignore[attr-defined]  # it is Independent

    def log_prob_of_each_action(
        self,
        states: TensorDictBase,
        num_actions: int,
        key: NestedKey,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """Return finite log-probabilities ``[*, K]`` of all discrete actions.

        Args:
            states: the states ``[*]``, with the entries that the prior reads.
            num_actions: the number K of actions.
            key: the key of the action, by which a prior over several parts finds its part.
            allowed: the actions over which the prior is normalized, bool ``[*, K]``. If all of them
                have the probability 0 under the prior, the result is uniform. Default: all.
        """
        dist = self._dist(states, key)
        logits: Any = getattr(dist, "logits", None)
        if logits is None:
            index = torch.arange(num_actions, device=states.device)
            index = index.reshape(-1, *(1,) * states.ndim).expand(-1, *states.batch_size)
            logits = dist.log_prob(index).movedim(0, -1)
        if allowed is None:
            return normalized_log_prob(logits)
        # Large logits of forbidden actions would cost the other logits their precision.
        logits = getattr(dist, "raw_logits", logits)
        best = mask_logits(logits, allowed).amax(-1, keepdim=True)
        log_prob = normalized_log_prob(
            torch.where(best.isfinite(), torch.minimum(logits, best), logits)
        )
        never = log_prob <= LOWEST_LOG_PROB
        never &= (allowed & ~never).any(-1, keepdim=True)
        return normalized_log_prob(log_prob, allowed).masked_fill(never, LOWEST_LOG_PROB)

    def _dist(self, states: TensorDictBase, key: NestedKey) -> Distribution:
        states = states.copy()
        if self._part_key is not None:
            states.set("prev_action", states.get(self._part_key))
        dist = self.prior.get_dist(states)
        dists = getattr(dist, "dists", None)
        if dists is None:
            return dist
        key, dists = unravel_key(key), {unravel_key(name): dist for name, dist in dists.items()}
        return dists[key if key in dists else key[-1]]


def frozen_copy(module: nn.Module) -> nn.Module:
    """Return a copy of a module whose parameters are buffers.

    >>> [name for name, _ in frozen_copy(nn.Linear(1, 1)).named_buffers()]
    ['weight', 'bias']
    """
    copy = deepcopy(module)
    for part in copy.modules():
        for name, parameter in list(part._parameters.items()):
            del part._parameters[name]
            part.register_buffer(name, None if parameter is None else parameter.detach())
    return copy
