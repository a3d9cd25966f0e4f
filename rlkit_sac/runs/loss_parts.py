"""What a run gives its networks and its loss: memories, the prior and the normalizers."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from tensordict import NestedKey
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs import EnvBase

from rlkit_sac.config import Check, LayersConfig, NetworkConfig, NormalizationConfig, PriorConfig
from rlkit_sac.envs import observation_layout, reward_dim
from rlkit_sac.errors import ConfigError, RlkitSacError, RunError, summary
from rlkit_sac.modules import (
    EncoderOptions,
    MemoryOptions,
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    observation_encoder,
)
from rlkit_sac.modules.encoders import is_vector
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.runs.machine import learner_group
from rlkit_sac.runs.policies.files import load_policy


def check_prior_source(config: PriorConfig) -> list[Check]:
    """A check that the run or the function that a prior comes from is there.

    Args:
        config: which prior.

    >>> check_prior_source(PriorConfig())
    []
    """
    reads = {"policy": ("prior.run", "prior.kind"), "factory": ("prior.factory", "prior.kind")}
    if config.kind not in reads:
        return []
    return [Check(reads[config.kind], lambda: _source(config))]


def make_prior(config: PriorConfig, env: EnvBase) -> nn.Module | None:
    """The prior of a run, if it has one.

    Args:
        config: which one.
        env: whose actions it scores.

    Raises:
        ConfigError: for a run or function that is missing, or what it returns.

    >>> from rlkit_sac.envs import make_env
    >>> make_prior(PriorConfig(kind="same_action"), make_env("Pendulum-v1")).in_keys
    ['prev_action', 'is_init']
    """
    if config.kind == "none":
        return None
    if config.kind == "uniform":
        return UniformPrior(env.full_action_spec_unbatched)
    if config.kind == "same_action":
        return SameActionPrior(
            env.full_action_spec_unbatched, config.same_action_prob, config.same_action_noise
        )
    source = _source(config)
    if config.kind == "policy":
        return PolicyPrior(source.to(env.device))
    try:
        return source(env)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a user's own function
        raise ConfigError(f"{config.factory} raised {summary(error)}") from error


def check_prior(config: PriorConfig, env: EnvBase) -> None:
    """Refuse a prior that cannot score the actions of a task.

    Args:
        config: which one.
        env: the task.

    Raises:
        ConfigError: saying what does not fit.

    >>> from rlkit_sac.envs import make_env
    >>> check_prior(PriorConfig(), make_env("Pendulum-v1"))
    """
    if config.errors():
        return  # reported by other checks
    try:
        _source(config)
    except ConfigError:
        return  # reported by check_prior_source
    if (prior := make_prior(config, env)) is None:
        return
    example = env.fake_tensordict()
    try:
        with torch.no_grad():
            frozen = FrozenPrior(prior)
            states = example.select(*frozen.in_keys, "action")
            for key, part in env.full_action_spec_unbatched.items(True, True):
                if isinstance(part, Bounded):
                    _check_bounds(prior, key, part)
                    frozen.log_prob(states, example[key], key)
                else:
                    found = frozen.log_prob_of_each_action(states, part.space.n, key)
                    if (count := found.shape[-1]) != part.space.n:
                        text = f"it has {count} discrete actions, the task {part.space.n}"
                        raise ConfigError(text)
    except Exception as error:  # also of a user's own module
        reason = error if isinstance(error, RlkitSacError) else f"it raised {summary(error)}"
        raise ConfigError(
            f"the prior (prior.kind {config.kind}) does not fit this task, whose observations and "
            f"actions it must have: {reason}"
        ) from error


def _check_bounds(prior: nn.Module, key: NestedKey, part: Bounded) -> None:
    """Refuse a policy with other action bounds, whose densities have other units."""
    wanted = [part.space.low.tolist(), part.space.high.tolist()]
    for module in prior.modules() if isinstance(prior, PolicyPrior) else ():
        spec = getattr(module, "spec", None)
        found = spec.get(key, None) if isinstance(spec, Composite) else None
        if not isinstance(found, Bounded):
            continue
        if (own := [found.space.low.tolist(), found.space.high.tolist()]) != wanted:
            raise ConfigError(
                f"the bounds of its actions are {own}, but those of the task {wanted}: choose "
                "env.rescale_actions as in its run"
            )


def _source(config: PriorConfig) -> Any:
    """The policy of a run, or the user's function, that a prior is made from."""
    if config.kind == "policy":
        assert config.run is not None
        try:
            return load_policy(config.run, which=config.which)
        except RunError as error:
            raise ConfigError(str(error)) from error
    if config.kind == "factory":
        assert config.factory is not None
        return _imported(config.factory)
    return None


def _imported(name: str) -> Any:
    path, colon, function = name.partition(":")
    if not (colon and path and function):
        raise ConfigError(f"must be written module:function, got {name!r}")
    try:
        return getattr(importlib.import_module(path), function)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"cannot import {function!r} from {path!r}: {summary(error)}"
            + (". Put its folder on PYTHONPATH" if isinstance(error, ImportError) else "")
        ) from error


def memory_options(config: LayersConfig, env: EnvBase) -> MemoryOptions | None:
    """The argument ``memory`` of a builder of networks, which reads the previous action too.

    Args:
        config: which memory.
        env: of the training.

    >>> from rlkit_sac.envs import make_env
    >>> memory_options(LayersConfig(memory="gru"), make_env("CartPole-v1"))
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


def observation_inputs(config: LayersConfig, env: EnvBase) -> int | EncoderOptions:
    """The argument ``observation_dim`` of networks: the length of a vector, or an encoder.

    Networks that share an encoder read its features.

    Args:
        config: which encoder, if the task has images.
        env: whose observations the networks read.

    >>> from rlkit_sac.envs import make_env
    >>> observation_inputs(LayersConfig(), make_env("CartPole-v1"))
    4
    """
    layout = observation_layout(env)
    if is_vector(layout):
        return int(layout[0]["shape"][0])
    if getattr(config, "shared_encoder", False):
        with torch.device("meta"):
            encoder = observation_encoder(layout, config.encoder, config.encoder_features)
        return {"layout": [{"key": "features", "shape": [encoder.module.num_features]}]}
    return {"layout": layout, "kind": config.encoder, "features": config.encoder_features}


def shared_encoder(config: NetworkConfig, env: EnvBase) -> TensorDictModule | None:
    """The argument ``encoder_network`` of a loss: the encoder that its networks share, if any.

    Args:
        config: which encoder.
        env: whose observations it reads.

    >>> from rlkit_sac.envs import make_env
    >>> shared_encoder(NetworkConfig(), make_env("CartPole-v1")) is None
    True
    """
    if not config.shared_encoder:
        return None
    layout = observation_layout(env)
    return observation_encoder(layout, config.encoder, config.encoder_features).to(env.device)


def make_normalizers(
    config: NormalizationConfig, env: EnvBase, *, gamma: float
) -> dict[str, nn.Module]:
    """The keyword arguments of a loss for what a configuration asks to normalize.

    Args:
        config: what to normalize.
        env: of the training.
        gamma: discount per frame.

    Raises:
        ConfigError: for observations to normalize that have no vector.

    >>> from rlkit_sac.envs import make_env
    >>> config = NormalizationConfig(rewards=True)
    >>> list(make_normalizers(config, make_env("Pendulum-v1"), gamma=0.99))
    ['reward_normalizer']
    """
    device = env.device or torch.device("cpu")
    dtype = torch.float32 if device.type == "mps" else torch.float64  # which MPS does not have
    found: dict[str, nn.Module] = {}
    if config.observations:
        (*_, last) = observation_layout(env)  # images come first
        if "scale" in last or len(last["shape"]) > 1:
            raise ConfigError(
                "normalization.observations is for vectors, but the task has none (pixels are "
                "divided by their largest value already): set it to false"
            )
        found["observation_normalizer"] = ObservationNormalizer(
            last["shape"][0], clip=config.clip, dtype=dtype, group=learner_group()
        ).to(device)
    if config.rewards:
        found["reward_normalizer"] = RewardNormalizer(
            gamma,
            num_envs=env.batch_size.numel(),
            reward_dim=reward_dim(env),
            clip=config.clip,
            bounded=config.rewards == "bounded",
            dtype=dtype,
            group=learner_group(),
        ).to(device)
    return found
