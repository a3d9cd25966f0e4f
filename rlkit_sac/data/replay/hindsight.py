"""Hindsight experience replay: sampled transitions with goals that their episodes achieved."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from tensordict import NestedKey, TensorDictBase, unravel_key
from torch import Tensor
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import Transform

from rlkit_sac.errors import BatchError, ConfigError, RunError
from rlkit_sac.valid_steps import TRAJECTORY

Strategy: TypeAlias = Literal["future", "final", "episode"]
#: A function of achieved and desired goals ``[n, G]`` that returns a number for each, ``[n, 1]``.
GoalFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
#: The entry that holds a goal, and the columns of the goal in it.
GoalColumns: TypeAlias = tuple[NestedKey, slice | Sequence[int]]

_ALL = slice(None)
_CHECKED = 1_000  # stored transitions whose rewards are checked


class HindsightTransform(Transform):
    r"""Replaces goals of sampled transitions by goals that the same episode achieved.

    A sampled transition of step t, of an episode with the steps 0 to T - 1 so far, is relabeled
    with the probability ``her_ratio``. A step u is drawn uniformly, and the goal is what its next
    state achieved:

    - ``"future"``: u from t to T - 1,
    - ``"final"``: u = T - 1,
    - ``"episode"``: u from all steps of the episode that are still stored.

    The goal replaces the desired goal before and after the step; reward and, with a
    ``terminated_function``, ``terminated`` are computed anew. ``done`` and ``truncated`` stay.

    It works in buffers of single transitions with one dimension, whatever draws the indices.
    Transitions need the entry ``("collector", "traj_ids")``, which numbers episodes, and come in
    the order in which they were collected; those of several environments may alternate. Call
    :meth:`mark_gap` before the frames of another collector, which numbers from 0 again. An index
    of -1 marks a transition that keeps its goal. Buffers of TorchRL also relabel what
    ``replay[:]`` reads. Random numbers come from torch's global generator.
    At the first sample, the rewards of the first stored transitions are computed from their own
    goals and compared with those that are stored.

    Args:
        replay: the replay buffer, which may hold transitions. Append the transform to it.
        reward_function: returns rewards ``[n, 1]`` from achieved goals (of the next states) and
            desired goals, both ``[n, G]``.
        terminated_function: returns whether the step ends the episode, likewise. Default:
            ``terminated`` stays.
        strategy: the steps from which the goal is drawn. Default: ``"future"``.
        her_ratio: probability of a new goal, from 0 to 1. Default: 0.8.
        achieved: entry and columns of the achieved goal. Default: the entry ``achieved_goal``.
        desired: entries and columns of the desired goal. Default: the entry ``desired_goal``.

    Raises:
        ConfigError: for a ratio out of its range, or another kind of buffer.
        BatchError: by ``extend``, for transitions without ``("collector", "traj_ids")``, or in more
            dimensions than one.
        RunError: when sampled, if stored rewards are not those of the function.

    Source: Andrychowicz et al. 2017 (arXiv:1707.01495), section 3.4. TorchRL's `HERReplayBuffer`
    draws goals from the states before steps, and leaves ``terminated`` as it is.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage
    >>> replay = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=2)
    >>> def reward(achieved, desired):
    ...     return -(achieved - desired).abs()
    >>> _ = replay.append_transform(HindsightTransform(replay, reward, her_ratio=1.0))
    >>> flags = {key: torch.zeros(2, 1, dtype=torch.bool) for key in ("done", "terminated")}
    >>> steps = TensorDict(
    ...     achieved_goal=torch.tensor([[0.0], [1.0]]),
    ...     desired_goal=torch.tensor([[9.0], [9.0]]),
    ...     next=TensorDict(
    ...         achieved_goal=torch.tensor([[1.0], [2.0]]),
    ...         desired_goal=torch.tensor([[9.0], [9.0]]),
    ...         reward=torch.tensor([[-8.0], [-7.0]]),
    ...         **flags,
    ...     ),
    ... )
    >>> steps["collector", "traj_ids"] = torch.zeros(2, dtype=torch.int64)
    >>> _ = replay.extend(steps.auto_batch_size_(1))
    >>> bool((replay.sample()["desired_goal"] <= 2).all())
    True
    """

    def __init__(
        self,
        replay: TensorDictReplayBuffer,
        reward_function: GoalFunction,
        *,
        terminated_function: GoalFunction | None = None,
        strategy: Strategy = "future",
        her_ratio: float = 0.8,
        achieved: GoalColumns = ("achieved_goal", _ALL),
        desired: Sequence[GoalColumns] = (("desired_goal", _ALL),),
    ) -> None:
        super().__init__()
        if not 0 <= her_ratio <= 1:
            raise ConfigError(f"her_ratio is {her_ratio}; give a number from 0 to 1")
        if not isinstance(replay, TensorDictReplayBuffer):
            raise ConfigError(f"use a TensorDictReplayBuffer, got a {type(replay).__name__}")
        self._replay, self._capacity = replay, replay.storage.max_size
        self._functions = {("next", "reward"): reward_function}
        if terminated_function is not None:
            self._functions["next", "terminated"] = terminated_function
        self._strategy, self._her_ratio = strategy, her_ratio
        self._achieved = (unravel_key(("next", achieved[0])), achieved[1])
        self._desired, self._is_checked = desired, False
        # For each index, the numbers of the stored transitions of its episode, oldest first. A
        # transition is numbered by how many were written before it.
        self._episodes: list[array[int]] = []
        self._unfinished: dict[int, array[int]] = {}
        self._read_buffer()

    def _read_buffer(self) -> None:
        """Find the episodes of the stored transitions, which do not go on."""
        if count := len(self._replay):
            numbers = torch.arange(self._replay.write_count - count, self._replay.write_count)
            self._add(self._replay.storage.get(numbers % self._capacity), int(numbers[0]))
            self.mark_gap()

    def mark_gap(self) -> None:
        """End all unfinished episodes, since further collectors number from 0 again."""
        self._unfinished = {}

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._add(tensordict, self._replay.write_count)
        return tensordict

    def _add(self, transitions: TensorDictBase, first: int) -> None:
        """Note the episodes of transitions, the first of which has this number."""
        if transitions.ndim > 1 or transitions.get(TRAJECTORY, None) is None:
            shape, text = list(transitions.shape), f"[n] with the entry {TRAJECTORY}"
            raise BatchError(f"transitions have the shape {shape}; wanted {text}")
        trajectories = transitions.get(TRAJECTORY).flatten().tolist()
        ended = transitions.get(("next", "done")).flatten().tolist()
        missing = min(self._capacity, first + len(ended)) - len(self._episodes)
        self._episodes += [array("q")] * missing
        for number, (trajectory, done) in enumerate(zip(trajectories, ended, strict=True), first):
            episode = self._unfinished.setdefault(trajectory, array("q"))
            episode.append(number)
            self._episodes[number % self._capacity] = episode
            if done:
                del self._unfinished[trajectory]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a batch of transitions with some goals replaced."""
        index = tensordict.get("index", None)
        if index is None:  # read, and not sampled
            return tensordict
        if len(self._episodes) != len(self._replay):  # it was loaded
            self._read_buffer()
        if not self._is_checked:
            self._check_rewards()
        chosen = (torch.rand(len(index)) < self._her_ratio) & (index.cpu() >= 0)
        rows = chosen.nonzero().squeeze(-1)
        if not len(rows):
            return tensordict
        steps, uniform = index[rows.to(index.device)].tolist(), torch.rand(len(rows)).tolist()
        return self.relabel(tensordict, rows, torch.tensor(self._draw_indices(steps, uniform)))

    def relabel(self, batch: TensorDictBase, rows: Tensor, indices: Tensor) -> TensorDictBase:
        """Return a batch with the goals that other stored transitions achieved.

        Args:
            batch: transitions ``[B]``.
            rows: places ``[k]`` in the batch whose goals are replaced.
            indices: indices ``[k]`` in the buffer of the transitions that achieved the new goals.
        """
        batch, storage = batch.copy(), self._replay.storage
        achieved = _columns(batch, self._achieved)
        rows = rows.to(achieved.device)
        achieved = achieved[rows]
        goals = _columns(storage.get(indices.to(storage.device)), self._achieved).to(achieved)
        for key, columns in self._desired:
            for each in (key, unravel_key(("next", key))):
                entry = batch.get(each).clone()
                relabeled = entry[rows]
                relabeled[:, columns] = goals
                entry[rows] = relabeled
                batch.set(each, entry)
        for name, function in self._functions.items():
            entry = batch.get(name).clone()
            entry[rows] = function(achieved, goals).to(entry).reshape(len(rows), -1)
            batch.set(name, entry)
        return batch

    def _draw_indices(self, steps: list[int], uniform: list[float]) -> list[int]:
        """Return the index of the step u for the index of each step t, by numbers below 1."""
        written, capacity = self._replay.write_count, self._capacity
        drawn = []
        for index, x in zip(steps, uniform, strict=True):
            episode = self._episodes[index]
            number = written - 1 - (written - 1 - index) % capacity  # of the step t
            oldest = {"future": number, "final": episode[-1], "episode": written - capacity}
            first = bisect_left(episode, oldest[self._strategy])
            drawn.append(episode[first + int(x * (len(episode) - first))] % capacity)
        return drawn

    def _check_rewards(self) -> None:
        """Refuse functions that do not return what the first transitions hold."""
        count = min(_CHECKED, len(self._replay))
        stored = self._replay.storage.get(torch.arange(count, device=self._replay.storage.device))
        achieved = _columns(stored, self._achieved)
        desired = _columns(stored.get("next"), self._desired[0])
        for key, function in self._functions.items():
            found = stored.get(key).float().reshape(count, -1)
            computed = function(achieved, desired).to(found).reshape(count, -1)
            differs = ~torch.isclose(found, computed, rtol=1e-4, atol=1e-5)
            if differs.any():
                row = int(differs.any(-1).nonzero()[0])
                text = "it depends on more than goals, or on their rounding to float32"
                raise RunError(
                    f"replay.goals: {key[1]!r} of transition {row + 1} is {found[row].tolist()}, "
                    f"but {computed[row].tolist()} when computed from its goals: {text}"
                )
        self._is_checked = True


def _columns(transitions: TensorDictBase, place: GoalColumns) -> Tensor:
    """Return the goals ``[n, G]`` that transitions hold."""
    return transitions.get(place[0])[:, place[1]]
