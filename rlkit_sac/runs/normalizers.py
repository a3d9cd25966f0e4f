"""From a configuration to the normalizers of a loss."""

from __future__ import annotations

import torch
from torch import nn
from torchrl.envs import EnvBase

from rlkit_sac.config import NormalizationConfig
from rlkit_sac.envs import observation_dim, reward_dim
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer


def make_normalizers(
    config: NormalizationConfig, env: EnvBase, *, gamma: float
) -> dict[str, nn.Module]:
    """The keyword arguments of a loss for what a configuration asks to normalize.

    Args:
        config: what to normalize.
        env: of the training.
        gamma: discount per frame.

    >>> from rlkit_sac.envs import make_env
    >>> config = NormalizationConfig(rewards=True)
    >>> list(make_normalizers(config, make_env("Pendulum-v1"), gamma=0.99))
    ['reward_normalizer']
    """
    device = env.device or torch.device("cpu")
    dtype = torch.float32 if device.type == "mps" else torch.float64  # which MPS does not have
    found: dict[str, nn.Module] = {}
    if config.observations:
        found["observation_normalizer"] = ObservationNormalizer(
            observation_dim(env), clip=config.clip, dtype=dtype
        ).to(device)
    if config.rewards:
        found["reward_normalizer"] = RewardNormalizer(
            gamma,
            num_envs=env.batch_size.numel(),
            reward_dim=reward_dim(env),
            clip=config.clip,
            dtype=dtype,
        ).to(device)
    return found
