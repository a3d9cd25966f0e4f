"""Acting in a Gymnasium task by a policy, from NumPy to NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.recorded_policy import Entries, RecordedPolicy
from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.task_tensors import TaskTensors, describe_tensor
from rlkit_sac.errors import RunError
from rlkit_sac.modules.memory import next_key, policy_states


class Act:
    """The attribute ``act`` of a policy that :func:`~rlkit_sac.runs.load_policy` returns.

    Args:
        policy: the policy, which reads the observed entries.
        task: the task that was saved, as :func:`~rlkit_sac.envs.describe_task` describes it.

    >>> import numpy as np
    >>> from rlkit_sac.envs import describe_task, make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> act = Act(policy, describe_task(make_env("Pendulum-v1")))
    >>> act(np.zeros(3)).shape, act(np.zeros((5, 3))).shape
    ((1,), (5, 1))
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0], memory={"kind": "gru", "action_dim": 1})
    >>> act, state = Act(policy, describe_task(make_env("Pendulum-v1"))), None
    >>> for _ in range(3):
    ...     action, state = act(np.zeros((5, 3)), state)
    >>> action.shape, {name: value.shape for name, value in state.items()}
    ((5, 1), {'prev_action': (5, 1), 'actor_state': (5, 1, 64)})
    """

    def __init__(self, policy: TensorDictModuleBase, task: dict[str, Any] | None) -> None:
        self.policy = policy
        self._task = None if task is None else TaskTensors(task)
        self._has_mask = ACTION_MASK in policy.in_keys
        self._carried: dict[str, _CarriedEntry] = {}
        if self._task is not None:
            self._carried = _carried_entries(policy, self._task.act.agent_space())
        self._recorded: RecordedPolicy | None = None

    def __call__(
        self,
        observation: Any,
        state: Mapping[str, Any] | None = None,
        *,
        is_init: Any = None,
        action_mask: Any = None,
        deterministic: bool = True,
    ) -> Any:
        """Return the action for an observation, or the actions for N observations.

        Args:
            observation: the observation of the Gymnasium task; or N of them in its structure, as
                Gymnasium's vector environments return them: each leaf an array with N in front.
            state: the state that the call before returned, for a policy with memory; ``None``
                (default) where all episodes begin.
            is_init: bool ``[N]``, true for observations with which an episode begins, whatever the
                state; for one observation a bool. Default: none.
            action_mask: the mask in the ``info`` of the task, or N of them in arrays, for a policy
                that chooses among allowed actions. Default: the mask in the observation.
            deterministic: if true, the mode of the policy, otherwise a sample, by PyTorch's
                generator.

        Returns:
            The action for the task's ``step``, in its own bounds, type and structure. For N
            observations each leaf is an array with N in front. A policy with memory returns the
            action and the state for the next step: arrays by name, for N observations with N in
            front.

        Raises:
            RunError: for a policy whose file does not describe the task.
            KeyError: for a policy that reads more than the observation and its memory.
            ValueError: for an observation of another structure or shape, or with NaN or infinity;
                for a state or ``is_init`` of another shape; for a mask that is missing, of another
                shape, or allows nothing.
        """
        inputs, front = self.inputs(observation, state, is_init, action_mask)
        entries = self.entries(inputs, own_tensor(self.policy))
        mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        with set_exploration_type(mode):
            written = self._call_policy(entries, front)
        outputs = self.outputs({key: value.cpu() for key, value in written.items()})
        arrays = (value.numpy() if front else value[0].numpy() for value in outputs)
        action = self.task.build_action(arrays)
        return (action, dict(zip(self._carried, arrays, strict=True))) if self._carried else action

    @property
    def task(self) -> TaskTensors:
        """The conversions between the task and the policy.

        Raises:
            RunError: as for a call.
        """
        if self._task is None:
            raise RunError(
                "policy.json does not describe the task: call the policy with a TensorDict, or "
                "pass task=describe_task(env) to save_policy"
            )
        return self._task

    def described(self) -> tuple[dict[str, str], dict[str, str]]:
        """Type and shape of the tensors that :meth:`entries` takes and :meth:`outputs` returns.

        They are those of the task; then ``action_mask``, bool ``[N, K]`` over all combinations of
        choices, of a policy that chooses among allowed actions. A policy with memory also takes
        ``is_init``, bool ``[N]``, the observations with which an episode begins, and what it
        carries from step to step: the states of its memory, and the previous action, before it is
        converted, where it reads it. It returns these for the next step after the action, each
        named as its input with ``next.`` in front. Where ``is_init`` holds their values do not
        matter.
        """
        inputs, outputs = dict(self.task.inputs), dict(self.task.outputs)
        if self._has_mask:
            inputs[ACTION_MASK] = describe_tensor("bool", (self.task.act.num_choices,))
        if self._carried:
            inputs["is_init"] = describe_tensor("bool")
        for name, each in self._carried.items():
            text = describe_tensor(each.zero.numpy().dtype, each.zero.shape)
            inputs[name] = outputs[f"next.{name}"] = text
        return inputs, outputs

    def inputs(
        self, observation: Any, state: Any, is_init: Any, action_mask: Any
    ) -> tuple[list[Tensor], tuple[int, ...]]:
        """Return the tensors of :meth:`described`, for the arguments of a call.

        Returns:
            The tensors, N in front, and ``(N,)``; or for one observation, a batch of one, ``()``.
        """
        inputs, front = self.task.to_tensors(observation)
        if self._has_mask:
            if action_mask is None and isinstance(observation, Mapping):
                action_mask = observation.get(ACTION_MASK)
            inputs.append(self._allowed_mask(action_mask, front))
        if self._carried:
            inputs += self._carried_inputs(state, is_init, front)
        return (inputs if front else [value.unsqueeze(0) for value in inputs]), front

    def entries(self, inputs: Sequence[Tensor], own: Tensor) -> Entries:
        """Return the entries that the policy reads.

        Args:
            inputs: the tensors that :meth:`inputs` returns.
            own: a tensor of the policy, which gives device and floating-point type.
        """
        length = len(self.task.inputs)
        entries, rest = self.task.policy_inputs(inputs[:length]), iter(inputs[length:])
        if self._has_mask:
            entries[ACTION_MASK] = next(rest)
        if self._carried:
            is_init = next(rest)
            entries["is_init"] = is_init.unsqueeze(-1)
        for carried in self._carried.values():
            start = is_init.reshape(-1, *(1,) * carried.zero.ndim)
            entries[carried.read] = next(rest).masked_fill(start, 0)
        return {
            key: value.to(own.device, own.dtype if value.is_floating_point() else value.dtype)
            for key, value in entries.items()
        }

    def outputs(self, written: Mapping[NestedKey, Tensor]) -> tuple[Tensor, ...]:
        """Return the task's action and the next memory, from the entries that the policy writes."""
        after = (written[carried.written] for carried in self._carried.values())
        return (*self.task.action_tensors(written), *after)

    def _allowed_mask(self, action_mask: Any, front: tuple[int, ...]) -> Tensor:
        if action_mask is None:
            text = "call act(observation, action_mask=info['action_mask'])"
            raise ValueError(f"the policy chooses among allowed actions: {text}")
        mask = self.task.act.allowed_choices(action_mask)
        if mask.shape[:-1] != front or not mask.any(-1).all():
            raise ValueError(
                f"action_mask has the shape {list(mask.shape)}, wanted {[*front, mask.shape[-1]]} "
                "with at least one allowed action in each row"
            )
        return torch.from_numpy(mask)

    def _carried_inputs(self, state: Any, is_init: Any, front: tuple[int, ...]) -> list[Tensor]:
        """Return the inputs of the policy beside the observation; ``None`` as state gives zeros."""
        begins = np.full(front, state is None)
        if is_init is not None:
            begins |= np.asarray(is_init, dtype=bool).reshape(front)
        blank = {
            name: carried.zero.expand((*front, *carried.zero.shape))
            for name, carried in self._carried.items()
        }
        entries = blank if state is None else state if isinstance(state, Mapping) else {}
        got, wanted = ({n: list(np.shape(v)) for n, v in x.items()} for x in (entries, blank))
        if got != wanted:
            raise ValueError(
                f"the state has the shapes {got}, wanted {wanted}: pass what act returned for "
                "the step before, or None where all episodes begin"
            )
        values = [
            torch.tensor(np.asarray(entries[n]), dtype=zero.dtype) for n, zero in blank.items()
        ]
        return [torch.from_numpy(begins), *values]

    def _call_policy(self, entries: Entries, front: tuple[int, ...]) -> Entries:
        """Return the entries that the policy writes, with N in front."""
        if front:
            with torch.no_grad():
                return dict(self.policy(TensorDict(entries, batch_size=front)).items(True, True))
        # For one observation the Python of the modules takes longer than their arithmetic.
        if self._recorded is None:
            self._recorded = RecordedPolicy(self.policy, ())
        written = self._recorded({key: value[0] for key, value in entries.items()})
        return {key: value.unsqueeze(0) for key, value in written.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_recorded": None}  # a copy of the policy records its own


class _CarriedEntry(NamedTuple):
    """An entry that a policy with memory reads, and writes for its next step."""

    read: NestedKey
    written: NestedKey
    zero: Tensor  # the value at the start of an episode


def own_tensor(module: nn.Module) -> Tensor:
    """Return a tensor of a module, which tells the module's device and floating-point type."""
    tensors = chain(module.parameters(), module.buffers())
    return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(()))


def _carried_entries(policy: TensorDictModuleBase, actions: Space[Any]) -> dict[str, _CarriedEntry]:
    """Return the entries that a policy with memory carries from step to step, by name.

    They are the previous action, if it is read, and the states; nested keys are joined by dots.
    """
    states, dtype = policy_states(policy), own_tensor(policy).dtype
    parts: dict[NestedKey, tuple[NestedKey, Space[Any]]] = {"prev_action": ("action", actions)}
    if isinstance(actions, Dict):
        spaces = cast(Dict, actions["action"]).spaces
        parts = {("prev_action", name): (("action", name), spaces[name]) for name in spaces}
    entries = {}
    for key in map(unravel_key, policy.in_keys if states else ()):
        name = key if isinstance(key, str) else ".".join(key)
        if key in states:
            entries[name] = _CarriedEntry(key, next_key(key), torch.zeros(states[key], dtype=dtype))
        elif key in parts:
            written, space = parts[key]
            kind = dtype if isinstance(space, Box) else torch.int64
            entries[name] = _CarriedEntry(key, written, torch.zeros(space.shape or (), dtype=kind))
    return entries
