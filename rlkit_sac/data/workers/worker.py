"""One process that collects for a run: its environments, its collector, its part of each batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import NestedKey, TensorDict, TensorDictBase, unravel_key
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.envs import EnvBase

from rlkit_sac.data.collect.collector import LocalCollector, make_collector
from rlkit_sac.data.collect.uniform_policy import uniform_policy
from rlkit_sac.envs import load_episodes

_ENDLESS = 2**50  # the learner counts the frames of the run


@dataclass(eq=False, repr=False)
class Worker:
    """Collects frames of its own environments when it is asked.

    It does not depend on Ray. :meth:`start` or the first request makes its environments and
    collector; an error there is the answer to that request.

    Args:
        create_env: a function called as ``create_env(first_index=i)``, which makes the environments
            i, i + 1, ... of the run.
        policy: the worker's own copy of the acting policy, on the CPU.
        index: number of the worker, from 0.
        num_envs: environments of each worker.
        joined: number of workers whose frames are one batch. The policy then acts for the
            environments of all of them (:class:`PaddedPolicy`), so that it draws the same numbers
            as one process with all these environments.
        first_index: index of the first environment of the first worker.
        frames_per_batch: frames of all environments of the worker together.
        episodes: number of the episode with which each environment begins.
        seed: seed of Python's and NumPy's global generators, for environments that draw from them.
        init_random_frames: the same argument of :func:`~rlkit_sac.data.make_collector`, in frames
            of the run.
        random_policy: the same argument of `make_collector`.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> from functools import partial
    >>> worker = Worker(
    ...     partial(make_env, "Pendulum-v1"), tanh_gaussian_actor(3, [-1.0], [1.0]),
    ...     index=0, num_envs=1, frames_per_batch=5,
    ... )
    >>> entries, _ = worker.collect(0, torch.get_rng_state().numpy())
    >>> entries["observation"].shape
    (1, 5, 3)
    """

    create_env: Callable[..., EnvBase]
    policy: TensorDictModuleBase
    _: KW_ONLY
    index: int
    num_envs: int
    frames_per_batch: int
    joined: int = 1
    first_index: int = 0
    episodes: Sequence[int] = ()
    seed: int = 0
    init_random_frames: int = 0
    random_policy: TensorDictModuleBase | None = None

    def __post_init__(self) -> None:
        self._first_env = self.first_index + self.index * self.num_envs
        self._failed = False

    def start(self) -> None:
        """Make the environments and the collector, unless they are there."""
        _ = self._collector

    @cached_property
    def _collector(self) -> LocalCollector:
        torch.set_num_threads(1)
        derived = np.random.SeedSequence([self.seed, self._first_env]).generate_state(2)
        random.seed(int(derived[0]))
        np.random.seed(derived[1])
        env = self.create_env(first_index=self._first_env)
        if any(self.episodes):
            begun = [{"episode": n, "actions": (), "outcome": None} for n in self.episodes]
            load_episodes(env, begun)
        policy, random_policy = self.policy, self.random_policy
        if self.joined > 1:
            count = self.num_envs * self.joined
            if random_policy is None and self.init_random_frames:
                random_policy = uniform_policy(env, env.full_action_spec_unbatched.expand(count))
            rows = {"first": self.index * self.num_envs, "count": count}
            policy = PaddedPolicy(policy, env.batch_size, **rows)
            if random_policy is not None:
                random_policy = PaddedPolicy(random_policy, env.batch_size, **rows)
        collector = make_collector(
            env,
            policy,
            total_frames=_ENDLESS,
            frames_per_batch=self.frames_per_batch,
            init_random_frames=self.init_random_frames,
            random_policy=random_policy,
        )
        collector.first_index, collector.workers = self._first_env, self.joined
        return collector

    def collect(
        self, frames: int, generator: NDArray[np.uint8], values: Sequence[Any] | None = None
    ) -> tuple[dict[NestedKey, NDArray[Any]], NDArray[np.uint8]]:
        """Collect the next batch.

        Args:
            frames: frames of the run before the batch.
            generator: state of PyTorch's generator at the start of the batch.
            values: new parameters and buffers of the policy, from :func:`policy_values`.

        Returns:
            The entries ``[num_envs, T, …]``, and the state of the generator after them.

        Raises:
            ConfigError: the environments cannot be made, or cannot share
                ``frames_per_batch``.
            EnvironmentFault: for an exception inside an environment, with the frames of the run.
            RunError: for NaN or infinity from an environment or the policy.
        """
        if values is not None:
            load_policy_values(self.policy, values)
        torch.set_rng_state(torch.tensor(generator))
        self._collector.frames = frames
        self._failed = True
        batch = next(iter(self._collector)).reshape(self.num_envs, -1)
        self._failed = False
        entries = {key: value.numpy() for key, value in batch.items(True, True)}
        return entries, torch.get_rng_state().numpy()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state of the collector; None if it has failed within a batch."""
        return None if self._failed else self._collector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Continue from a state, and return the reasons why it is not continued exactly."""
        self._collector.load_state_dict(deepcopy(state))  # Ray's arrays are read-only
        return self._collector.inexact_reasons

    def shutdown(self) -> None:
        """Close the environments."""
        if "_collector" in vars(self):
            self._collector.shutdown()


def policy_values(policy: nn.Module) -> list[Tensor]:
    """Return the parameters and buffers of a policy, on the CPU.

    A ``state_dict`` would leave out buffers that are not persistent, such as reward weights.

    >>> [value.shape for value in policy_values(nn.Linear(2, 1))]
    [torch.Size([1, 2]), torch.Size([1])]
    """
    return [value.detach().cpu() for value in (*policy.parameters(), *policy.buffers())]


def load_policy_values(policy: nn.Module, values: Sequence[Tensor]) -> None:
    """Write the values that :func:`policy_values` returned into the tensors of a policy.

    >>> policy = nn.Linear(2, 1)
    >>> load_policy_values(policy, [torch.ones(1, 2), torch.ones(1)])
    >>> policy.bias.item()
    1.0
    """
    with torch.no_grad():
        for tensor, value in zip((*policy.parameters(), *policy.buffers()), values, strict=True):
            tensor.copy_(value)


class PaddedPolicy(TensorDictModuleBase):
    """Acts for all N environments of the workers, and keeps the rows of this worker.

    So it draws the same random numbers, and computes each row by the same operations, as a policy
    that acts for N environments in one process. The inputs of other workers' rows are zeros.

    Args:
        policy: the policy, which acts on entries ``[N, …]``.
        batch_size: batch size of this worker's environments, ``[n]``, or ``[]`` for a single one.
        first: row of the first of these environments.
        count: number N of all environments.

    >>> from torchrl.modules import Actor
    >>> policy = PaddedPolicy(Actor(torch.nn.Linear(3, 1)), torch.Size([]), first=1, count=2)
    >>> policy(TensorDict(observation=torch.ones(3)))["action"].shape
    torch.Size([1])
    """

    def __init__(
        self, policy: Callable[..., Any], batch_size: torch.Size, *, first: int, count: int
    ) -> None:
        super().__init__()
        self.in_keys = [unravel_key(key) for key in getattr(policy, "in_keys", ())]
        self.out_keys = list(getattr(policy, "out_keys", ()))
        self.policy = policy
        self._before, self._after = first, count - first - batch_size.numel()
        self._count = count
        self._rows = slice(first, first + batch_size.numel()) if batch_size else first

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the entries of the policy into ``tensordict`` and return it."""
        # The state of a memory may be missing: the policy then begins with zeros.
        here = tensordict.select(*self.in_keys, strict=False)
        inputs = {key: self._pad(value) for key, value in here.items(True, True)}
        entries = TensorDict(inputs, batch_size=[self._count])
        for key, value in self.policy(entries).items(True, True):
            if value is not inputs.get(key):
                tensordict.set(key, value[self._rows])
        return tensordict

    def _pad(self, value: Tensor) -> Tensor:
        if not isinstance(self._rows, slice):
            value = value.unsqueeze(0)
        shape = value.shape[1:]
        before, after = (value.new_zeros(rows, *shape) for rows in (self._before, self._after))
        return torch.cat([before, value, after])
