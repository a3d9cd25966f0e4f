"""What a run has from before: a prior policy, and transitions."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import nn
from torchrl.data import Bounded, Composite
from torchrl.envs import EnvBase

from rlkit_sac.config import PriorConfig
from rlkit_sac.data.replay.prior_data import fitting
from rlkit_sac.errors import ConfigError, RlkitSacError, RunError, named, summary
from rlkit_sac.modules import PolicyPrior, SameActionPrior, UniformPrior
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.policy import find_policy, load_policy, stored_task
from rlkit_sac.runs.resume import check_units


def make_prior(config: PriorConfig, env: EnvBase) -> nn.Module | None:
    """The prior of a run, if it has one.

    Args:
        config: which one.
        env: whose actions it scores.

    Raises:
        ConfigError: for a run or function that is missing, what it returns, or a prior that cannot
            score the actions of the task.

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
        with named("prior.run"):
            folder = find_policy(Path(config.run), config.which)
            check_units(stored_task(folder), env, config.run)
            prior = PolicyPrior(load_policy(folder).to(env.device))
    else:
        assert config.factory is not None
        with named("prior.factory"):
            try:
                prior = pkgutil.resolve_name(config.factory)(env)
            except ConfigError:
                raise
            except (Exception, SystemExit) as error:  # a user's own function
                raise ConfigError(f"{config.factory}: {summary(error)}") from error
    try:
        _score(prior, env)
    except Exception as error:  # also of a user's own module
        reason = error if isinstance(error, RlkitSacError) else f"it raised {summary(error)}"
        raise ConfigError(
            f"prior.kind: the prior ({config.kind}) does not fit this task, whose observations and "
            f"actions it must have: {reason}"
        ) from error
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


def check_prior_data(
    data: TensorDictBase, transition: TensorDictBase, action_spec: Composite
) -> TensorDictBase:
    """Transitions with the entries that replay stores, and actions of the task.

    Args:
        data: ``[*]``.
        transition: one, without batch dimensions.
        action_spec: of the task, of one environment.

    Returns:
        ``[n]``.

    Raises:
        ConfigError: naming the entry that is missing, of another shape or type, not finite, or an
            action that the task does not have.

    >>> from torchrl.data import Categorical
    >>> data = TensorDict(action=torch.tensor([0, 7]), batch_size=[2])
    >>> spec = Composite(action=Categorical(2))
    >>> check_prior_data(data, data[0], spec)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: 'action' of the prior data goes from 0 to 7, in the task from ...
    """
    rows = fitting(data, transition)
    for key, part in action_spec.items(True, True):
        given = rows.get(key)
        if isinstance(part, Bounded):
            low, high = part.space.low.cpu(), part.space.high.cpu()
            slack = (high - low) * 5e-4
        else:
            low, high = torch.tensor(0), torch.tensor(part.space.n - 1)
            slack = torch.tensor(0)
        if ((given < low - slack) | (given > high + slack)).any():
            raise ConfigError(
                f"{key!r} of the prior data goes from {given.min().item():.4g} to "
                f"{given.max().item():.4g}, in the task from {low.tolist()} to {high.tolist()}: "
                "choose the task and env.rescale_actions as in the data"
            )
    return rows


def read_prior_data(
    path: Path | str, env: EnvBase | None = None, *, gamma: float | None = None
) -> TensorDictBase:
    """Transitions of a run's replay, or of a TensorDict on disk.

    Args:
        path: run directory, for the replay of its newest checkpoint (under ``torchrun``, that of
            its first process), or one of its ``checkpoints/step_<frames>``; or a folder that
            ``TensorDict.save`` wrote.
        env: whose actions must have the units of those of the run. Default: any.
        gamma: discount that the rewards of transitions of several steps must have been summed with.
            Default: any.

    Returns:
        ``[*]``, on the CPU.

    Raises:
        ConfigError: naming the folder, if it holds neither, or a file is damaged; or for actions in
            other units, or another discount.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = TensorDict(observation=torch.zeros(5, 3), batch_size=[5]).save(folder)
    >>> read_prior_data(folder).shape
    torch.Size([5])
    """
    folder = Path(path)
    if (folder / "meta.json").is_file():
        try:
            return TensorDict.load_memmap(folder, allow_pickle=False)
        except Exception as error:  # any error that wrong content of a file can cause
            raise ConfigError(f"{path} cannot be read: {summary(error)}") from error
    start = Checkpoint.find(folder)
    try:
        if env is not None:
            check_units(stored_task(start.folder), env, path)
        own = start.config.get("loss.gamma")
        if start.config.get("replay.n_steps", 1) > 1 and gamma not in (None, own):
            raise ConfigError(f"{path} has rewards of several steps, summed with gamma {own}")
        capacity = start.state()["replay"]["capacity"]
        return torch.cat([rows for _, rows in start.replay()])[-capacity:]
    except RunError as error:
        raise ConfigError(str(error)) from error
