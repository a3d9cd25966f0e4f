"""A task as JSON, and its observations and actions in tensors, for a policy outside of TorchRL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from numpy.typing import NDArray
from tensordict import NestedKey
from torch import Tensor

from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.observations import ObservationConversion, copy_image, is_image, same_but_ones
from rlkit_sac.envs.spaces import (
    build_from_leaves,
    choice_ranges,
    is_choice,
    leaves,
    path_str,
    space_from_json,
    space_to_json,
)


def make_conversions(task: dict[str, Any]) -> tuple[ObservationConversion, ActionConversion]:
    """Return the conversions of a task's observations and of the agent's actions.

    Args:
        task: a description made by :func:`~rlkit_sac.envs.describe_task`.

    >>> from rlkit_sac.envs import describe_task, make_env
    >>> observe, act = make_conversions(describe_task(make_env("Pendulum-v1")))
    >>> act(np.array([0.5]))
    array([1.], dtype=float32)
    """
    observations, actions = (
        space_from_json(task[name]) for name in ("observation_space", "action_space")
    )
    return (
        ObservationConversion(observations, indices=task["observation_indices"]),
        ActionConversion(actions, rescale=task["rescale_actions"]),
    )


def task_description(
    observations: Space[Any], actions: Space[Any], **options: Any
) -> dict[str, Any]:
    """Return the description of a task, see :func:`~rlkit_sac.envs.describe_task`.

    Args:
        observations: the space of the observed parts.
        actions: the action space, with the bounds to which actions are clipped.
        options: ``observation_indices``, ``rescale_actions`` and ``action_mask``.
    """
    spaces = {"observation_space": observations, "action_space": actions}
    return {name: space_to_json(space) for name, space in spaces.items()} | options


class TaskTensors:
    r"""The conversions between a Gymnasium task and the entries of a policy, as can be exported.

    Tensors of the task have N in front: one for each leaf of the observation space, and one for
    each leaf of the action space. A `Box` of observations is float32 (an image uint8 or bool),
    other observations are int64; actions have the type of their space. The policy's action
    :math:`a \in [-1, 1]` becomes

    .. math:: \operatorname{clip}\Bigl(\frac{1-a}{2}\,\text{low} + \frac{1+a}{2}\,\text{high},\
        \text{low},\ \text{high}\Bigr)

    in float64, where actions were rescaled, and is only clipped elsewhere.

    Args:
        task: a description made by :func:`~rlkit_sac.envs.describe_task`.
        device: the device of the tensors. Default: the CPU.

    Attributes:
        inputs: type and shape of the tensors of an observation, by name: ``observation``, or for
            the leaves of a `Tuple` or `Dict` such as ``observation.position``.
        outputs: type and shape of the tensors of an action: ``action``, or such as ``action.0``.

    >>> from rlkit_sac.envs import describe_task, make_env
    >>> task = TaskTensors(describe_task(make_env("Pendulum-v1")))
    >>> task.inputs, task.outputs
    ({'observation': 'float32 [N, 3]'}, {'action': 'float32 [N, 1]'})
    >>> task.action_tensors({"action": torch.tensor([[0.5], [-1.0]])})
    [tensor([[ 1.],
            [-2.]])]
    """

    def __init__(self, task: dict[str, Any], *, device: torch.device | None = None) -> None:
        self.observe, self.act = make_conversions(task)
        self._acted = [
            (is_choice(leaf), prod(leaf.shape or ()), leaf.shape or (), _torch_dtype(leaf))
            for _, leaf, _ in leaves(self.act.space)
        ]
        self.inputs = _describe("observation", self.observe.space, _observation_dtype)
        self.outputs = _describe("action", self.act.space, lambda leaf: leaf.dtype)
        no_float64 = device is not None and device.type == "mps"
        self._strides, self._counts, self._starts, self._low, self._high = (
            (each.float() if no_float64 and each.is_floating_point() else each).to(device)
            for name in ("strides", "counts", "starts", "low", "high")
            for each in [torch.from_numpy(getattr(self.act, name).copy())]
        )

    def to_tensors(self, observation: Any) -> tuple[list[Tensor], tuple[int, ...]]:
        """Return the leaves of an observation, and the shape in front of each: ``()`` or ``(N,)``.

        Raises:
            ValueError: for another structure or shape than that of one or of N observations, a
                number that is not finite, or a choice that the space does not have.
        """
        space = self.observe.space
        try:
            found = [
                (f"the observation{path_str(path)}", leaf, _to_array(leaf, value))
                for path, leaf, value in leaves(space, observation)
            ]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the observation is not one of {space}: {error!r}") from error
        _, first, values = found[0]
        front = values.shape[: values.ndim - len(first.shape or ())]
        tensors = []
        for name, leaf, values in found:
            own = leaf.shape or ()
            if same_but_ones(values.shape, front + own):
                values = values.reshape(front + own)
            if values.shape != front + own or len(front) > 1:
                raise ValueError(
                    f"{name} has the shape {list(values.shape)}, wanted {list(own)}, "
                    "or N in front for N observations, in all parts"
                )
            if not np.isfinite(values).all():
                raise ValueError(f"{name} must hold finite numbers, got NaN or infinity")
            if not isinstance(leaf, Box):
                counts, starts = choice_ranges(leaf)
                index = values.reshape(-1, len(counts)) - starts
                most = np.subtract(counts, not self.observe.is_counter(leaf))  # as in training
                if (index < 0).any() or (index > most).any():
                    raise ValueError(f"{name} is {values.tolist()}, wanted {leaf}")
            tensors.append(torch.from_numpy(values))
        return tensors, front

    def policy_inputs(
        self, tensors: Sequence[Tensor], observe: ObservationConversion | None = None
    ) -> dict[NestedKey, Tensor]:
        """Return the entries that a policy reads, from the leaves of N observations.

        Args:
            tensors: the leaves.
            observe: the conversion of observations. Default: the policy's.
        """
        observe = observe or self.observe
        entries: dict[NestedKey, Tensor] = {}
        vector = []
        found = zip(observe.keys, leaves(observe.space), tensors, strict=True)
        for key, (_, leaf, _), value in found:
            if key is None:
                vector.append(self._flatten_leaf(leaf, value, observe.is_counter(leaf)))
            else:
                entries[key] = value
        if vector:
            states = torch.cat(vector, -1).reshape(-1, *observe.vector_shape)
            kept = observe.indices
            entries[observe.vector_key] = states if kept is None else states[:, kept]
        return entries

    def action_tensors(self, written: Mapping[NestedKey, Tensor]) -> list[Tensor]:
        """Return the leaves of N actions, of what a policy writes, on the device of this object."""
        both = len(self._low) > 0 and len(self._counts) > 0
        boxes = chosen = torch.empty(0)
        if len(self._low):
            boxes = self._rescale_and_clip(written[("action", "continuous") if both else "action"])
        if len(self._counts):
            index = written[("action", "discrete") if both else "action"].unsqueeze(-1)
            chosen = index // self._strides % self._counts + self._starts
        found = []
        for is_chosen, size, shape, dtype in self._acted:
            values = chosen if is_chosen else boxes
            found.append(values[:, :size].reshape(-1, *shape).to(dtype))
            if is_chosen:
                chosen = chosen[:, size:]
            else:
                boxes = boxes[:, size:]
        return found

    def build_action(self, values: Iterator[NDArray[Any]]) -> Any:
        """Return the leaves of an action, or of N, in the structure of the task."""
        return build_from_leaves(self.act.space, values)

    def _flatten_leaf(self, leaf: Space[Any], value: Tensor, is_counter: bool) -> Tensor:
        """Return the same as ``gymnasium.spaces.flatten``, float32 ``[N, D]``."""
        if not isinstance(leaf, Discrete | MultiDiscrete):
            return value.reshape(-1, prod(leaf.shape or ())).float()
        counts, starts = choice_ranges(leaf)
        values = value.reshape(-1, len(counts)) - torch.tensor(starts, device=value.device)
        if is_counter:
            return (values.to(self._low.dtype) / (counts[0] - 1)).clamp(0, 1).float()
        each = [torch.arange(count, device=value.device) for count in counts]
        hot = [values[:, i, None] == numbers for i, numbers in enumerate(each)]
        return torch.cat(hot, -1).float()

    def _rescale_and_clip(self, values: Tensor) -> Tensor:
        values = values.to(self._low.dtype)
        if self.act.rescale:
            values = (1 - values) * (0.5 * self._low) + (1 + values) * (0.5 * self._high)
        return values.clamp(self._low, self._high)


def _to_array(leaf: Space[Any], value: Any) -> NDArray[Any]:
    if isinstance(leaf, Box) and is_image(leaf):
        array = copy_image(leaf, value)
    else:
        array = np.asarray(value).astype(_observation_dtype(leaf), casting="same_kind")
    own = leaf.shape or ()
    if array.shape[max(array.ndim - len(own), 0) :] != own and same_but_ones(array.shape, own):
        return array.reshape(own)  # of a task that gives a scalar or a column
    return array


def _observation_dtype(leaf: Space[Any]) -> np.dtype[Any]:
    """Of a leaf of an observation space in a tensor."""
    if not isinstance(leaf, Box):
        return np.dtype(np.int64)
    return np.dtype(leaf.dtype if is_image(leaf) else np.float32)


def _describe(root: str, space: Space[Any], dtype: Callable[[Space[Any]], Any]) -> dict[str, str]:
    return {
        ".".join([root, *map(str, path)]): describe_tensor(dtype(leaf), leaf.shape or ())
        for path, leaf, _ in leaves(space)
    }


def describe_tensor(dtype: Any, shape: Sequence[Any] = ()) -> str:
    """Type and shape of a tensor with N in front.

    >>> describe_tensor("float32", (3,))
    'float32 [N, 3]'
    """
    return f"{dtype} [{', '.join(map(str, ('N', *shape)))}]"


def _torch_dtype(leaf: Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, leaf.dtype)).dtype
