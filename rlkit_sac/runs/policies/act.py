"""Acting in a task by a loaded policy, from NumPy to NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from gymnasium.spaces import Box, Dict
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.recorded_policy import RecordedPolicy
from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.task_spaces import conversions
from rlkit_sac.errors import RunError


class Act:
    """The attribute ``act`` of a policy that :func:`~rlkit_sac.runs.load_policy` returns.

    Args:
        policy: acts on the entry ``observation``.
        task: what :func:`~rlkit_sac.envs.task_spaces.describe_task` returned at save, if anything.

    >>> import numpy as np
    >>> from rlkit_sac.envs import describe_task, make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> act = Act(policy, describe_task(make_env("Pendulum-v1")))
    >>> act(np.zeros(3)).shape, act(np.zeros((5, 3))).shape
    ((1,), (5, 1))
    """

    def __init__(self, policy: TensorDictModuleBase, task: dict[str, Any] | None) -> None:
        self._policy = policy
        self._converted = None if task is None else conversions(task)
        self._recorded: dict[ExplorationType, RecordedPolicy] = {}

    def __call__(self, observation: Any, *, deterministic: bool = True) -> Any:
        """The action for an observation, or those for N of them.

        Args:
            observation: as the Gymnasium task returns it; or N of them in its structure, as
                Gymnasium's vector environments return them: each leaf an array with N in front.
            deterministic: the mode of the policy; otherwise a sample, by PyTorch's generator.

        Returns:
            What the task's ``step`` takes: in its own bounds, type and structure. Of N observations
            the actions in this structure, each leaf an array with N in front.

        Raises:
            RunError: for a policy whose file does not describe the task, or that reads more than
                the observation.
            ValueError: for an observation of another structure or shape, or with NaN or infinity.
        """
        observe, _ = self.conversions()
        batch = observe.is_batch(observation)
        states = torch.from_numpy(observe(observation, batch=batch))
        mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        return self._step(states, batch, mode)

    def conversions(self) -> tuple[ObservationConversion, ActionConversion]:
        """From the task's observations to what the policy reads, and back from its actions.

        Raises:
            RunError: as for a call.
        """
        if self._converted is None:
            raise RunError(
                "acting without a TensorDict needs the task, which policy.json does not describe: "
                "pass task=describe_task(env) to save_policy, or call the policy with a "
                "TensorDict. Runs of versions before 0.2, and of environments that make_env did "
                "not make, have none"
            )
        if self._policy.in_keys != ["observation"]:
            raise RunError(
                "acting without a TensorDict passes the observation alone, but the policy reads "
                f"{self._policy.in_keys}: call it with a TensorDict instead"
            )
        return self._converted

    def _step(self, states: Tensor, batch: bool, mode: ExplorationType) -> Any:
        assert self._converted is not None
        to_task, written = self._converted[1], self._act(states, batch, mode)
        parts = {key: value.cpu().numpy() for key, value in written.items() if _is_action(key)}
        if "action" in parts:
            return to_task(parts["action"])
        return to_task({"action": {key[-1]: value for key, value in parts.items()}})

    def check(self) -> None:
        """Refuse observations or actions of the task of other sizes or kinds than the policy's.

        Raises:
            ValueError: naming them.
        """
        if self._converted is None:
            return
        shape = self._converted[0].agent_space().shape
        first = next(each for each in self._policy.modules() if isinstance(each, nn.Linear))
        if shape != (first.in_features,):
            raise ValueError(f"its observations are {list(shape)}, wanted [{first.in_features}]")
        state, mode = torch.zeros(1, *shape), ExplorationType.DETERMINISTIC
        written, space = self._act(state, True, mode), self._converted[1].agent_space()
        parts: Any = space["action"] if isinstance(space, Dict) else {"action": space}
        wanted = {name: isinstance(part, Box) for name, part in parts.items()}
        found = {
            key if isinstance(key, str) else key[-1]: value.is_floating_point()
            for key, value in written.items()
            if _is_action(key)
        }
        if found != wanted:
            raise ValueError(f"continuous are its actions {wanted}, those of the policy {found}")
        if any(value.isnan().any() for key, value in written.items() if _is_action(key)):
            raise ValueError("the policy acts with NaN")
        self._step(state, True, mode)

    def _act(self, states: Tensor, batch: bool, mode: ExplorationType) -> Mapping[NestedKey, Any]:
        own = next(chain(self._policy.parameters(), self._policy.buffers()), states)
        both = own.is_floating_point() and states.is_floating_point()
        states = states.to(own.device, own.dtype if both else states.dtype)
        if batch:
            with torch.no_grad(), set_exploration_type(mode):
                out = self._policy(TensorDict(observation=states, batch_size=states.shape[:1]))
            return dict(out.items(True, True))
        # For one observation the Python of the modules takes longer than their arithmetic.
        if mode not in self._recorded:
            self._recorded[mode] = RecordedPolicy(self._policy, (), exploration_type=mode)
        return self._recorded[mode]({"observation": states})

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_recorded": {}}  # a copy of the policy records its own


def device_of(module: nn.Module) -> torch.device:
    """Where the tensors of a module are, the CPU without any."""
    tensors = chain(module.parameters(), module.buffers())
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def _is_action(key: NestedKey) -> bool:
    return (key if isinstance(key, str) else key[0]) == "action"
