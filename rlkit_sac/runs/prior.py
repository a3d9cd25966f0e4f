"""The prior policy of a run."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import torch
from tensordict import NestedKey
from torch import nn
from torchrl.data import Bounded, Composite
from torchrl.envs import EnvBase

from rlkit_sac.config import PriorConfig
from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.modules import PolicyPrior, SameActionPrior, UniformPrior
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.runs.policy import find_policy, load_policy, stored_task
from rlkit_sac.runs.units import check_units


def make_prior(config: PriorConfig, env: EnvBase) -> nn.Module | None:
    """Return the prior of a run, if it has one.

    Args:
        config: the options of the prior.
        env: the environment whose actions it scores.

    Raises:
        ConfigError: for a run or function that is missing, a function that returns no prior, or a
            prior that cannot score the actions of the task.

    >>> from rlkit_sac.envs import make_env
    >>> make_prior(PriorConfig(kind="same_action"), make_env("Pendulum-v1")).in_keys
    ['prev_action', 'is_init']
    """
    spec = env.full_action_spec_unbatched
    prior: nn.Module
    if config.kind == "none":
        return None
    if config.kind == "uniform":
        prior = UniformPrior(spec)
    elif config.kind == "same_action":
        prior = SameActionPrior(spec, config.same_action_prob, config.same_action_noise)
    elif config.kind == "policy":
        assert config.run is not None
        with prefix_errors("prior.run"):
            folder = find_policy(Path(config.run), config.which)
            check_units(stored_task(folder), env, config.run)
            prior = PolicyPrior(load_policy(folder).to(env.device))
    else:
        assert config.factory is not None
        with prefix_errors(f"prior.factory: {config.factory}", Exception, SystemExit):
            prior = pkgutil.resolve_name(config.factory)(env)
    text = f"prior.kind: the prior ({config.kind}) does not fit this task"
    with prefix_errors(text, Exception):  # also of a user's own module
        _score(prior, env)
    return prior


def _score(prior: nn.Module, env: EnvBase) -> None:
    """Score actions of the task, as the loss will."""
    example = env.fake_tensordict()
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
                    raise ConfigError(f"it has {count} discrete actions, the task {part.space.n}")


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
