"""A policy acting in Gymnasium environments, without TensorDicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType

from rlkit_sac.data.collect.frame import Frame, check_frames
from rlkit_sac.data.collect.policy_entries import next_key, state_keys, written_entries
from rlkit_sac.data.collect.recorded_policy import Entries, RecordedPolicy
from rlkit_sac.data.collect.uniform_policy import uniform_policy
from rlkit_sac.envs.torchrl_env import COUNTED, OUTCOME, gym_envs, is_plain_gym_env


class ActingLoop:
    """Steps the environments of :func:`~rlkit_sac.envs.make_env` with a policy.

    A step takes two calls: :meth:`step` writes the frame into ``frame.arrays``,
    :meth:`begin_next_frame` begins the next one. The state of a policy with memory is zero where an
    episode begins.

    Args:
        env: a Gymnasium environment made by ``make_env``, without further transforms.
        policy: the acting policy, on the environment's device; parameters are read at every step.
        exploration_type: exploration type of the policy; None for the type set at each step.
        random_policy: the policy of random steps. It reads no entry but masks, and writes the
            entries of the policy, except the state of a memory. Default: draws from the action
            space.

    Attributes:
        frame: the present step, with the keys of TorchRL's collector.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> loop = ActingLoop(make_env("Pendulum-v1"), tanh_gaussian_actor(3, [-1.0], [1.0]))
    >>> loop.reset()
    >>> loop.step()
    >>> loop.frame.arrays["next", "step_count"]
    array([[1]])
    >>> loop.begin_next_frame()
    >>> loop.frame.arrays["step_count"]
    array([[1]])
    """

    def __init__(
        self,
        env: EnvBase,
        policy: TensorDictModuleBase,
        *,
        exploration_type: ExplorationType | None = None,
        random_policy: TensorDictModuleBase | None = None,
    ) -> None:
        self._env, self._acting = env, policy
        self._random_policy = random_policy or uniform_policy(env, env.full_action_spec)
        self._device = env.device or torch.device("cpu")
        self._batch_size = env.batch_size
        self._envs = gym_envs(env)
        # The entries that the next step begins with, besides the previous action.
        self._carried = (*self._envs[0].observation_space, *COUNTED)
        self._policy = RecordedPolicy(policy, env.batch_size, exploration_type=exploration_type)
        self._action_keys: list[NestedKey] = list(env.action_keys)
        previous = [_previous_key(key) for key in self._action_keys]
        blank = env.fake_tensordict()
        written = written_entries(policy, blank)
        states = {key: written.pop(next_key(key)) for key in state_keys(policy)}
        # The entries of a policy without memory in random steps, besides the action.
        self._random_entries = {key: torch.zeros_like(value) for key, value in written.items()}
        carried: list[NestedKey] = [*self._carried, *previous]
        after = [*OUTCOME, "done"]
        beside: list[NestedKey] = [*after[1:], *(("next", key) for key in after)]
        before = {key: blank.get(key) for key in carried} | states
        others = {key: blank.get(key) for key in beside} | written
        before_layout, layout = (
            {key: (value.shape[env.batch_dims :], value.dtype) for key, value in entries.items()}
            for entries in (before, others)
        )
        self.frame = Frame(
            before_layout,
            {**layout, ("collector", "traj_ids"): ((), torch.int64)},
            len(self),
            batch_size=env.batch_size,
            device=self._device,
        )
        arrays = self.frame.arrays
        self._inputs = {
            key: self._shared_tensor(arrays[key]) for key in self._policy.in_keys if key in arrays
        }
        outputs = (*written, *map(next_key, states))
        self._outputs = [(key, self._shared_tensor(arrays[key])) for key in outputs]
        self._following = {key: arrays["next", key] for key in (*self._carried, *after)}
        for flag in after[1:]:
            self._following[flag] = self._following[flag][:, 0]
        mask_keys = getattr(self._random_policy, "in_keys", ())
        self._random_inputs = {key: self._shared_tensor(arrays[key]) for key in mask_keys}
        self._always_acts = bool(states or mask_keys)
        self._zero_at_reset = {key: arrays[key] for key in (*previous, *states)}
        self._new_previous = [
            (arrays[next_key(new)], arrays[key])
            for new, key in zip(previous, self._action_keys, strict=True)
        ]
        self._trajectories = arrays["collector", "traj_ids"]
        self._trajectories[:] = np.arange(len(self))
        self._next_trajectory = len(self)
        self._ended: list[int] = []

    @staticmethod
    def can_run(env: EnvBase, policy: object) -> bool:
        """Return whether the environment can be stepped here, and the policy names its inputs."""
        return is_plain_gym_env(env) and hasattr(policy, "in_keys")

    def __len__(self) -> int:
        """Return the number N of environments."""
        return len(self._envs)

    def reset(self) -> None:
        """Begin an episode in every environment, or continue those that were loaded."""
        for index in range(len(self)):
            self._begin_episode(index)

    def step(self, *, random: bool = False, unchanged: bool = False) -> None:
        """Step every environment once, and write the frame into ``frame.arrays``.

        Args:
            random: if true, ``random_policy`` acts, and the other entries of the policy are 0. With
                memory or masks the policy also runs, and only its action is replaced.
            unchanged: if true, only values of parameters have changed in the policy since the last
                step.
        """
        written = self._act_randomly(unchanged) if random else self._act(unchanged)
        values = [written[key] for key, _ in self._outputs]
        values = values if self._device.type == "cpu" else _copy_to_cpu(values)
        for (_, place), value in zip(self._outputs, values, strict=True):
            place.copy_(value)
        for new, action in self._new_previous:
            new[...] = action
        arrays, following = self.frame.arrays, self._following
        stepped = enumerate(zip(self._envs, self._actions(), strict=True))
        self._ended = [i for i, (env, action) in stepped if env.step_into(following, i, action)]
        np.add(arrays["step_count"], 1, out=following["step_count"])
        np.logical_or(following["terminated"], following["truncated"], out=following["done"])

    def begin_next_frame(self) -> None:
        """Begin the next frame, with a new episode where one has ended."""
        self.frame.carry_over()
        for index in self._ended:
            self._begin_trajectory(index)
            self._begin_episode(index)

    def rollout(
        self,
        steps: int,
        *,
        random: bool = False,
        until: Callable[[], bool] | None = None,
        first_index: int = 0,
    ) -> None:
        """Take some steps, and keep them as the batch of ``frame``.

        Args:
            steps: steps of each environment.
            random: the same argument of :meth:`step`.
            until: a function called after each step; true makes it the last one.
            first_index: number of the first environment, for messages.

        Raises:
            RunError: for NaN or infinity from an environment or the policy.
            EnvironmentFault: for an exception inside an environment, unless such numbers may be
                its cause.
        """
        frame = self.frame
        frame.begin_batch(steps)
        try:
            for step in range(steps):
                try:
                    self.step(random=random, unchanged=step > 0)
                finally:
                    frame.append_to_batch(step)
                over = until is not None and until()
                self.begin_next_frame()
                if over:
                    break
        finally:
            if not frame.is_finite():
                check_frames(frame.batch(), self._env, self._acting, first_index=first_index)

    def _act(self, unchanged: bool) -> Entries:
        return self._policy(self._copy_entries(self._inputs), unchanged=unchanged)

    def _copy_entries(self, entries: Entries) -> Entries:
        # A policy may keep its inputs, so they are copies, in memory that PyTorch has aligned.
        source = entries if self._device.type == "cpu" else self.frame.copies_on_device()
        return {key: source[key].clone() for key in entries}

    def _act_randomly(self, unchanged: bool) -> Entries:
        acted = self._act(unchanged) if self._always_acts else self._random_entries
        with torch.no_grad():
            inputs = self._copy_entries(self._random_inputs)
            entries = TensorDict(inputs, batch_size=self._batch_size, device=self._device)
            sample = self._random_policy(entries).exclude(*inputs)
        return acted | dict(sample.items(True, True))

    def _begin_episode(self, index: int) -> None:
        arrays = self.frame.arrays
        observed, _ = self._envs[index].reset()
        for key, value in (observed | COUNTED).items():
            arrays[key][index] = value
        for entry in self._zero_at_reset.values():
            entry[index] = 0

    def _begin_trajectory(self, index: int) -> None:
        self._trajectories[index] = self._next_trajectory
        self._next_trajectory += 1

    def _actions(self) -> Sequence[Any]:
        """Return the action of each environment, as its `ActionConversion` takes it."""
        values = [self.frame.arrays[key] for key in self._action_keys]
        plain = [value if value.dtype.kind == "f" else value.tolist() for value in values]
        if self._action_keys == ["action"]:
            return cast(Sequence[Any], plain[0])
        names = [key[-1] for key in self._action_keys]
        joint = zip(*plain, strict=True)
        return [{"action": dict(zip(names, parts, strict=True))} for parts in joint]

    def _shared_tensor(self, array: NDArray[Any]) -> Tensor:
        """Return the entry ``[N, …]`` in the same memory, without N for a single environment."""
        return torch.from_numpy(array if self._batch_size else array.squeeze(0))

    def state_dict(self) -> dict[str, Any]:
        """Return the entries of the next step; the episodes are saved separately."""
        arrays = self.frame.arrays
        return {
            "envs": {key: torch.tensor(arrays[key]) for key in self._carried},
            "previous": [(key, torch.tensor(value)) for key, value in self._zero_at_reset.items()],
            "trajectories": self._trajectories.tolist(),
            "next_trajectory": self._next_trajectory,
        }

    def load_state_dict(self, state: Mapping[str, Any], *, kept: Sequence[bool]) -> None:
        """Continue from a state, after the episodes were loaded.

        Args:
            state: the state that :meth:`state_dict` returned.
            kept: a flag for each environment, true if its episode continues exactly.
        """
        previous = dict(state["previous"])
        self.reset()
        which = np.array(kept)
        saved = [(self.frame.arrays[key], value) for key, value in state["envs"].items()]
        saved += [(array, previous[key]) for key, array in self._zero_at_reset.items()]
        for array, value in saved:
            array[which] = value.cpu().numpy()[which]
        self._trajectories[:] = state["trajectories"]
        self._next_trajectory = state["next_trajectory"]
        for index in np.flatnonzero(~which):
            self._begin_trajectory(int(index))


def _copy_to_cpu(values: Sequence[Tensor]) -> list[Tensor]:
    """Return copies of tensors of one device, in one transfer."""
    parts = [value.contiguous().view(-1).view(torch.uint8) for value in values]
    copies = torch.cat(parts).cpu().split([len(part) for part in parts])
    # The slices of the copy may be unaligned; their clones are aligned.
    return [c.clone().view(v.dtype).view(v.shape) for v, c in zip(values, copies, strict=True)]


def _previous_key(key: NestedKey) -> NestedKey:
    return "prev_action" if isinstance(key, str) else ("prev_action", *key[1:])
