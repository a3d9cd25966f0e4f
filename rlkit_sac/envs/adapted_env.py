"""TorchRL environments, batched or not, in the package's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import EnvBase, Transform, TransformedEnv

from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.actions import replace_bounds
from rlkit_sac.envs.gym_env import check_lossless_wrap
from rlkit_sac.envs.observations import CRITIC_OBSERVATION, ObservationConversion, select_entries
from rlkit_sac.envs.spaces import leaves
from rlkit_sac.envs.task_tensors import TaskTensors, task_description
from rlkit_sac.envs.torchrl_env import SUCCESS, first_env
from rlkit_sac.errors import ConfigError, EnvironmentFault, summary

# The counters of an environment, and the mask: they are no part of the observation.
_NOT_OBSERVED = ("step_count", "is_init", "episode_reward", "prev_action", SUCCESS, ACTION_MASK)


class AdaptedEnv(TransformedEnv):
    """An environment of TorchRL with the entries of :func:`~rlkit_sac.envs.make_env`.

    Its exceptions become `EnvironmentFault`.

    Args:
        env: the environment, with the batch size ``[]`` or ``[N]``, on any device.
        options: the options of :class:`TaskConversion`.

    Raises:
        ConfigError: as :class:`TaskConversion`, and for another batch size or reward.

    >>> from torchrl.envs import GymEnv
    >>> env = AdaptedEnv(GymEnv("CartPole-v1"))  # whose own actions are one-hot
    >>> rollout = env.rollout(3)
    >>> rollout["observation"].shape, rollout["action"].shape
    (torch.Size([3, 4]), torch.Size([3]))
    """

    def __init__(self, env: EnvBase, **options: Any) -> None:
        if env.batch_dims > 1:
            raise ConfigError(f"the batch size is {list(env.batch_size)}, wanted [] or [N]")
        if list(env.reward_keys) != ["reward"]:
            raise ConfigError(f"the rewards are {env.reward_keys}, wanted one, named 'reward'")
        if "done" not in env.done_keys:
            raise ConfigError(f"episodes end by {env.done_keys}: there must be 'done' among them")
        for spec in (env.full_action_spec, env.full_observation_spec):
            parts = (spec, *spec.values(True, True))
            if any(isinstance(part, Stacked | StackedComposite) for part in parts):
                raise ConfigError("its environments have different spaces: give those of one task")
        super().__init__(env, TaskConversion(env, **options))

    @property
    def task(self) -> TaskConversion:
        """The transform that converts its entries."""
        return cast(TaskConversion, self.transform)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draw uniformly from the agent's actions, or from the allowed ones with a mask."""
        sample = EnvBase.rand_action(self, tensordict)
        if self.task.masked and tensordict is not None and ACTION_MASK in tensordict:
            allowed = tensordict.get(ACTION_MASK)
            rows = allowed.reshape(-1, allowed.shape[-1]).float()
            index = rows.multinomial(1).reshape(allowed.shape[:-1])
            is_hybrid = isinstance(sample.get("action"), TensorDictBase)
            sample.set(("action", "discrete") if is_hybrid else "action", index)
        return sample

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        try:
            return super()._step(tensordict)
        except Exception as error:
            raise EnvironmentFault(f"the environment raised {summary(error)} in a step") from error

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        if tensordict is None and not self.batch_locked:  # else all share a first state
            tensordict = TensorDict(batch_size=self.batch_size, device=self.device)
        try:
            return super()._reset(tensordict, **kwargs)
        except Exception as error:
            raise EnvironmentFault(f"the environment raised {summary(error)} in a reset") from error


def adapted_task(env: EnvBase) -> TaskConversion | None:
    """Return the transform that converts a TorchRL environment; ``None`` for Gymnasium's."""
    while isinstance(env, TransformedEnv) and not isinstance(env, AdaptedEnv):
        env = env.base_env
    return env.task if isinstance(env, AdaptedEnv) else None


class TaskConversion(Transform):
    """Turns the entries of any TorchRL environment into the entries that networks read, and back.

    The leaves of the specs are the spaces of a task, which are converted as in Gymnasium by
    :class:`~rlkit_sac.envs.observations.ObservationConversion` and
    :class:`~rlkit_sac.envs.actions.ActionConversion`; the agent's action becomes what the specs
    want, such as one-hot. Rewards are float32, and ``episode_reward`` is their float64 sum. Leaves
    that the agent does not observe are left out, unless the environment reads them in its next
    step. At the first end of an episode it warns if the last observation is lost.

    Args:
        env: the environment to which it is appended.
        rescale_actions: if true, continuous actions are in [-1, 1]. Default: True.
        action_bounds: the same argument of :func:`~rlkit_sac.envs.make_env`. Default: the bounds of
            the spec.
        action_mask: if true, the environment's ``action_mask`` `[*, K]` becomes an entry. Default:
            True.
        observation_indices: the entries of the vector that are kept. Default: all.
        observation_keys: the leaves, or groups of them, that are observed. Default: all.
        critic_keys: the leaves that critics read. Default: the same.

    Attributes:
        observe, critic, act: the conversions; ``critic`` is None without ``critic_keys``.
        masked: true if there are masks.
        parameter_mask: the parameter mask of the environment, or else of the action space.
        description: the description that :func:`~rlkit_sac.envs.describe_task` returns.

    Raises:
        ConfigError: for leaves that no network can read or give, naming their keys.
    """

    def __init__(
        self,
        env: EnvBase,
        *,
        rescale_actions: bool = True,
        action_bounds: Any = None,
        action_mask: bool = True,
        observation_indices: Sequence[int] | None = None,
        observation_keys: Sequence[str] | None = None,
        critic_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        specs = env.observation_spec_unbatched
        observed = {k: s for k, s in specs.items() if k not in _NOT_OBSERVED}

        def reader(keys: Sequence[str] | None) -> tuple[Space[Any], list[NestedKey]]:
            return _task_space(select_entries(observed, keys or observed), _observation_space)

        space, self._observed = reader(observation_keys)
        actions, self._acted = _task_space(env.full_action_spec_unbatched, _action_space)
        self._action_specs = [
            (spec, spec.to_categorical_spec() if isinstance(spec, OneHot | MultiOneHot) else None)
            for spec in map(env.full_action_spec_unbatched.get, self._acted)
        ]
        self.masked = action_mask and ACTION_MASK in specs.keys()  # noqa: SIM118
        if self.masked and specs[ACTION_MASK].dtype.is_floating_point:  # perhaps added to logits
            given = specs[ACTION_MASK].dtype
            raise ConfigError(f"action_mask is {given} in the specs, wanted bool or int8")
        self.description = task_description(
            space,
            replace_bounds(actions, action_bounds),
            observation_indices=observation_indices,
            rescale_actions=rescale_actions,
            action_mask=self.masked,
        )
        device = env.device or torch.device("cpu")
        self.tensors = TaskTensors(self.description, device=device)
        self.observe, self.act = self.tensors.observe, self.tensors.act
        self.critic: ObservationConversion | None = None
        if critic_keys is not None:
            space, self._read_by_critics = reader(critic_keys)
            self.critic = ObservationConversion(space, vector_key=CRITIC_OBSERVATION)
        one = first_env(env)
        # What TorchRL's wrappers of Gymnasium hold.
        check_lossless_wrap(getattr(one, "_env", None), action_mask=action_mask and not self.masked)
        given = getattr(one, "parameter_mask", None)
        self.parameter_mask = self.act.parameter_mask() if given is None else given
        sums = torch.float32 if device.type == "mps" else torch.float64
        self._total = Unbounded(env.reward_spec.shape, device, sums)
        kept = {*env.state_spec.keys(True, True), SUCCESS, *([ACTION_MASK] if self.masked else ())}
        if taken := kept & {*self._agent_spaces()} - {ACTION_MASK}:
            raise ConfigError(
                f"a step of the environment reads {taken}, an entry of networks here: give it "
                "another name, as TorchRL's RenameTransform does"
            )
        self._left_out = [key for key in env.observation_spec.keys(True, True) if key not in kept]
        self._batch = env.batch_size
        self._last_step: tuple[TensorDictBase, ...] | None = ()  # until an episode has ended

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        entries = self._agent_entries(self.observe, self._observed, next_tensordict)
        if self.critic is not None:
            entries |= self._agent_entries(self.critic, self._read_by_critics, next_tensordict)
        next_tensordict = next_tensordict.exclude(*self._left_out, inplace=True)
        for key, value in entries.items():
            next_tensordict.set(key, value.reshape(*self._batch, *value.shape[1:]))
        if self.masked:
            next_tensordict.set(ACTION_MASK, next_tensordict.get(ACTION_MASK).bool())
        return next_tensordict

    def _agent_spaces(self) -> dict[str, Space[Any]]:
        critics = {} if self.critic is None else self.critic.agent_space().spaces
        return self.observe.agent_space().spaces | critics

    def _agent_entries(
        self, observe: ObservationConversion, keys: list[NestedKey], read: TensorDictBase
    ) -> dict[NestedKey, Tensor]:
        found = zip(keys, leaves(observe.space), strict=True)
        tensors = [read.get(key).reshape(-1, *(leaf.shape or ())) for key, (_, leaf, _) in found]
        return self.tensors.policy_inputs(tensors, observe)

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        first = self._call(tensordict_reset).set("episode_reward", self._total.zero())
        if self._last_step and "_reset" in tensordict:
            ended = tensordict["_reset"].reshape(self._batch)
            self._warn_of_lost_observation([each[ended] for each in (*self._last_step, first)])
            self._last_step = None
        return first

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        reward = next_tensordict.get("reward", None)
        if self._last_step is not None:
            wanted = list(self._total.shape), self._total.device.type
            given = reward if reward is None else (list(reward.shape), reward.device.type)
            if given != wanted:
                raise ValueError(f"the reward is {given}, wanted {wanted}, as its spec says,")
            self._last_step = tensordict, next_tensordict
        total = tensordict.get("episode_reward") + reward.to(self._total.dtype)
        entries = {"episode_reward": total, "reward": reward.float()}
        return self._call(next_tensordict).update(entries)

    def _warn_of_lost_observation(self, steps: list[TensorDictBase]) -> None:
        """Warns if the last observation of an episode is lost; the first end tells."""
        keys = list(self._agent_spaces())
        before, last, first = (torch.cat([s[k].flatten().float() for k in keys]) for s in steps)
        is_first, is_blank = torch.equal(last, first), not last.nan_to_num().any()
        if (is_first or is_blank) and not torch.equal(last, before):
            lost = "zeros or NaN" if is_blank else "the first of the next"
            text = "a value function may learn from a wrong state at a time limit"
            warnings.warn(f"the last observation of an episode is {lost}: {text}", stacklevel=2)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        dims = len(self._batch)
        written = {
            key: value.reshape(-1, *value.shape[dims:])
            for key, value in tensordict.select("action").items(True, True)
        }
        values = self.tensors.action_tensors(written)
        for key, (spec, choice), value in zip(self._acted, self._action_specs, values, strict=True):
            encoded = value if choice is None else choice.to_one_hot(value, safe=False)
            tensordict.set(key, encoded.to(spec.dtype).reshape([*self._batch, *spec.shape]))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replaces what is observed by the agent's entries."""
        for key in self._left_out:
            del observation_spec[key]
        for key, box in self._agent_spaces().items():
            dtype = torch.from_numpy(np.empty(0, box.dtype)).dtype
            shape = (*self._batch, *(box.shape or ()))
            observation_spec[key] = Unbounded(shape, self._total.device, dtype)
        if self.masked:
            mask = observation_spec[ACTION_MASK]
            observation_spec[ACTION_MASK] = Binary(
                shape=mask.shape, device=mask.device, dtype=torch.bool
            )
        observation_spec["episode_reward"] = self._total.clone()
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Makes it float32."""
        return Composite(reward=Unbounded(self._total.shape, self._total.device), shape=self._batch)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Replaces what is acted by the agent's action."""
        if ("full_state_spec", "episode_reward") in input_spec.keys(True):  # of RewardSum
            input_spec["full_state_spec", "episode_reward"] = self._total.clone()
        agent = self.act.agent_space()
        parts: dict[NestedKey, Any] = {"action": agent}
        if isinstance(agent, Dict):
            both = cast(Dict, agent["action"]).spaces
            parts = {("action", name): space for name, space in both.items()}
        spec = Composite(shape=self._batch, device=self._total.device)
        for key, part in parts.items():
            one = (
                Categorical(int(part.n))
                if isinstance(part, Discrete)
                else Bounded(part.low, part.high, dtype=torch.float32)
            )
            spec[key] = one.to(self._total.device).expand(*self._batch, *one.shape)
        input_spec["full_action_spec"] = spec
        return input_spec


def _task_space(
    specs: Mapping[str, TensorSpec] | Composite, convert_leaf: Callable[[TensorSpec], Space[Any]]
) -> tuple[Space[Any], list[NestedKey]]:
    """Return the space of specs, or of the only leaf, and the keys of the leaves."""

    def nested(specs: Mapping[str, TensorSpec] | Composite, path: tuple[str, ...] = ()) -> Dict:
        space = Dict()
        for name, spec in specs.items():
            where = (*path, name)
            if isinstance(spec, Composite):
                space.spaces[name] = nested(spec, where)
                continue
            try:
                space.spaces[name] = convert_leaf(spec)
            except TypeError as error:
                raise ConfigError(f"{'.'.join(where)} is {error}") from error
        return space

    space = nested(specs)
    found = [(path, leaf) for path, leaf, _ in leaves(space)]
    keys = [unravel_key(path) for path, _ in found]
    return (found[0][1] if len(found) == 1 else space), keys


def _observation_space(spec: TensorSpec) -> Space[Any]:
    """Of a leaf: choices are an index, images keep their type, and all else are numbers."""
    shape = tuple(spec.shape)
    if isinstance(spec, NonTensor) or -1 in shape:
        raise TypeError("text, an object, or of no fixed size, which no network can read")
    if type(spec) is Categorical and spec.dtype != torch.bool:
        return MultiDiscrete(np.full(shape, spec.space.n)) if shape else Discrete(spec.space.n)
    if type(spec) is MultiCategorical:
        return MultiDiscrete(spec.nvec.cpu().numpy())
    image = spec.dtype == torch.uint8 and len(shape) > 1
    if isinstance(spec, Bounded):
        low, high = spec.space.low.float().cpu().numpy(), spec.space.high.float().cpu().numpy()
        return Box(low, high, dtype=np.uint8 if image else np.float32)
    return Box(0, 255, shape, np.uint8) if image else Box(-np.inf, np.inf, shape, np.float32)


def _action_space(spec: TensorSpec) -> Space[Any]:
    """Of a leaf: boxes, and choices whatever their encoding."""
    if isinstance(spec, OneHot | MultiOneHot):
        spec = spec.to_categorical_spec()
    shape = tuple(spec.shape)
    if isinstance(spec, Binary):
        return MultiBinary(shape)
    if isinstance(spec, MultiCategorical):
        return MultiDiscrete(spec.nvec.cpu().numpy())
    if isinstance(spec, Categorical):
        return MultiDiscrete(np.full(shape, spec.space.n)) if shape else Discrete(spec.space.n)
    if isinstance(spec, Bounded):
        dtype = torch.empty(0, dtype=spec.dtype).numpy().dtype
        return Box(spec.space.low.cpu().numpy(), spec.space.high.cpu().numpy(), dtype=dtype)
    if isinstance(spec, Unbounded):
        return Box(-np.inf, np.inf, shape, np.float32)
    raise TypeError(f"a {type(spec).__name__}, which no policy can give")
