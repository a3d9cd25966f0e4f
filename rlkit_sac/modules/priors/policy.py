"""A policy as a prior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from tensordict.utils import unravel_key
from torch import nn
from torch.distributions import Distribution

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.allowed_actions import set_raw_logits
from rlkit_sac.modules.blueprints import blueprint_property
from rlkit_sac.modules.normalization import NormalizedPolicy
from rlkit_sac.modules.priors.parts import FactoredDistribution


class PolicyPrior(nn.Module):
    """A prior with the distribution of a policy, such as one cloned from an expert.

    A loss keeps a frozen copy: neither its weights nor the statistics of its observation normalizer
    change. If the policy has several action parts, each part is conditioned on the preceding parts
    of the learned policy's action.

    Args:
        actor: a TorchRL ``ProbabilisticActor``, or a policy of this package: the result of a loss's
            ``policy()``, or of :func:`~rlkit_sac.runs.load_policy` for a run directory. Losses
            refuse policies with memory.

    Raises:
        ConfigError: for a module without a distribution.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.actors import tanh_gaussian_actor
    >>> prior = PolicyPrior(tanh_gaussian_actor(3, [-1.0], [1.0]))
    >>> states = TensorDict(observation=torch.zeros(2, 3), batch_size=[2])
    >>> prior.get_dist(states).log_prob(torch.zeros(2, 1)).shape
    torch.Size([2])
    """

    def __init__(self, actor: TensorDictModuleBase) -> None:
        super().__init__()
        self.actor = actor
        steps = list(_flatten_policy(actor))
        self.action_keys = [_action_key(step) for step in steps if hasattr(step, "get_dist")]
        if not self.action_keys:
            raise ConfigError(
                f"a PolicyPrior of a {type(actor).__name__} has no distribution: pass a TorchRL "
                "ProbabilisticActor, or the policy of a loss or of a run"
            )
        self.in_keys: list[NestedKey] = [
            key for key in map(unravel_key, actor.in_keys) if key not in self.action_keys
        ]

    blueprint = blueprint_property("actor")

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """Return the policy's distribution. With several parts, each has one under its action key.

        Args:
            tensordict: states ``[*]`` with the entries of ``in_keys``. If parts of the action
                depend on other parts, it must hold those parts, too.
        """
        states = tensordict.copy()
        dists: dict[NestedKey, Distribution] = {}
        for step in _flatten_policy(self.actor):
            if hasattr(step, "get_dist"):
                dist = dists[_action_key(step)] = step.get_dist(states)
                set_raw_logits(dist, step, states)
            else:
                states = step(states)
        return next(iter(dists.values())) if len(dists) == 1 else FactoredDistribution(dists)


def _flatten_policy(policy: nn.Module) -> Iterator[Any]:
    """Yield the steps of a policy in order, down to the modules that sample parts of the action."""
    if isinstance(policy, TensorDictSequential):
        for module in policy.module:
            yield from _flatten_policy(module)
    elif isinstance(policy, NormalizedPolicy):
        yield policy.normalizer.normalize_states
        yield from _flatten_policy(policy.policy)
    else:
        yield policy


def _action_key(step: Any) -> NestedKey:
    return unravel_key(step.out_keys[0])
