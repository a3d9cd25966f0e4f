"""A policy from the tensors of its task's observation to those of the task's action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from gymnasium.vector.utils import batch_space
from tensordict import NestedKey
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.actions import ActionConversion, is_choice, leaves
from rlkit_sac.envs.observations import ObservationConversion, is_image
from rlkit_sac.modules import PlainPolicy
from rlkit_sac.runs.policies.carried import carried_entries


class TaskPolicy(nn.Module):
    r"""The deterministic action for N observations of a Gymnasium task, in tensors alone.

    It computes what :class:`~rlkit_sac.runs.policies.act.Act` does, and can be exported. It takes
    one tensor for each leaf of the observation space, and returns a tuple with one for each leaf of
    the action space, N in front of all. A `Box` of observations is float32 (an image uint8 or
    bool), other observations are int64; actions have the type of their space. The policy's action
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
        policy: reads what is observed; copied to the CPU.
        observe: from the task's observations to the policy's.
        to_task: from the policy's actions to the task's.

    Attributes:
        inputs: type and shape of the tensors it takes, by name: ``observation``, or for the leaves
            of a `Tuple` or `Dict` such as ``observation.position``; then ``action_mask``;
            then ``is_init``, ``prev_action``, ``actor_state`` and the like.
        outputs: those of the tensors it returns: ``action``, or such as ``action.0``; then
            ``next.prev_action``, ``next.actor_state`` and the like.
        carried: the entries of a policy with memory, by name.

    >>> from rlkit_sac.envs import describe_task, make_env
    >>> from rlkit_sac.envs.task_spaces import conversions
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> task = conversions(describe_task(make_env("Pendulum-v1")))
    >>> policy = TaskPolicy(tanh_gaussian_actor(3, [-1.0], [1.0]), *task)
    >>> [action.shape for action in policy(torch.zeros(5, 3))], policy.outputs
    ([torch.Size([5, 1])], {'action': 'float32 [N, 1]'})
    """

    low: Tensor
    high: Tensor
    strides: Tensor
    counts: Tensor
    starts: Tensor

    def __init__(
        self,
        policy: TensorDictModuleBase,
        observe: ObservationConversion,
        to_task: ActionConversion,
    ) -> None:
        super().__init__()
        self.plain = PlainPolicy(policy).cpu()
        own = next(chain(self.plain.parameters(), self.plain.buffers()), torch.zeros(()))
        self._dtype = own.dtype
        self._observe, self._rescale = observe, to_task.rescale
        self._observed = [leaf for _, leaf, _ in leaves(observe.space)]
        self._acted = [leaf for _, leaf, _ in leaves(to_task.space)]
        self.inputs = _described("observation", observe.space, self._input_type)
        self.outputs = _described("action", to_task.space, lambda leaf: leaf.dtype)
        self.has_mask = ACTION_MASK in self.plain.in_keys
        self._num_choices = to_task.num_choices or 0
        if self.has_mask:
            self.inputs[ACTION_MASK] = _text("bool", (self._num_choices,))
        self.carried = carried_entries(policy, to_task.agent_space())
        start = dict(zip(["is_init", *self.carried], self.start(1), strict=False))
        types = {name: _text(each.numpy().dtype, each.shape[1:]) for name, each in start.items()}
        self.inputs |= types
        self.outputs |= {f"next.{name}": types[name] for name in self.carried}
        self._choices = to_task.choices
        for name in ("strides", "counts", "starts") if self._choices else ():
            self.register_buffer(name, torch.from_numpy(getattr(to_task, name).copy()))
        self._boxes = [leaf for leaf in self._acted if not is_choice(leaf)]
        for name in ("low", "high") if self._boxes else ():
            bounds = [np.ravel(getattr(box, name)).astype(np.float64) for box in self._boxes]
            self.register_buffer(name, torch.from_numpy(np.concatenate(bounds)))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The action for N observations; see the class for names and shapes."""
        length = len(self._observed)
        entries, rest = self._observed_entries(inputs[:length]), list(inputs[length:])
        if self.has_mask:
            entries[ACTION_MASK] = rest.pop(0)
        if self.carried:
            is_init, *before = rest
            entries["is_init"] = is_init.unsqueeze(-1)
            for each, value in zip(self.carried.values(), before, strict=True):
                entries[each.read] = each.reset(value, is_init)
        written = self.plain(*(entries[key] for key in self.plain.in_keys))
        values = written if isinstance(written, tuple) else (written,)
        after = dict(zip(self.plain.out_keys, values, strict=True))
        parts = [after[key] for key in self.plain.action_keys]  # the continuous one first
        boxes, choices = (
            [int(np.prod(leaf.shape or ())) for leaf in each]
            for each in (self._boxes, self._choices)
        )
        vectors = iter(self._in_bounds(parts[0]).split(boxes, -1) if boxes else ())
        chosen = iter(self._chosen(parts[-1]).split(choices, -1) if choices else ())
        actions = (
            next(chosen if is_choice(leaf) else vectors)
            .reshape(-1, *(leaf.shape or ()))
            .to(_torch_type(leaf))
            for leaf in self._acted
        )
        return (*actions, *(after[each.written] for each in self.carried.values()))

    def start(self, number: int) -> list[Tensor]:
        """What a policy with memory takes beside the first observations of N episodes."""
        zeros = [torch.from_numpy(each.zeros((number,))) for each in self.carried.values()]
        own = [each.to(self._dtype) if each.is_floating_point() else each for each in zeros]
        return [torch.ones(number, dtype=torch.bool), *own] if own else []

    def example(self, number: int, step: int = 0) -> tuple[Any, list[Tensor]]:
        """N observations at random, in the structure of their space and as the tensors to pass.

        The mask of allowed actions comes last, of a policy that takes one.
        """
        space = batch_space(self._observe.space, number)
        space.seed(number + 10 * step)
        structured = space.sample()
        values = leaves(self._observe.space, structured)
        tensors = [
            torch.from_numpy(value.astype(self._input_type(leaf))) for _, leaf, value in values
        ]
        if self.has_mask:
            mask = np.random.default_rng(step).random((number, self._num_choices)) < 0.5
            mask[:, step % self._num_choices] = True
            tensors.append(torch.from_numpy(mask))
        return structured, tensors

    def _input_type(self, leaf: Space[Any]) -> np.dtype[Any]:
        if not isinstance(leaf, Box):
            return np.dtype(np.int64)
        return np.dtype(leaf.dtype if is_image(leaf) else np.float32)

    def _observed_entries(self, observation: Sequence[Tensor]) -> dict[NestedKey, Tensor]:
        keys, vector = self._observe.keys, []
        entries: dict[NestedKey, Tensor] = {}
        for key, leaf, value in zip(keys, self._observed, observation, strict=True):
            if key is None:
                vector.append(self._flat(leaf, value))
            else:
                entries[key] = value
        if vector:
            states = torch.cat(vector, -1).reshape(-1, *self._observe.vector_shape)
            if self._dtype.is_floating_point:
                states = states.to(self._dtype)
            kept = self._observe.indices
            entries["observation"] = states if kept is None else states[:, kept]
        return entries

    def _flat(self, leaf: Space[Any], value: Tensor) -> Tensor:
        """As ``gymnasium.spaces.flatten``, float32 ``[N, D]``."""
        if not isinstance(leaf, Discrete | MultiDiscrete):
            return value.reshape(-1, int(np.prod(leaf.shape or ()))).float()
        counts = np.ravel(leaf.n if isinstance(leaf, Discrete) else leaf.nvec).tolist()
        values = (value - torch.as_tensor(leaf.start)).reshape(-1, len(counts))
        if self._observe.is_count(leaf):
            return (values.double() / (counts[0] - 1)).clamp(0, 1).float()
        hot = [values[:, i, None] == torch.arange(count) for i, count in enumerate(counts)]
        return torch.cat(hot, -1).float()

    def _chosen(self, index: Tensor) -> Tensor:
        """The values ``[N, C]`` of all choices in combinations ``[N]``."""
        return index.unsqueeze(-1) // self.strides % self.counts + self.starts

    def _in_bounds(self, values: Tensor) -> Tensor:
        values = values.double()
        if self._rescale:
            values = (1 - values) * (0.5 * self.low) + (1 + values) * (0.5 * self.high)
        return values.clamp(self.low, self.high)


def _described(root: str, space: Space[Any], dtype: Callable[[Space[Any]], Any]) -> dict[str, str]:
    return {
        ".".join([root, *map(str, path)]): _text(dtype(leaf), leaf.shape or ())
        for path, leaf, _ in leaves(space)
    }


def _text(dtype: Any, shape: Sequence[int]) -> str:
    return f"{dtype} [{', '.join(map(str, ('N', *shape)))}]"


def _torch_type(leaf: Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, leaf.dtype)).dtype
