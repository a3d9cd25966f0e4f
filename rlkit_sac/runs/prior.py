"""Which prior a run is held to: its options, and the module they make."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn
from torchrl.data import Bounded
from torchrl.envs import EnvBase

from rlkit_sac.errors import BatchError, ConfigError, RunError
from rlkit_sac.modules import NormalizedPolicy, PolicyPrior, SameActionPrior, UniformPrior
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.training.bounds import Bound, Check, NonNegativeFloat, PositiveFloat
from rlkit_sac.training.config import TemperatureConfig
from rlkit_sac.training.policy_files import load_policy


@dataclass
class PriorConfig:
    """The policy that the learned one is kept close to.

    >>> PriorConfig(kind="policy").errors()
    [('run', "must name a run directory where kind is 'policy'")]
    """

    kind: Literal["uniform", "same_action", "policy", "factory"] = "uniform"
    """Every action alike, the previous action again, the policy of a run, or a user's own."""

    same_action_prob: Annotated[float, Bound(ge=0, le=1)] = 0.9
    """Weight of the previous action, for same_action."""

    same_action_noise: PositiveFloat = 0.1
    """Standard deviation about the previous action in widths of the action's range, for
    same_action."""

    run: str | None = None
    """Run directory whose trained policy is the prior, for policy."""

    which: Literal["last", "best"] = "last"
    """Checkpoint of run: the newest, or that of the best evaluation."""

    factory: str | None = None
    """module:function that makes a prior of the environment, for factory."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = []
        needs = {"policy": ("run", "a run directory"), "factory": ("factory", "module:function")}
        for kind, (name, what) in needs.items():
            value = getattr(self, name)
            if self.kind == kind and value is None:
                found.append((name, f"must name {what} where kind is {kind!r}"))
            if self.kind != kind and value is not None:
                found.append((name, f"is for kind {kind!r}, but kind is {self.kind!r}"))
        return found

    def checks(self) -> list[Check]:
        """That the run or the function is there."""
        sources = {"policy": ("run", "kind"), "factory": ("factory", "kind")}
        reads = sources.get(self.kind)
        return [] if reads is None else [Check(reads, lambda: _source(self))]


@dataclass
class KLPriorLossConfig(TemperatureConfig):
    """Options of the soft actor-critic loss for continuous actions with a prior.

    >>> KLPriorLossConfig().target_kld_per_dim
    3.0
    """

    target_kld_per_dim: NonNegativeFloat = 3.0
    """Divergence from the prior that the temperature aims at, nats for each action dimension."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""


def make_prior(config: PriorConfig, env: EnvBase) -> nn.Module:
    """The prior of a run.

    Args:
        config: which one.
        env: whose actions it scores.

    Raises:
        ConfigError: for a run or function that is missing, or what it returns.

    >>> from rlkit_sac.envs import make_env
    >>> make_prior(PriorConfig(kind="same_action"), make_env("Pendulum-v1")).in_keys
    ['prev_action', 'is_init']
    """
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
    except Exception as error:  # a user's own function
        raise ConfigError(f"{config.factory} raised {_told(error)}") from error


def check_prior(config: PriorConfig, env: EnvBase) -> None:
    """Refuse a prior that cannot score the actions of a task.

    Args:
        config: which one.
        env: of continuous actions.

    Raises:
        ConfigError: saying what does not fit.

    >>> from rlkit_sac.envs import make_env
    >>> check_prior(PriorConfig(), make_env("Pendulum-v1"))
    """
    action = env.full_action_spec_unbatched.get("action")
    if config.errors() or not isinstance(action, Bounded):
        return  # said elsewhere
    try:
        _source(config)
    except ConfigError:
        return  # said by the check of its option
    prior = make_prior(config, env)
    example = env.fake_tensordict()
    try:
        _check_bounds(prior, env)
        with torch.no_grad():
            frozen = FrozenPrior(prior)
            frozen.log_prob(example.select(*frozen.in_keys), example["action"], "action")
    except (BatchError, ConfigError) as error:
        raise ConfigError(
            f"the prior (prior.kind {config.kind}) does not fit this task: {error}"
        ) from error
    except Exception as error:  # of a user's own module
        raise ConfigError(
            f"the prior (prior.kind {config.kind}) does not fit this task: it raised {_told(error)}"
        ) from error


def _check_bounds(prior: nn.Module, env: EnvBase) -> None:
    """A policy that acts in other bounds has densities in other units."""
    if not isinstance(prior, PolicyPrior):
        return
    policy = prior.actor
    actor = policy.policy if isinstance(policy, NormalizedPolicy) else policy
    own, wanted = getattr(actor, "spec", None), env.full_action_spec_unbatched["action"]
    box = None if own is None else own["action"]
    for name in ("low", "high"):
        bound, here = getattr(getattr(box, "space", None), name, None), getattr(wanted.space, name)
        if bound is not None and (bound.shape != here.shape or not bool((bound == here).all())):
            raise BatchError(
                f"the {name}er bounds of its actions are {bound.tolist()}, but those of the task "
                f"{here.tolist()}: choose env.rescale_actions as in its run"
            )


def _source(config: PriorConfig) -> Any:
    """What a prior is made of: the policy of a run, or the user's function."""
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
        module = importlib.import_module(path)
    except Exception as error:
        raise ConfigError(
            f"cannot import the module {path!r}: {_told(error)}"
            + (". Put its folder on PYTHONPATH" if isinstance(error, ImportError) else "")
        ) from error
    if not callable(getattr(module, function, None)):
        raise ConfigError(f"the module {path!r} has no function {function!r}")
    return getattr(module, function)


def _told(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
