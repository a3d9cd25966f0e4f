"""Policies made of other policies: epsilon-greedy, the policies of losses, plain for deployment."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase, unravel_key
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.distributions import sampling_noise
from rlkit_sac.modules.memory import next_key, policy_states
from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer


class EpsilonGreedy(TensorDictModuleBase):
    r"""A policy whose deterministic mode takes a sample with a small probability.

    Each environment of a batch decides independently. A sample may also be the greedy action, whose
    probability is therefore :math:`1-\varepsilon+\varepsilon\,\pi(a^*|s)`. With TorchRL's
    exploration type ``RANDOM`` the policy samples as usual.

    Args:
        policy: any module that obeys TorchRL's exploration types.
        epsilon: the probability of a sample, in [0, 1].

    Raises:
        ConfigError: for an epsilon outside [0, 1].

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
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            greedy_out = self.policy(tensordict.copy())
        with set_exploration_type(ExplorationType.RANDOM):
            sampled_out = self.policy(tensordict.copy())
        explore = torch.rand(tensordict.batch_size, device=tensordict.device) < self.epsilon
        for key in self.out_keys:
            greedy, sampled = greedy_out.get(key), sampled_out.get(key)
            mask = explore.reshape((*explore.shape, *(1,) * (greedy.ndim - explore.ndim)))
            tensordict.set(key, torch.where(mask.to(greedy.device), sampled, greedy))
        return tensordict


class CorrelatedNoise(TensorDictModuleBase):
    """A policy whose samples use the noise in the entry ``exploration_noise``.

    The noise ``[*, D]`` replaces the standard normal numbers of its :class:`TanhGaussian`. Other
    exploration types than TorchRL's ``RANDOM`` do not read it.

    Args:
        policy: a policy with continuous actions.

    Raises:
        ConfigError: when it acts, if the policy draws no :class:`TanhGaussian`.

    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> CorrelatedNoise(tanh_gaussian_actor(3, [-1.0], [1.0])).in_keys
    ['observation', 'exploration_noise']
    """

    def __init__(self, policy: TensorDictModuleBase) -> None:
        super().__init__()
        self.policy = policy
        self.in_keys = [*policy.in_keys, "exploration_noise"]
        self.out_keys = list(policy.out_keys)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action into ``tensordict`` and return it."""
        if exploration_type() is not ExplorationType.RANDOM:
            return self.policy(tensordict)
        with sampling_noise(tensordict.get("exploration_noise")):
            return self.policy(tensordict)


def acting_policy(
    parts: Sequence[TensorDictModuleBase],
    normalizer: ObservationNormalizer | None = None,
    *,
    epsilon: float | None = None,
    encoder: TensorDictModuleBase | None = None,
) -> TensorDictModuleBase:
    """Return an actor, a Boltzmann policy, or one after the other, as one module.

    Args:
        parts: the modules that act, in order.
        normalizer: the normalizer of the observations that the parts read.
        epsilon: the probability of a sample in the deterministic mode of each part, see
            :class:`EpsilonGreedy`. Default: 0.
        encoder: an encoder, which runs before the parts.

    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> acting_policy([tanh_gaussian_actor(3, [-1.0], [1.0])], epsilon=0.1).in_keys
    ['observation']
    """
    if epsilon is not None:
        parts = [EpsilonGreedy(part, epsilon) for part in parts]
    if encoder is not None:
        parts = [encoder, *parts]
    policy = parts[0] if len(parts) == 1 else TensorDictSequential(*parts)
    return policy if normalizer is None else NormalizedPolicy(policy, normalizer)


class PlainPolicy(nn.Module):
    """The deterministic mode of a policy, as a function from tensors to tensors.

    It is a copy in evaluation mode, so later training does not change it. Unlike TorchRL's modules
    it can be exported with ``torch.export``.

    Args:
        policy: the result of a loss's ``policy()``, or a loaded policy.

    Attributes:
        in_keys: names of the input tensors, in order.
        action_keys: names of the actions: ``action`` or the entries nested under it, without
            log-probabilities, in the order of the policy's ``out_keys``.
        out_keys: names of the output tensors: the actions, and if the policy has a memory, the
            states for the next step. Several outputs are returned as a tuple in this order.

    >>> from rlkit_sac.modules.actors import tanh_gaussian_actor
    >>> plain = PlainPolicy(tanh_gaussian_actor(3, [-1.0], [1.0]))
    >>> program = torch.export.export(plain, (torch.zeros(1, 3),))
    >>> program.module()(torch.zeros(1, 3)).shape
    torch.Size([1, 1])
    """

    def __init__(self, policy: TensorDictModuleBase) -> None:
        super().__init__()
        paths = [(key,) if isinstance(key, str) else key for key in policy.out_keys]
        actions = [path for path in paths if path[0] == "action"]
        self.action_keys: list[NestedKey] = [
            unravel_key(path) for path in actions if not path[-1].endswith("_log_prob")
        ]
        self.in_keys = [unravel_key(key) for key in policy.in_keys]
        self.out_keys = [*self.action_keys, *map(next_key, policy_states(policy))]
        self.policy = deepcopy(policy).eval().requires_grad_(False)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return the greedy action ``[B, ...]`` of each state.

        Args:
            *inputs: one tensor ``[B, ...]`` for each of ``in_keys``.
        """
        states = dict(zip(self.in_keys, inputs, strict=True))
        batch = TensorDict(states, batch_size=inputs[0].shape[:1])
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            out = self.policy(batch)
        outputs = tuple(out.get(key) for key in self.out_keys)
        return outputs[0] if len(outputs) == 1 else outputs
