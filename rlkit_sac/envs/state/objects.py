"""The state of an environment: the attributes of its wrappers, of itself and of their parts."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from typing import Any, Generic, Protocol

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec

from rlkit_sac.envs.state.mujoco import is_mujoco, read_data, write_data
from rlkit_sac.envs.state.plain_data import CannotSaveError
from rlkit_sac.envs.state.values import MISSING, VALUE_TYPES, Node, ValueReader, ValueWriter
from rlkit_sac.errors import ConfigError

# Attributes in which Gymnasium records how an environment was made.
_RECORDS = {
    *("spec", "metadata", "_cached_spec", "_metadata", "_saved_kwargs"),
    *("_ezpickle_args", "_ezpickle_kwargs"),
}
_CONSTANTS = (
    *(EnvSpec, Enum, PurePath, logging.Logger, re.Pattern, type, types.ModuleType),
    *(np.dtype, np.ufunc, torch.device, torch.dtype),
)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def read_simulator(env: gym.Env[Any, Any], at_reset: dict[str, Any]) -> Node:
    """Returns the state of an environment as nested dicts and lists of JSON values and arrays.

    Saved are the attributes of each wrapper and of the environment, of the plain Python objects
    they hold, the random generators of their spaces, and MuJoCo's data. Left out is what does not
    change: functions, types, modules, specifications, MuJoCo's model and renderer.

    Args:
        env: an environment that was reset.
        at_reset: :func:`fixed_parts` at that time.

    Raises:
        CannotSaveError: some attribute is of another type (a simulator in another library, a list
            of objects), or an object, or the shape of an array, is not that of the reset.

    >>> env = gym.make("CartPole-v1")
    >>> _ = env.reset(seed=0)
    >>> parts = fixed_parts(env)
    >>> _ = env.step(1)
    >>> state = read_simulator(env, parts)
    >>> again = gym.make("CartPole-v1")
    >>> _ = again.reset(seed=0)
    >>> write_simulator(again, state)
    >>> bool((env.step(0)[0] == again.step(0)[0]).all())
    True
    """
    now = fixed_parts(env)
    for path in at_reset.keys() | now.keys():
        before, after = at_reset.get(path, MISSING), now.get(path, MISSING)
        if isinstance(before, tuple) or isinstance(after, tuple):  # an array may come and go
            changed = MISSING not in (before, after) and before != after
        else:
            changed = before is not after
        if changed:
            raise CannotSaveError(f"{path} has changed its identity or shape since the reset")
    return _write(env, ValueWriter(), "env")


def write_simulator(env: gym.Env[Any, Any], state: Node) -> None:
    """Gives an environment, just reset with the seed of the saved one, the saved state.

    Raises:
        ConfigError: the state does not fit: it is of another class, misses an attribute that this
            environment has, has a part that this environment lacks, or an array of another shape.
    """
    _read(state, env, ValueReader(), "env")


def fixed_parts(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Returns the attributes, by path, that must not change in an episode if it is to be saved.

    These are the objects that are restored in place or not at all, and the shapes of arrays.

    >>> env = gym.make("Pendulum-v1").unwrapped
    >>> _ = env.reset()
    >>> fixed_parts(env)["env.state"]
    (2,)
    """
    parts: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("env", env)]
    seen = {id(env)}
    while waiting:
        path, owner = waiting.pop()
        for name, value in vars(owner).items():
            kind = type(value)
            if name in _RECORDS:
                continue
            if kind is np.ndarray:
                parts[f"{path}.{name}"] = value.shape
            elif not _is_value(value):
                parts[f"{path}.{name}"] = value
                if id(value) not in seen and not _is_constant(value) and _is_plain(kind):
                    seen.add(id(value))
                    waiting.append((f"{path}.{name}", value))
    return parts


def _write(value: Any, writer: ValueWriter, path: str) -> Node:
    if _is_constant(value):
        return {"kind": "constant"}
    is_space, is_data = isinstance(value, gym.Space), is_mujoco(value, "MjData")
    is_object = not is_space and _is_plain(type(value))
    if not (is_space or is_data or is_object):
        try:
            return writer.write(value)
        except CannotSaveError as error:
            raise CannotSaveError(f"{path}: {error}") from None
    if (reference := writer.refer(value)) is not None:
        return reference
    if is_data:
        return {"kind": "mujoco", "data": read_data(value)}
    if is_space:
        generators = [writer.write(space._np_random) for space in _spaces(value)]
        return {"kind": "space", "generators": generators}
    attributes = [
        [name, _write(item, writer, f"{path}.{name}")]
        for name, item in vars(value).items()
        if name not in _RECORDS
    ]
    return {"kind": "object", "class": type(value).__qualname__, "attributes": attributes}


def _read(node: Node, current: Any, reader: ValueReader, path: str) -> Any:
    kind = node["kind"] if isinstance(node, dict) else None
    if kind not in ("constant", "mujoco", "space", "object"):
        value = reader.read(node, current, path)
        is_same = kind == "same" and value is current
        if not (is_same or current is MISSING or _is_value(current) or _is_value(value) is False):
            raise ConfigError(_misfit(path, "a value", current))
        return value
    if kind == "constant":
        if current is MISSING:
            raise ConfigError(_misfit(path, "a fixed object", current))
        return current
    is_free = reader.take(current)
    reader.register(current)
    if kind == "mujoco" and is_free and is_mujoco(current, "MjData"):
        write_data(current, node["data"], path)
    elif kind == "space" and is_free and isinstance(current, gym.Space):
        for space, generator in zip(_spaces(current), node["generators"], strict=True):
            space._np_random = reader.read(generator, space._np_random)
    elif kind == "object" and is_free and type(current).__qualname__ == node["class"]:
        _read_attributes(node["attributes"], current, reader, path)
    else:
        raise ConfigError(_misfit(path, f"a {node.get('class', kind)} of its own", current))
    return current


def _read_attributes(saved: Any, owner: Any, reader: ValueReader, path: str) -> None:
    attributes = vars(owner)
    for name in attributes.keys() - _RECORDS - {name for name, _ in saved}:
        raise ConfigError(
            f"the saved state of the environment does not fit: it has no attribute {path}.{name}"
        )
    for name, node in saved:
        attributes[name] = _read(node, attributes.get(name, MISSING), reader, f"{path}.{name}")


def _misfit(path: str, saved: str, current: Any) -> str:
    present = "nothing" if current is MISSING else f"a {type(current).__name__}"
    return (
        f"the saved state of the environment does not fit: {path} is {saved} there, but {present} "
        "in this environment"
    )


def _is_value(value: Any) -> bool:
    return type(value) in VALUE_TYPES or isinstance(value, np.generic)


def _is_constant(value: Any) -> bool:
    if isinstance(value, _FUNCTIONS):
        return _is_stateless(value)
    module = getattr(type(value), "__module__", None)  # which a SWIG type lacks
    is_renderer = module == "gymnasium.envs.mujoco.mujoco_rendering"
    return isinstance(value, _CONSTANTS) or is_renderer or is_mujoco(value, "MjModel")


def _is_stateless(function: Any) -> bool:
    """Whether a function belongs to no object but environments, and encloses nothing mutable."""
    owners = (type(None), types.ModuleType, type, gym.Env)
    enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return isinstance(getattr(function, "__self__", None), owners) and all(
        value is None or isinstance(value, (bool, int, float, str, type, gym.Env))
        for value in enclosed
    )


def _is_plain(kind: type[Any]) -> bool:
    """Whether all that an object of this class knows is in its ``__dict__``."""
    if not kind.__dictoffset__:
        return False
    for base in kind.__mro__:
        if base in (object, Generic, Protocol):
            continue
        members = vars(base)
        if not base.__flags__ & _HEAP_TYPE or members.get("__slots__"):
            return False
        if isinstance(members.get("__new__"), types.BuiltinFunctionType):  # made in C
            return False
    return True


def _spaces(space: gym.Space[Any]) -> Iterator[gym.Space[Any]]:
    """A space and those inside it, which have random generators of their own."""
    yield space
    for value in vars(space).values():
        if isinstance(value, gym.Space):
            yield from _spaces(value)
        elif isinstance(value, (tuple, list, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                if isinstance(part, gym.Space):
                    yield from _spaces(part)
