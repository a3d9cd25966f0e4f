"""Networks from options: builders, sizes, encoders and normalizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Categorical
from torchrl.envs import EnvBase

from rlkit_sac.config import BaseNetworkConfig, NetworkConfig, NormalizationConfig
from rlkit_sac.envs import critic_layout, observation_layout, reward_dim
from rlkit_sac.envs.observations import CRITIC_OBSERVATION
from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.modules import EncoderOptions, MemoryOptions, observation_encoder
from rlkit_sac.modules.blueprints import custom_network
from rlkit_sac.modules.encoders import is_single_vector
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.runs.machine import learner_group

_M = TypeVar("_M", bound=nn.Module)


def has_images(env: EnvBase) -> bool:
    """Return whether a task is observed by images.

    >>> from rlkit_sac.envs import make_env
    >>> has_images(make_env("Pendulum-v1"))
    False
    """
    return any("scale" in entry for entry in observation_layout(env))


def build_network(config: BaseNetworkConfig, default: Callable[..., _M], **arguments: Any) -> _M:
    """Return a network by ``config.builder``, or by the function of the package.

    Args:
        config: the options with the builder.
        default: the builder of the package.
        arguments: arguments of the network, JSON values.

    Raises:
        ConfigError: if the builder made no network.

    >>> from rlkit_sac.modules import categorical_actor
    >>> sizes = {"observation_dim": 3, "num_actions": 2}
    >>> build_network(BaseNetworkConfig(), categorical_actor, **sizes).out_keys
    ['logits', 'action']
    """
    if config.builder is None:
        with prefix_errors("network"):
            return default(**arguments)
    with prefix_errors("network.builder"):
        return cast(_M, custom_network(config.builder, default.__name__, arguments))


def memory_options(config: BaseNetworkConfig, env: EnvBase) -> MemoryOptions | None:
    """Return the argument ``memory`` of a builder; a memory also reads the previous action.

    Args:
        config: the options with the kind and size of the memory.
        env: the environment for training.

    >>> from rlkit_sac.envs import make_env
    >>> memory_options(BaseNetworkConfig(memory="gru"), make_env("CartPole-v1"))
    {'kind': 'gru', 'size': 64, 'layers': 1, 'action_dim': 0, 'num_actions': 2}
    """
    if config.memory == "none":
        return None
    specs = list(env.full_action_spec_unbatched.values(True, True))
    counts = [spec.space.n for spec in specs if isinstance(spec, Categorical)]
    lengths = [spec.shape[-1] for spec in specs if not isinstance(spec, Categorical)]
    return {
        "kind": config.memory,
        "size": config.memory_size,
        "layers": config.memory_layers,
        "action_dim": sum(lengths),
        "num_actions": sum(counts),
    }


def observation_inputs(config: BaseNetworkConfig, env: EnvBase) -> int | EncoderOptions:
    """Return the argument ``observation_dim`` of networks: the length of a vector, or an encoder.

    Networks that share an encoder read its features.

    Args:
        config: the options with the encoder, for tasks with images.
        env: the environment with the observations.

    >>> from rlkit_sac.envs import make_env
    >>> observation_inputs(BaseNetworkConfig(), make_env("CartPole-v1"))
    4
    """
    return _inputs(config, env, observation_layout(env))


def critic_inputs(config: BaseNetworkConfig, env: EnvBase) -> int | EncoderOptions:
    """Return the same as :func:`observation_inputs`, for critics, which may read more.

    >>> from rlkit_sac.envs import make_env
    >>> critic_inputs(BaseNetworkConfig(), make_env("CartPole-v1"))
    4
    """
    return _inputs(config, env, critic_layout(env))


def _inputs(config: BaseNetworkConfig, env: EnvBase, layout: Any) -> int | EncoderOptions:
    if is_single_vector(layout) and layout[0]["key"] == "observation":
        return int(layout[0]["shape"][0])
    if getattr(config, "shared_encoder", False):
        with torch.device("meta"):
            encoder = observation_encoder(layout, config.encoder, config.encoder_features)
        return {"layout": [{"key": "features", "shape": [encoder.module.num_features]}]}
    return {"layout": layout, "kind": config.encoder, "features": config.encoder_features}


def shared_encoder(config: NetworkConfig, env: EnvBase) -> TensorDictModule | None:
    """Return the argument ``encoder_network`` of a loss: a shared encoder, or ``None``.

    Args:
        config: the options with the encoder.
        env: the environment with the observations.

    Raises:
        ConfigError: for a task without images.

    >>> from rlkit_sac.envs import make_env
    >>> shared_encoder(NetworkConfig(), make_env("CartPole-v1")) is None
    True
    """
    if not config.shared_encoder:
        return None
    if not has_images(env):
        raise ConfigError(
            "network.shared_encoder: is true, but the task has no images: leave it out"
        )
    layout = observation_layout(env)
    return observation_encoder(layout, config.encoder, config.encoder_features).to(env.device)


def make_normalizers(
    config: NormalizationConfig, env: EnvBase, *, gamma: float
) -> dict[str, nn.Module]:
    """Return the normalizers of a loss, by the name of its keyword argument.

    Args:
        config: the options of normalization.
        env: the environment for training.
        gamma: discount per frame.

    >>> from rlkit_sac.envs import make_env
    >>> config = NormalizationConfig(rewards=True)
    >>> list(make_normalizers(config, make_env("Pendulum-v1"), gamma=0.99))
    ['reward_normalizer']
    """
    device = env.device or torch.device("cpu")
    dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
    shared: Any = {"clip": config.clip, "dtype": dtype, "group": learner_group()}
    normalizers: dict[str, nn.Module] = {}
    if config.observations:
        # The vector comes last; the pixels of images are divided by their largest value already.
        entries = {"observation_normalizer": observation_layout(env)[-1]}
        if (critic_entry := critic_layout(env)[-1])["key"] == CRITIC_OBSERVATION:
            entries["critic_normalizer"] = critic_entry
        for name, entry in entries.items():
            if "scale" in entry or len(entry["shape"]) > 1:
                continue
            normalizers[name] = ObservationNormalizer(entry["shape"][0], key=entry["key"], **shared)
    if config.rewards:
        normalizers["reward_normalizer"] = RewardNormalizer(
            gamma,
            num_envs=env.batch_size.numel(),
            reward_dim=reward_dim(env),
            bounded=config.rewards == "bounded",
            **shared,
        )
    return {name: normalizer.to(device) for name, normalizer in normalizers.items()}
