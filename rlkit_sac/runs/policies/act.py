"""Acting in a task by a loaded policy, from NumPy to NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.recorded_policy import Entries, RecordedPolicy
from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.task_spaces import conversions
from rlkit_sac.errors import RunError
from rlkit_sac.runs.policies.carried import Carried, carried_entries


class Act:
    """The attribute ``act`` of a policy that :func:`~rlkit_sac.runs.load_policy` returns.

    Args:
        policy: acts on the entries that are observed.
        task: what :func:`~rlkit_sac.envs.task_spaces.describe_task` returned at save, if anything.

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
        self._policy = policy
        self._converted = None if task is None else conversions(task)
        self._carried: dict[str, Carried] = {}
        if self._converted is not None:
            self._carried = carried_entries(policy, self._converted[1].agent_space())
        self._recorded: dict[ExplorationType, RecordedPolicy] = {}

    def __call__(
        self,
        observation: Any,
        state: Mapping[str, Any] | None = None,
        *,
        is_init: Any = None,
        action_mask: Any = None,
        deterministic: bool = True,
    ) -> Any:
        """The action for an observation, or those for N of them.

        Args:
            observation: as the Gymnasium task returns it; or N of them in its structure, as
                Gymnasium's vector environments return them: each leaf an array with N in front.
            state: of a policy with memory, what the step before returned; ``None`` (default) where
                all episodes begin.
            is_init: bool ``[N]``, the observations with which an episode begins, whatever the
                state; for one observation a bool. Default none.
            action_mask: of a policy that chooses among allowed actions, the mask in the ``info`` of
                the task, or N of them in arrays. Default: that in the observation.
            deterministic: the mode of the policy; otherwise a sample, by PyTorch's generator.

        Returns:
            What the task's ``step`` takes: in its own bounds, type and structure. Of N observations
            the actions in this structure, each leaf an array with N in front. A policy with memory
            returns the action and the state for the next step: arrays by name, those of N
            observations with N in front.

        Raises:
            RunError: for a policy whose file does not describe the task, or that reads more than
                the observation and what it carries itself.
            ValueError: for an observation of another structure or shape, or with NaN or infinity;
                for a state or ``is_init`` of another shape, or given to a policy without memory;
                for a mask that is missing, of another shape, or allows nothing.
        """
        observe, _ = self.conversions()
        batch = observe.is_batch(observation)
        observed = observe(observation, batch=batch)
        front = next(iter(observed.values())).shape[:1] if batch else ()
        entries: Entries = {key: torch.from_numpy(value) for key, value in observed.items()}
        if ACTION_MASK in self._policy.in_keys:
            if action_mask is None and isinstance(observation, Mapping):
                action_mask = observation.get(ACTION_MASK)
            entries[ACTION_MASK] = self._allowed(action_mask, front)
        if self._carried:
            entries |= self._before(state, is_init, front)
        elif state is not None or is_init is not None:
            raise ValueError("the policy has no memory: call act(observation) without a state")
        mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        written = self._act(entries, front, mode)
        action = self._of_task(written)
        after = {name: written[each.written].cpu().numpy() for name, each in self._carried.items()}
        return (action, after) if self._carried else action

    def conversions(self) -> tuple[ObservationConversion, ActionConversion]:
        """From the task's observations to what the policy reads, and back from its actions.

        Raises:
            RunError: as for a call.
        """
        if self._converted is None:
            raise RunError(
                "acting without a TensorDict needs the task, which policy.json does not describe: "
                "pass task=describe_task(env) to save_policy, or call the policy with a "
                "TensorDict. Runs in environments that make_env did not make have none"
            )
        passed = ["is_init", *(each.read for each in self._carried.values())]
        observed = [*self._converted[0].agent_space(), ACTION_MASK]
        if set(self._policy.in_keys) - {*observed, *(passed if self._carried else [])}:
            raise RunError(
                "acting without a TensorDict passes the observation alone, but the policy reads "
                f"{self._policy.in_keys}: call it with a TensorDict instead"
            )
        return self._converted

    def _allowed(self, given: Any, front: tuple[int, ...]) -> torch.Tensor:
        if given is None:
            raise ValueError(
                "the policy chooses among allowed actions: call act(observation, "
                "action_mask=info['action_mask'])"
            )
        mask = self.conversions()[1].allowed(given)
        if mask.shape[:-1] != front or not mask.any(-1).all():
            raise ValueError(
                f"action_mask has the shape {list(mask.shape)}, wanted {[*front, mask.shape[-1]]} "
                "with at least one allowed action in each row"
            )
        return torch.from_numpy(mask)

    def _before(self, state: Any, is_init: Any, front: tuple[int, ...]) -> Entries:
        """What the policy reads beside the observation, from zero where an episode begins."""
        begins = np.full(front, state is None)
        if is_init is not None:
            begins |= np.asarray(is_init)
        blank = {name: each.zeros(front) for name, each in self._carried.items()}
        given = blank if state is None else state if isinstance(state, Mapping) else {}
        found, wanted = ({n: list(np.shape(v)) for n, v in each.items()} for each in (given, blank))
        if found != wanted:
            raise ValueError(
                f"the state has the shapes {found}, wanted {wanted}: pass what act returned for "
                "the step before, or None where all episodes begin"
            )
        start = torch.from_numpy(begins)
        entries: Entries = {"is_init": start.unsqueeze(-1)}
        for name, each in self._carried.items():
            entries[each.read] = each.reset(torch.from_numpy(np.array(given[name])), start)
        return entries

    def _of_task(self, written: Mapping[NestedKey, Any]) -> Any:
        assert self._converted is not None
        to_task = self._converted[1]
        parts = {name: value.cpu().numpy() for name, value in _action_parts(written).items()}
        return to_task(parts.get("action", {"action": parts}))

    def _act(self, entries: Entries, front: tuple[int, ...], mode: ExplorationType) -> Entries:
        first = next(iter(entries.values()))
        own = next(chain(self._policy.parameters(), self._policy.buffers()), first)
        for key, value in entries.items():
            both = own.is_floating_point() and value.is_floating_point()
            entries[key] = value.to(own.device, own.dtype if both else value.dtype)
        if front:
            with torch.no_grad(), set_exploration_type(mode):
                out = self._policy(TensorDict(entries, batch_size=front))
            return dict(out.items(True, True))
        # For one observation the Python of the modules takes longer than their arithmetic.
        if mode not in self._recorded:
            self._recorded[mode] = RecordedPolicy(self._policy, (), exploration_type=mode)
        return self._recorded[mode](entries)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_recorded": {}}  # a copy of the policy records its own


def device_of(module: nn.Module) -> torch.device:
    """Where the tensors of a module are, the CPU without any."""
    tensors = chain(module.parameters(), module.buffers())
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def _action_parts(written: Mapping[NestedKey, Any]) -> dict[str, Any]:
    """The parts of a hybrid action by name, another action by itself."""
    paths = {(key,) if isinstance(key, str) else key: value for key, value in written.items()}
    return {path[-1]: value for path, value in paths.items() if path[0] == "action"}
