"""A policy acting in Gymnasium environments, without TensorDicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import NestedKey
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Categorical, TensorSpec
from torchrl.envs import EnvBase

from rlkit_sac.capture import undone
from rlkit_sac.data.recorded_policy import Entries, RecordedPolicy
from rlkit_sac.envs import PlainEnvs

Arrays = dict[NestedKey, NDArray[Any]]


class PlainLoop:
    """Steps the environments of :func:`~rlkit_sac.envs.make_env` with a policy.

    Args:
        env: such that :meth:`~rlkit_sac.envs.PlainEnvs.can_step` it.
        policy: acts on the environment's device; its parameters are read at every step.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> loop = PlainLoop(make_env("Pendulum-v1"), tanh_gaussian_actor(3, [-1.0], [1.0]))
    >>> loop.reset()
    >>> arrays, written = loop.step()
    >>> arrays["next", "reward"].shape, sorted(written)
    ((1, 1), ['action', 'loc', 'scale'])
    """

    def __init__(self, env: EnvBase, policy: TensorDictModuleBase) -> None:
        self._env, self._acting = env, policy
        self._device = env.device or torch.device("cpu")
        self._batch_size = env.batch_size
        self._envs = PlainEnvs(env)
        self._policy = RecordedPolicy(policy, env.batch_size)
        self._action_keys: list[NestedKey] = list(env.action_keys)
        blank = env.fake_tensordict()
        self._no_action: Arrays = {
            _previous_key(key): self._array(torch.zeros_like(blank.get(key)))
            for key in self._action_keys
        }
        self._previous = self._no_action
        self._trajectories = np.arange(len(self))
        self._next_trajectory = len(self)

    @staticmethod
    def can_run(env: EnvBase, policy: object) -> bool:
        """Whether the environment can be stepped, and the policy says what it reads."""
        return PlainEnvs.can_step(env) and hasattr(policy, "in_keys")

    def __len__(self) -> int:
        """Number N of environments."""
        return len(self._envs)

    @property
    def at_reset(self) -> bool:
        """Whether every environment is at the beginning of an episode."""
        return bool(self._envs.is_init.all())

    def reset(self) -> None:
        """Begin an episode in every environment, or go on with those that were loaded."""
        self._envs.reset()
        self._previous = self._no_action

    def step(self, *, random: bool = False) -> tuple[Arrays, Entries]:
        """One step of every environment; where an episode ends, the next begins.

        Args:
            random: draw the actions from the action space. What the policy writes beside them is 0
                then, but a log-density of the action is the true one.

        Returns:
            What there is beside the policy, as arrays ``[N, …]`` by the keys of TorchRL's
            collector, and what the policy wrote, with the batch size of the environment in front.
        """
        envs = self._envs
        arrays: Arrays = {
            "observation": envs.observation,
            "episode_reward": envs.episode_reward,
            "step_count": envs.step_count,
            "is_init": envs.is_init,
            **self._previous,
        }
        if random:
            drawn = self._env.rand_action()
            written = self._beside_random | {key: drawn.get(key) for key in self._action_keys}
        else:
            written = self._policy(
                {key: self._tensor(self._unbatched(arrays[key])) for key in self._policy.in_keys}
            )
        actions = {key: self._array(written[key]) for key in self._action_keys}
        after = envs.step(self._plain_actions(actions))
        going_on = np.zeros_like(envs.is_init)
        arrays |= dict.fromkeys(("terminated", "truncated", "done"), going_on)
        arrays |= {("next", key): value for key, value in after.items()}
        arrays["next", "is_init"] = going_on
        arrays["collector", "traj_ids"] = self._trajectories
        self._previous = {_previous_key(key): action for key, action in actions.items()}
        arrays |= {("next", *_path(key)): action for key, action in self._previous.items()}
        if after["done"].any():
            self._begin_trajectories(after["done"][:, 0])
        return arrays, written

    @cached_property
    def _beside_random(self) -> Entries:
        """What the policy writes, for random actions."""
        blank = self._env.fake_tensordict().select(*self._acting.in_keys)
        with undone(cast(nn.Module, self._acting)), torch.no_grad():
            return {
                key: torch.full_like(value, _log_density(self._env, key) or 0.0)
                for key, value in self._acting(blank).items(True, True)
                if key not in self._acting.in_keys
            }

    def _begin_trajectories(self, ended: NDArray[np.bool_]) -> None:
        """After the end of an episode: a new number, and no previous action."""
        count = int(ended.sum())
        self._trajectories = self._trajectories.copy()
        self._trajectories[ended] = np.arange(self._next_trajectory, self._next_trajectory + count)
        self._next_trajectory += count
        self._previous = {key: value.copy() for key, value in self._previous.items()}
        for value in self._previous.values():
            value[ended] = 0

    def _plain_actions(self, actions: Arrays) -> list[Any]:
        """The action of each environment, as `AdaptedActions` takes it."""
        plain = [
            list(value) if value.dtype.kind == "f" else value.tolist() for value in actions.values()
        ]
        if self._action_keys == ["action"]:
            return plain[0]
        names = [key[-1] for key in self._action_keys]
        joint = zip(*plain, strict=True)
        return [{"action": dict(zip(names, parts, strict=True))} for parts in joint]

    def _unbatched(self, array: NDArray[Any]) -> NDArray[Any]:
        """The entry ``[N, …]`` as the environment has it, without N for a single one."""
        return array if self._batch_size else array[0]

    def _array(self, tensor: Tensor) -> NDArray[Any]:
        """The entry as an array ``[N, …]``."""
        array: NDArray[Any] = tensor.detach().cpu().numpy().copy()  # memory may be reused
        return array if self._batch_size else array[None]

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor if self._device.type == "cpu" else tensor.to(self._device)

    def state_dict(self) -> dict[str, Any]:
        """What is known of the next step; the episodes themselves are saved apart."""
        return {
            "envs": self._envs.state_dict(),
            "previous": [(key, torch.tensor(value)) for key, value in self._previous.items()],
            "trajectories": self._trajectories.tolist(),
            "next_trajectory": self._next_trajectory,
        }

    def load_state_dict(self, state: Mapping[str, Any], *, kept: Sequence[bool]) -> None:
        """Go on from a state, after the episodes were loaded.

        Args:
            state: what :meth:`state_dict` returned.
            kept: for each environment whether its episode goes on.
        """
        self.reset()
        self._envs.load_state_dict(state["envs"], kept=kept)
        self._previous = {key: value.cpu().numpy() for key, value in state["previous"]}
        self._trajectories = np.array(state["trajectories"])
        self._next_trajectory = state["next_trajectory"]
        self._begin_trajectories(~np.array(kept))


def _path(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def _previous_key(key: NestedKey) -> NestedKey:
    return "prev_action" if isinstance(key, str) else ("prev_action", *key[1:])


def _log_density(env: EnvBase, written: NestedKey) -> float | None:
    """Of a random action, if the policy writes log-densities under this key; else None."""
    name = written if isinstance(written, str) else written[-1]
    if not name.endswith("_log_prob"):
        return None
    part = (*written[:-1], name.removesuffix("_log_prob")) if name != written else None
    return sum(
        _uniform_log_density(env.full_action_spec_unbatched[key])
        for key in env.action_keys
        if part is None or key == part
    )


def _uniform_log_density(spec: TensorSpec) -> float:
    if isinstance(spec, Categorical):
        return -math.log(spec.n)
    width = spec.space.high.double() - spec.space.low.double()
    return -float(width.log().sum())
