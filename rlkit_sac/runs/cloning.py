"""Policies cloned from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch.optim import Adam
from torchrl.data import Bounded
from torchrl.envs import EnvBase

from rlkit_sac.data.replay.prior_data import fitting
from rlkit_sac.data.replay.transition import example_transition
from rlkit_sac.envs import observation_dim
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import PolicyPrior, categorical_actor, tanh_gaussian_actor
from rlkit_sac.modules.acting import acting_policy

#: Where actions are at most, from -1 to 1: at its bounds a tanh is infinitely far away.
_LARGEST_ACTION = 0.99


def clone_policy(
    data: TensorDictBase,
    env: EnvBase,
    *,
    num_cells: Sequence[int] = (256, 256),
    log_std_min: float = -2.0,
    updates: int = 5_000,
    batch_size: int = 256,
    lr: float = 1e-3,
) -> TensorDictModuleBase:
    r"""A policy that acts as in some data: behavioral cloning, by maximum likelihood.

    .. math:: \max_\theta\ \mathbb{E}\,[\log \pi_\theta(a^d \mid s) + \log \pi_\theta(a^c \mid s)]

    with the discrete and the continuous part of the action, or the one that there is. Continuous
    actions are first moved to within 99 % of their bounds. Batches and weights are drawn from
    torch's global generator.

    Args:
        data: transitions ``[*]`` with observations and actions as the task has them.
        env: the task, made by :func:`~rlkit_sac.envs.make_env`.
        num_cells: widths of the hidden layers.
        log_std_min: smallest log standard deviation of continuous actions before the tanh. Data
            with one action for each state would make it as small as it may be, and as a prior it
            would allow no other.
        updates: steps of Adam.
        batch_size: transitions of each.
        lr: learning rate.

    Returns:
        The policy, in evaluation mode.

    Raises:
        ConfigError: for data that do not fit the task or its bounds of actions, or observations
            that are not vectors.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.envs import make_env
    >>> data = TensorDict(observation=torch.rand(9, 4), action=torch.ones(9).long(), batch_size=[9])
    >>> policy = clone_policy(data, make_env("CartPole-v1"), updates=100)
    >>> policy(data.select("observation"))["action"]
    tensor([1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    size, parts = observation_dim(env), dict(env.full_action_spec_unbatched.items(True, True))
    rows = fitting(data, example_transition(env, ["observation", *parts])).to(env.device).clone()
    actors: list[TensorDictModuleBase] = []
    for key, part in parts.items():
        options: dict[str, Any] = {"num_cells": num_cells, "action_key": key}
        if not isinstance(part, Bounded):
            actors.append(categorical_actor(size, part.space.n, **options))
            continue
        low, high = part.space.low, part.space.high
        middle, half = (low + high) / 2, (high - low) / 2
        off_middle = (rows.get(key) - middle) / half
        if (largest := off_middle.abs().max()) > 1.001:
            raise ConfigError(
                f"{key!r} of the data is up to {largest:.3g} times as large as its bounds: choose "
                "env.rescale_actions as in the data"
            )
        rows.set(key, middle + half * off_middle.clamp(-_LARGEST_ACTION, _LARGEST_ACTION))
        options["log_std_min"] = log_std_min
        actors.append(tanh_gaussian_actor(size, low.tolist(), high.tolist(), **options))
    policy = acting_policy(actors).to(env.device)
    scored, optimizer = PolicyPrior(policy), Adam(policy.parameters(), lr=lr)
    for _ in range(updates):
        batch = rows[torch.randint(len(rows), (batch_size,), device=rows.device)]
        value = batch if len(parts) > 1 else batch["action"]
        loss = -scored.get_dist(batch).log_prob(value).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy.eval()
