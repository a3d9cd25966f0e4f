from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tensordict import TensorDict

from rlkit_sac.envs import make_env
from rlkit_sac.envs.actions import ActionConversion, leaves
from rlkit_sac.errors import ConfigError

Register = Callable[..., str]
UNIT = Box(0.0, 1.0, (2,), np.float32)


def step_with(env_id: str, action: Any, **options: Any) -> Any:
    """What the environment itself receives for the agent's action."""
    env = make_env(env_id, **options)
    env.step(env.reset().set("action", action))
    return env.base_env._env.unwrapped.received[-1]


def hybrid(discrete: int, *continuous: float) -> TensorDict:
    return TensorDict(discrete=torch.tensor(discrete), continuous=torch.tensor(continuous))


def listed(action: Any) -> Any:
    """An action with its containers as they are and its arrays as lists."""
    if isinstance(action, tuple):
        return tuple(listed(part) for part in action)
    if isinstance(action, dict):
        return {name: listed(part) for name, part in action.items()}
    return action.tolist() if isinstance(action, np.ndarray) else action


WIDE = Box(-4.0, 4.0, (1,), np.float32)
PLATFORM = (Box(0.0, 30.0, (1,)), Box(0.0, 720.0, (1,)), Box(0.0, 430.0, (1,)))
STRUCTURES = {
    "discrete first": (Tuple([Discrete(2), UNIT]), hybrid(1, -1, 0), (1, [0.0, 0.5])),
    "box first": (Tuple([UNIT, Discrete(2)]), hybrid(1, -1, 0), ([0.0, 0.5], 1)),
    "dict": (Dict(z=UNIT, a=Discrete(3, start=-1)), hybrid(0, 1, 0), {"a": -1, "z": [1.0, 0.5]}),
    "parameterized": (
        Tuple([Discrete(3), Tuple(PLATFORM)]),
        hybrid(2, -1.0, 0.0, 0.5),
        (2, ([0.0], [360.0], [322.5])),
    ),
    "flattened": (
        Tuple([Discrete(3), *PLATFORM]),
        hybrid(2, -1.0, 0.0, 0.5),
        (2, [0.0], [360.0], [322.5]),
    ),
    "a choice without a parameter": (
        Tuple([Discrete(2), Tuple([WIDE, Box(0.0, 1.0, (0,))])]),
        hybrid(1, 0.5),
        (1, ([2.0], [])),
    ),
    "boxes alone": (
        Tuple([UNIT, Dict(b=WIDE)]),
        torch.tensor([0.0, 1.0, 0.5]),
        ([0.5, 1.0], {"b": [2.0]}),
    ),
    "mixed nest": (
        Dict(a=WIDE, mode=Discrete(2), b=Box(0.0, 1.0, (2, 2))),
        hybrid(1, 0.25, -1, 1, 0, 0.5),
        {"a": [1.0], "b": [[0.0, 1.0], [0.5, 0.75]], "mode": 1},
    ),
    "boxes alike": (
        Tuple([Discrete(2), Tuple([Box(0.0, 1.0, (1, 2)), Box(0.0, 2.0, (1, 2))])]),
        hybrid(1, -1, 0, 0, 1),
        (1, ([[0.0, 0.5]], [[1.0, 2.0]])),
    ),
    "scalar boxes alike": (
        Tuple([Discrete(2), Tuple([Box(0.0, 4.0, ()), Box(0.0, 4.0, ())])]),
        hybrid(1, 0.5, 1.0),
        (1, (3.0, 4.0)),
    ),
    "scalar box": (Tuple([Discrete(2), Box(0.0, 4.0, ())]), hybrid(0, 0.5), (0, 3.0)),
    "several choices": (
        Dict(z=UNIT, a=Discrete(3, start=-1), b=Tuple([MultiBinary(2), Box(4, 5, (1,), np.int16)])),
        hybrid(2 * 8 + 1 * 4 + 0 * 2 + 1, 1, 0),
        {"a": 1, "b": ([1, 0], [5]), "z": [1.0, 0.5]},
    ),
    "multi-discrete": (MultiDiscrete([3, 4], start=[1, 0]), torch.tensor(7), [2, 3]),
    "one of two kinds": (Tuple([Discrete(2), Discrete(5)]), torch.tensor(9), (1, 4)),
    "wrapped discrete": (Dict(a=Tuple([Discrete(2)])), torch.tensor(1), {"a": (1,)}),
}


@pytest.mark.parametrize(("space", "action", "expected"), STRUCTURES.values(), ids=STRUCTURES)
def test_the_environment_receives_its_own_structure(
    register: Register, space: gym.Space[Any], action: Any, expected: Any
) -> None:
    received = step_with(register(space), action)
    assert listed(received) == expected
    # `contains` checks kinds of containers, shapes, dtypes and bounds.
    assert space.contains(received)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    low = draw(arrays(dtype, shape, elements=st.floats(-100, 100, width=32)))
    width = draw(arrays(dtype, shape, elements=st.floats(0.125, 100, width=32)))
    return Box(low, low + width, dtype=dtype)


def nests(leaf: st.SearchStrategy[gym.Space[Any]]) -> st.SearchStrategy[gym.Space[Any]]:
    names = st.sampled_from(["a", "b", "mode", "continuous", "action"])
    return st.recursive(
        leaf,
        lambda part: st.one_of(
            st.lists(part, min_size=1, max_size=3).map(Tuple),
            st.dictionaries(names, part, min_size=1, max_size=3).map(Dict),
        ),
        max_leaves=5,
    )


CHOICES = (Discrete, MultiDiscrete, MultiBinary)
LEAVES = st.one_of(
    boxes(),
    boxes(),
    st.builds(Discrete, st.integers(1, 5), start=st.just(2)),
    st.sampled_from(
        [
            MultiDiscrete([[2, 3], [1, 1]], start=[[0, -1], [5, 0]]),
            MultiBinary([1, 2]),
            Box(-1, np.array([0, 1]), dtype=np.int8),
        ]
    ),
)


@given(space=nests(LEAVES), data=st.data())
def test_every_nest_goes_there_and_back(space: gym.Space[Any], data: st.DataObject) -> None:
    convert = ActionConversion(space, rescale=True)
    agent_space = convert.agent_space()
    agent_space.seed(data.draw(st.integers(0, 1000)))
    action = agent_space.sample()
    received = convert(action)
    assert space.contains(received)
    entries = convert.agent_action(received)
    back = {name[1]: value for name, value in entries.items() if name != "action"}
    again = convert({"action": back} if back else entries["action"])
    for (_, leaf, first), (_, _, second) in zip(
        leaves(space, received), leaves(space, again), strict=True
    ):
        largest = max(1.0, np.abs([leaf.low, leaf.high]).max()) if isinstance(leaf, Box) else 0.0
        np.testing.assert_allclose(second, first, rtol=0, atol=1e-6 * largest)
    found = [
        leaf for _, leaf, _ in leaves(space) if isinstance(leaf, Box) and leaf.dtype.kind == "f"
    ]
    size = sum(leaf.low.size for leaf in found)
    ends = [np.full(size, end, np.float32) for end in (-1.0, 1.0)]
    if not convert.choices:
        low, high = (convert(end) for end in ends)
    elif size:
        low, high = (convert({"action": {"discrete": 0, "continuous": e}}) for e in ends)
    else:
        return
    lows, highs = (
        [value for value in flat(action) if getattr(value, "dtype", np.dtype(int)).kind == "f"]
        for action in (low, high)
    )
    assert all(np.array_equal(a, leaf.low) for a, leaf in zip(lows, found, strict=True))
    assert all(np.array_equal(a, leaf.high) for a, leaf in zip(highs, found, strict=True))


def flat(action: Any) -> list[Any]:
    if isinstance(action, dict):
        return [leaf for part in action.values() for leaf in flat(part)]
    return [leaf for part in action for leaf in flat(part)] if type(action) is tuple else [action]


@given(
    bounds=arrays(
        np.float64, (7, 2), elements=st.floats(-1e6, 1e6, allow_subnormal=False), unique=True
    ),
    actions=arrays(np.float32, 5, elements=st.floats(-2, 2, width=32)),
)
def test_the_rescaled_action_is_in_bounds_and_exact_at_the_ends(
    bounds: np.ndarray[Any, np.dtype[np.float64]],
    actions: np.ndarray[Any, np.dtype[np.float32]],
) -> None:
    space = Box(bounds.min(axis=1), bounds.max(axis=1), dtype=np.float64)
    ends = np.array([-1.0, 1.0], np.float32)
    received = ActionConversion(space, rescale=True)(np.concatenate([ends, actions]))
    assert space.contains(received)
    assert received[0] == space.low[0]
    assert received[1] == space.high[1]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            Box(np.float32([-1, -np.inf]), np.float32([1, 1]), dtype=np.float32),
            ["dimension [1] has the bounds [-inf, 1.0]"],
        ),
        (
            Box(np.float32([0, 3]), np.float32([1, 3]), dtype=np.float32),
            ["dimension [1] has the bounds [3.0, 3.0]", "the lower below the upper"],
        ),
        (Box(0, 5, (5,), np.int64), ["has 7776 combinations", "at most 4096"]),
        (Box(-(2**63), 2**63 - 1, (), np.int64), ["has 18446744073709551616 combinations"]),
        (Tuple([MultiBinary(12), Discrete(2)]), ["has 8192 combinations"]),
        (Dict(a=Text(3), b=UNIT), ["holds Text", "at ['a']", "supported are"]),
        (Box(0.0, 1.0, (0,), np.float32), ["no dimensions"]),
        (
            Tuple([Discrete(2), Tuple([UNIT, Box(3.0, 3.0, (1,))])]),
            ["dimension [0] of the Box at [1][1] has the bounds [3.0, 3.0]"],
        ),
        (
            Dict(a=Discrete(2), b=Box(np.zeros(2, bool), np.ones(2, bool), dtype=np.bool_)),
            ["at ['b']", "bool"],
        ),
    ],
)
def test_what_cannot_be_acted_in_is_refused_by_name(
    register: Register, space: gym.Space[Any], words: list[str]
) -> None:
    env_id = register(space)
    with pytest.raises(ConfigError) as error:
        make_env(env_id)
    for word in [env_id, *words]:
        assert word in str(error.value)
