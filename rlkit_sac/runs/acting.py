"""Acting in a Gymnasium task by a policy: conversions in tensors, and NumPy around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray
from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.recorded_policy import Entries, RecordedPolicy
from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.actions import at, choice_values, is_choice, leaves
from rlkit_sac.envs.observations import ObservationConversion, is_image
from rlkit_sac.envs.task_spaces import conversions
from rlkit_sac.errors import RunError
from rlkit_sac.modules.memory import next_key, policy_states


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
        self.policy, self._task = policy, task
        self._tensors: TaskTensors | None = None
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
        task = self.tensors()
        inputs, front = self.inputs(observation, state, is_init, action_mask)
        entries = task.entries(inputs, own_tensor(self.policy))
        mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        with set_exploration_type(mode):
            written = self._written(entries, front)
        outputs = task.outputs_of({key: value.cpu() for key, value in written.items()})
        found = (value.numpy() if front else value[0].numpy() for value in outputs)
        action = _nested(task.to_task.space, found)
        return (action, dict(zip(task.carried, found, strict=True))) if task.carried else action

    def tensors(self) -> TaskTensors:
        """The conversions between the task and the policy.

        Raises:
            RunError: as for a call.
        """
        if self._tensors is None:
            if self._task is None:
                raise RunError(
                    "acting without a TensorDict needs the task, which policy.json does not "
                    "describe: pass task=describe_task(env) to save_policy, or call the policy "
                    "with a TensorDict. Runs in environments that make_env did not make have none"
                )
            self._tensors = TaskTensors(self.policy, self._task)
        return self._tensors

    def inputs(
        self, observation: Any, state: Any, is_init: Any, action_mask: Any
    ) -> tuple[list[Tensor], tuple[int, ...]]:
        """What :class:`TaskTensors` takes, for the arguments of a call.

        Returns:
            The tensors, N in front, and ``(N,)``; or for one observation, a batch of one, ``()``.
        """
        task = self.tensors()
        inputs, front = _leaf_tensors(task.observe, observation)
        if task.has_mask:
            if action_mask is None and isinstance(observation, Mapping):
                action_mask = observation.get(ACTION_MASK)
            inputs.append(self._allowed(action_mask, front))
        if task.carried:
            inputs += self._before(state, is_init, front)
        elif state is not None or is_init is not None:
            raise ValueError("the policy has no memory: call act(observation) without a state")
        return (inputs if front else [value.unsqueeze(0) for value in inputs]), front

    def _allowed(self, given: Any, front: tuple[int, ...]) -> Tensor:
        if given is None:
            raise ValueError(
                "the policy chooses among allowed actions: call act(observation, "
                "action_mask=info['action_mask'])"
            )
        mask = self.tensors().to_task.allowed(given)
        if mask.shape[:-1] != front or not mask.any(-1).all():
            raise ValueError(
                f"action_mask has the shape {list(mask.shape)}, wanted {[*front, mask.shape[-1]]} "
                "with at least one allowed action in each row"
            )
        return torch.from_numpy(mask)

    def _before(self, state: Any, is_init: Any, front: tuple[int, ...]) -> list[Tensor]:
        """What the policy reads beside the observation, from zero where an episode begins."""
        begins = np.full(front, state is None)
        if is_init is not None:
            begins |= np.asarray(is_init)
        carried = self.tensors().carried
        blank = {
            name: each.zero.expand((*front, *each.zero.shape)) for name, each in carried.items()
        }
        given = blank if state is None else state if isinstance(state, Mapping) else {}
        found, wanted = ({n: list(np.shape(v)) for n, v in each.items()} for each in (given, blank))
        if found != wanted:
            raise ValueError(
                f"the state has the shapes {found}, wanted {wanted}: pass what act returned for "
                "the step before, or None where all episodes begin"
            )
        values = [
            torch.tensor(np.asarray(given[name]), dtype=zero.dtype) for name, zero in blank.items()
        ]
        return [torch.from_numpy(begins), *values]

    def _written(self, entries: Entries, front: tuple[int, ...]) -> Entries:
        """What the policy writes, with N in front."""
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


class TaskTensors:
    r"""The conversions between a Gymnasium task and a policy, in tensors that can be exported.

    Tensors of the task have N in front: one for each leaf of the observation space, and one for
    each leaf of the action space. A `Box` of observations is float32 (an image uint8 or bool),
    other observations are int64; actions have the type of their space. The policy's action
    :math:`a \in [-1, 1]` becomes

    .. math:: \operatorname{clip}\Bigl(\frac{1-a}{2}\,\text{low} + \frac{1+a}{2}\,\text{high},\
        \text{low},\ \text{high}\Bigr)

    in float64, where actions were rescaled, and is only clipped elsewhere.

    A policy that chooses among allowed actions also takes their mask, bool ``[N, K]`` over all
    combinations of choices.

    A policy with memory also takes ``is_init``, bool ``[N]``, the observations with which an
    episode begins, and what it carries from step to step: the states of its memory, and the
    previous action, before the equation above, where it reads it. It returns these for the next
    step after the action, each named as its input with ``next.`` in front. Where ``is_init`` holds
    their values do not matter.

    Args:
        policy: reads what is observed.
        task: what :func:`~rlkit_sac.envs.describe_task` returned.

    Attributes:
        inputs: type and shape of the tensors it takes, by name: ``observation``, or for the leaves
            of a `Tuple` or `Dict` such as ``observation.position``; then ``action_mask``;
            then ``is_init``, ``prev_action``, ``actor_state`` and the like.
        outputs: those of the tensors it returns: ``action``, or such as ``action.0``; then
            ``next.prev_action``, ``next.actor_state`` and the like.
        carried: the entries of a policy with memory, by name.

    Raises:
        RunError: for a policy that reads more.
    """

    def __init__(self, policy: TensorDictModuleBase, task: dict[str, Any]) -> None:
        self.observe, self.to_task = conversions(task)
        self.carried = _carried(policy, self.to_task.agent_space())
        self.has_mask = ACTION_MASK in policy.in_keys
        known = {*self.observe.agent_space(), ACTION_MASK}
        if self.carried:
            known |= {"is_init", *(each.read for each in self.carried.values())}
        if not known.issuperset(policy.in_keys):
            raise RunError(
                "acting without a TensorDict passes the observation alone, but the policy reads "
                f"{policy.in_keys}: call it with a TensorDict instead"
            )
        self._observed = [leaf for _, leaf, _ in leaves(self.observe.space)]
        self._acted = [leaf for _, leaf, _ in leaves(self.to_task.space)]
        self.inputs = _described("observation", self.observe.space, _observed_type)
        self.outputs = _described("action", self.to_task.space, lambda leaf: leaf.dtype)
        if self.has_mask:
            self.inputs[ACTION_MASK] = _text("bool", (self.to_task.num_choices,))
        if self.carried:
            self.inputs["is_init"] = _text("bool")
        for name, each in self.carried.items():
            text = _text(each.zero.numpy().dtype, each.zero.shape)
            self.inputs[name] = self.outputs[f"next.{name}"] = text
        self._strides, self._counts, self._starts, self._low, self._high = (
            torch.from_numpy(getattr(self.to_task, name).copy())
            for name in ("strides", "counts", "starts", "low", "high")
        )

    def entries(self, inputs: Sequence[Tensor], own: Tensor) -> Entries:
        """What the policy reads, from what the task shows and what a memory carries.

        Args:
            inputs: as in :attr:`inputs`.
            own: a tensor of the policy, whose device and floating-point type are taken.
        """
        rest, vector = iter(inputs), []
        entries: Entries = {}
        for key, leaf in zip(self.observe.keys, self._observed, strict=True):
            if key is None:
                vector.append(self._flat(leaf, next(rest)))
            else:
                entries[key] = next(rest)
        if vector:
            states = torch.cat(vector, -1).reshape(-1, *self.observe.vector_shape)
            kept = self.observe.indices
            entries["observation"] = states if kept is None else states[:, kept]
        if self.has_mask:
            entries[ACTION_MASK] = next(rest)
        if self.carried:
            is_init = next(rest)
            entries["is_init"] = is_init.unsqueeze(-1)
        for each in self.carried.values():
            entries[each.read] = next(rest).masked_fill(
                is_init.reshape(-1, *(1,) * each.zero.ndim), 0
            )
        return {
            key: value.to(own.device, own.dtype if value.is_floating_point() else value.dtype)
            for key, value in entries.items()
        }

    def outputs_of(self, written: Mapping[NestedKey, Tensor]) -> tuple[Tensor, ...]:
        """What the task takes and a memory carries on, from what the policy writes, on the CPU."""
        both = len(self._low) > 0 and len(self._counts) > 0
        sizes: dict[bool, list[int]] = {True: [], False: []}
        for leaf in self._acted:
            sizes[is_choice(leaf)].append(prod(leaf.shape or ()))
        vectors = chosen = iter(())
        if sizes[False]:
            values = self._in_bounds(written[("action", "continuous") if both else "action"])
            vectors = iter(values.split(sizes[False], -1))
        if sizes[True]:
            index = written[("action", "discrete") if both else "action"].unsqueeze(-1)
            values = index // self._strides % self._counts + self._starts
            chosen = iter(values.split(sizes[True], -1))
        actions = (
            next(chosen if is_choice(leaf) else vectors)
            .reshape(-1, *(leaf.shape or ()))
            .to(_torch_type(leaf))
            for leaf in self._acted
        )
        return (*actions, *(written[each.written] for each in self.carried.values()))

    def _flat(self, leaf: Space[Any], value: Tensor) -> Tensor:
        """As ``gymnasium.spaces.flatten``, float32 ``[N, D]``."""
        if not isinstance(leaf, Discrete | MultiDiscrete):
            return value.reshape(-1, prod(leaf.shape or ())).float()
        counts, starts = choice_values(leaf)
        values = value.reshape(-1, len(counts)) - torch.tensor(starts)
        if self.observe.is_count(leaf):
            return (values.double() / (counts[0] - 1)).clamp(0, 1).float()
        hot = [values[:, i, None] == torch.arange(count) for i, count in enumerate(counts)]
        return torch.cat(hot, -1).float()

    def _in_bounds(self, values: Tensor) -> Tensor:
        values = values.double()
        if self.to_task.rescale:
            values = (1 - values) * (0.5 * self._low) + (1 + values) * (0.5 * self._high)
        return values.clamp(self._low, self._high)


class _Carried(NamedTuple):
    """An entry that a policy with memory reads, and writes for its next step."""

    read: NestedKey
    written: NestedKey
    zero: Tensor  # what an episode begins with


def own_tensor(module: nn.Module) -> Tensor:
    """A tensor of a module, whose device and floating-point type are those of the module."""
    tensors = chain(module.parameters(), module.buffers())
    return next((each for each in tensors if each.is_floating_point()), torch.zeros(()))


def _carried(policy: TensorDictModuleBase, actions: Space[Any]) -> dict[str, _Carried]:
    """The previous action, where a policy with memory reads it, and the states of its memory.

    By name, nested keys joined by dots.
    """
    states, dtype = policy_states(policy), own_tensor(policy).dtype
    parts: dict[NestedKey, tuple[NestedKey, Space[Any]]] = {"prev_action": ("action", actions)}
    if isinstance(actions, Dict):
        spaces = cast(Dict, actions["action"]).spaces
        parts = {("prev_action", name): (("action", name), spaces[name]) for name in spaces}
    found = {}
    for key in map(unravel_key, policy.in_keys if states else ()):
        name = key if isinstance(key, str) else ".".join(key)
        if key in states:
            found[name] = _Carried(key, next_key(key), torch.zeros(states[key], dtype=dtype))
        elif key in parts:
            written, space = parts[key]
            of = dtype if isinstance(space, Box) else torch.int64
            found[name] = _Carried(key, written, torch.zeros(space.shape or (), dtype=of))
    return found


def _leaf_tensors(
    observe: ObservationConversion, observation: Any
) -> tuple[list[Tensor], tuple[int, ...]]:
    """The leaves of an observation, and what those of N observations have in front, ``(N,)``.

    Raises:
        ValueError: for another structure or shape than that of one or of N observations, a number
            that is not finite, or a choice that the space does not have.
    """
    try:
        found = [
            (at(path), leaf, np.asarray(value).astype(_observed_type(leaf), casting="same_kind"))
            for path, leaf, value in leaves(observe.space, observation)
        ]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the observation is not one of {observe.space}: {error!r}") from error
    _, first, values = found[0]
    front = values.shape[: values.ndim - len(first.shape or ())]
    for name, leaf, values in found:
        own = leaf.shape or ()
        if values.shape != front + own or len(front) > 1:
            raise ValueError(
                f"the observation{name} has the shape {list(values.shape)}, wanted {list(own)}, "
                "or N in front for N observations, in all parts"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"the observation{name} must hold finite numbers, got NaN or infinity")
        if not isinstance(leaf, Box) and not observe.is_count(leaf):
            counts, starts = choice_values(leaf)
            index = values.reshape(-1, len(counts)) - starts
            if (index < 0).any() or (index >= counts).any():
                raise ValueError(f"the observation{name} is {values.tolist()}, wanted {leaf}")
    return [torch.from_numpy(values) for *_, values in found], front


def _observed_type(leaf: Space[Any]) -> np.dtype[Any]:
    """Of a leaf of an observation space in a tensor."""
    if not isinstance(leaf, Box):
        return np.dtype(np.int64)
    return np.dtype(leaf.dtype if is_image(leaf) else np.float32)


def _nested(space: Space[Any], values: Iterator[NDArray[Any]]) -> Any:
    """The leaves of a space in its structure."""
    if isinstance(space, Tuple):
        return tuple(_nested(part, values) for part in space.spaces)
    if isinstance(space, Dict):
        return {name: _nested(part, values) for name, part in space.spaces.items()}
    value = next(values)
    return value if value.shape or not isinstance(space, Discrete) else int(value)


def _described(root: str, space: Space[Any], dtype: Callable[[Space[Any]], Any]) -> dict[str, str]:
    return {
        ".".join([root, *map(str, path)]): _text(dtype(leaf), leaf.shape or ())
        for path, leaf, _ in leaves(space)
    }


def _text(dtype: Any, shape: Sequence[Any] = ()) -> str:
    return f"{dtype} [{', '.join(map(str, ('N', *shape)))}]"


def _torch_type(leaf: Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, leaf.dtype)).dtype
