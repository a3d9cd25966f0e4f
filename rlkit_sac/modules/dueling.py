"""The critic of ACER over continuous actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor
from torch.distributions import Distribution
from torchrl.modules import IndependentNormal

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.structure import split_at_reader

#: A function that draws n samples ``[n, *, D]`` from a distribution.
Sampler: TypeAlias = Callable[[Distribution, int], Tensor]


def draw_samples(dist: Distribution, count: int) -> Tensor:
    """Draw independent samples from a distribution.

    Args:
        dist: a reparameterizable distribution with batch shape ``[*]`` over vectors of length D.
        count: the number n of samples.

    Returns:
        The samples ``[n, *, D]``, without gradients.

    >>> draw_samples(IndependentNormal(torch.zeros(3, 2), torch.ones(3, 2)), 5).shape
    torch.Size([5, 3, 2])
    """
    with torch.no_grad():
        return dist.rsample(torch.Size([count]))


class StochasticDuelingNetwork(TensorDictModuleBase):
    r"""A state value and an action value that agree in expectation under the policy.

    .. math:: Q(s, a) = V(s) + A(s, a) - \frac1n \sum_{j=1}^n A(s, u_j), \qquad u_j \sim \pi(s)

    It follows that :math:`E_{a\sim\pi}[Q(s, a)] = V(s)`. New samples are drawn in each evaluation.
    Gradients flow to V and every A, not to the policy.

    The module reads the entries that both networks read, the action included, and the policy's
    ``loc`` and ``scale`` ``[*, D]``. It writes ``state_value`` and ``state_action_value``
    ``[*, 1]``. A loss calls :meth:`state_value` and :meth:`relative_advantage` instead, so that V
    is computed once.

    Args:
        value_network: a network that reads a state and writes V, ``[*, 1]``.
        advantage_network: a network that reads a state and an action and writes A, ``[*, 1]``. It
            is evaluated with an additional leading batch dimension.
        num_samples: the number n of samples. Default: 5.
        sampler: the function that draws the samples. Default: :func:`draw_samples`.
        action_key: the entry in which ``advantage_network`` reads the action.
        value_key: the entry to which ``value_network`` writes V. Default: its last out key.
        advantage_key: the entry to which ``advantage_network`` writes A. Default: its last out key.

    Raises:
        ConfigError: for an advantage network that reads no action.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 13.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.critics import state_action_critic, state_critic
    >>> critic = StochasticDuelingNetwork(state_critic(3), state_action_critic(3, 1))
    >>> critic.in_keys
    ['observation', 'action', 'loc', 'scale']
    >>> shapes = {"observation": 3, "action": 1, "loc": 1, "scale": 1}
    >>> batch = TensorDict({key: torch.ones(5, n) for key, n in shapes.items()}, batch_size=[5])
    >>> critic(batch)["state_action_value"].shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        value_network: TensorDictModuleBase,
        advantage_network: TensorDictModuleBase,
        num_samples: int = 5,
        *,
        sampler: Sampler = draw_samples,
        action_key: NestedKey = "action",
        value_key: NestedKey | None = None,
        advantage_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        advantage_keys = [unravel_key(key) for key in advantage_network.in_keys]
        self.action_key = unravel_key(action_key)
        if self.action_key not in advantage_keys:
            raise ConfigError(
                f"advantage_network reads {advantage_network.in_keys}, not the action "
                f"{action_key!r}: let it read both, or pass action_key="
            )
        self.value_network, self.advantage_network = value_network, advantage_network
        self.num_samples, self.sampler = num_samples, sampler
        self.value_key = value_key or value_network.out_keys[-1]
        self.advantage_key = advantage_key or advantage_network.out_keys[-1]
        self._advantage_state_keys = [key for key in advantage_keys if key != self.action_key]
        states = [*map(unravel_key, value_network.in_keys), *self._advantage_state_keys]
        self.observed_keys = list(dict.fromkeys(states))
        self.in_keys = [*self.observed_keys, self.action_key, "loc", "scale"]
        self.out_keys = ["state_value", "state_action_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the values into ``tensordict`` and return it."""
        dist = IndependentNormal(tensordict.get("loc"), tensordict.get("scale"))
        value = self.state_value(tensordict)
        advantage = self.relative_advantage(tensordict, tensordict.get(self.action_key), dist)
        tensordict.set("state_value", value)
        return tensordict.set("state_action_value", value + advantage)

    def state_value(self, states: TensorDictBase) -> Tensor:
        """Return the value V, ``[*, 1]``.

        Args:
            states: the inputs of ``value_network``; not changed.
        """
        network = self.value_network
        return network(states.select(*network.in_keys)).get(self.value_key)

    def relative_advantage(
        self, states: TensorDictBase, action: Tensor, dist: Distribution
    ) -> Tensor:
        r"""Return the difference :math:`Q - V`, ``[*, 1]``.

        Args:
            states: the inputs of ``advantage_network`` except the action; not changed.
            action: the action ``[*, D]``.
            dist: the policy at the states.
        """
        samples = self.sampler(dist, self.num_samples).detach()
        actions = torch.cat([action.unsqueeze(0), samples.to(action.dtype)])
        states = states.select(*self._advantage_state_keys)
        state_parts, action_parts = split_at_reader(self.advantage_network, self.action_key)
        for part in state_parts:  # such as an encoder, once for all actions
            states = part(states)
        inputs = states.expand(len(actions), *states.batch_size).set(self.action_key, actions)
        for part in action_parts:
            inputs = part(inputs)
        advantage = inputs.get(self.advantage_key)
        return advantage[0] - advantage[1:].mean(0)
