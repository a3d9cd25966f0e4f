"""Epsilon-greedy evaluation."""

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type

from rlkit_sac.errors import ConfigError


class EpsilonGreedy(TensorDictModuleBase):
    r"""A policy whose deterministic mode takes a sample with a small probability.

    Each environment of a batch draws independently. A sample may be the greedy action too, which
    therefore has the probability :math:`1-\varepsilon+\varepsilon\,\pi(a^*|s)`. With TorchRL's
    exploration type ``RANDOM`` the policy samples as usual.

    Args:
        policy: any module that obeys TorchRL's exploration types.
        epsilon: probability of a sample, in [0, 1].

    Raises:
        ConfigError: for another epsilon.

    Source: ``epsilon_greedy`` of ALF's ``SacAlgorithm``.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.actors import tanh_gaussian_actor
    >>> policy = EpsilonGreedy(tanh_gaussian_actor(3, [-1.0], [1.0]), 0.1)
    >>> policy(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """

    def __init__(self, policy: TensorDictModuleBase, epsilon: float) -> None:
        super().__init__()
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"epsilon must be in [0, 1], not {epsilon}")
        self.policy, self.epsilon = policy, epsilon
        self.in_keys, self.out_keys = list(policy.in_keys), list(policy.out_keys)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action into ``tensordict`` and return it."""
        if exploration_type() is ExplorationType.RANDOM:
            return self.policy(tensordict)
        outs = []
        for mode in (ExplorationType.DETERMINISTIC, ExplorationType.RANDOM):
            with set_exploration_type(mode):
                outs.append(self.policy(tensordict.copy()))
        greedy, sampled = outs
        explore = torch.rand(tensordict.batch_size, device=tensordict.device) < self.epsilon
        for key in self.out_keys:
            first, second = greedy.get(key), sampled.get(key)
            each = explore.reshape((*explore.shape, *(1,) * (first.ndim - explore.ndim)))
            tensordict.set(key, torch.where(each.to(first.device), second, first))
        return tensordict
