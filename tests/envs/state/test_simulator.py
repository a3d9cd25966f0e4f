from __future__ import annotations

import functools
import itertools
import json
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rlkit_sac.envs.state import CannotSaveError
from rlkit_sac.envs.state.objects import fixed_parts, read_simulator, write_simulator
from rlkit_sac.errors import ConfigError


class Bare(gym.Env[Any, Any]):
    """An environment that has the attributes it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.action_space, self.observation_space = Discrete(2), Discrete(2)
        vars(self).update(attributes)


class Part:
    """A plain Python object."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("__dict__", "speed")


class Name(str):
    pass


def read(env: Bare) -> Any:
    """The state of an environment after JSON, which has lists for arrays."""
    state = read_simulator(env, fixed_parts(env))
    text = json.dumps(state, default=lambda array: array.tolist(), sort_keys=True)
    return json.loads(text)


def copied(value: Any, current: Any = None) -> Any:
    """What an attribute becomes on its way through a saved state."""
    env = Bare(value=current)
    saved = Bare(value=value)
    write_simulator(env, read_simulator(saved, fixed_parts(saved)))
    return env.value


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, (np.ndarray, np.generic)):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes()
    elif isinstance(first, dict):
        assert_same(list(first.items()), list(second.items()))
    elif isinstance(first, (list, tuple, deque)):
        assert len(first) == len(second)
        for left, right in zip(first, second, strict=True):
            assert_same(left, right)
    else:
        assert repr(first) == repr(second)


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=9)
)
values = st.recursive(
    scalars | st.builds(np.float32, st.floats(width=32)) | st.builds(np.int64, st.integers(-9, 9)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(lambda items: deque(items, 3))
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.booleans()), inner, max_size=3)
        | st.dictionaries(st.text(), inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=12,
)


@given(values)
def test_values_come_back_with_type_and_content(value: Any) -> None:
    assert_same(copied(value), value)


@given(arrays(st.sampled_from([*"?bhilBHILefdgD", "S3", "U2", ">f8"]), array_shapes(min_side=0)))
def test_arrays_come_back_with_dtype_shape_and_bits(value: Any) -> None:
    assert_same(copied(value), value)


def test_sets_and_complex_numbers_come_back() -> None:
    assert copied({1, (2, "x")}) == {1, (2, "x")}
    assert copied(frozenset([3])) == frozenset([3])
    assert_same(copied(np.complex128(1 + 2j)), np.complex128(1 + 2j))
    assert copied(deque([1, 2], maxlen=2)).maxlen == 2


@pytest.mark.parametrize(
    "make",
    [np.asfortranarray, lambda array: array[::-1], lambda array: array[:, ::2].copy()[:, :1]],
)
def test_arrays_keep_their_layout_in_memory(make: Callable[[Any], Any]) -> None:
    array = make(np.arange(12.0).reshape(3, 4))
    result = copied(array)
    assert result.strides == array.strides
    assert np.array_equal(result, array)


def test_what_is_one_object_stays_one() -> None:
    shared = [np.zeros(2), {}]
    env = Bare(first=None, second=None, history=None)
    write_simulator(env, read(Bare(first=shared, second=(shared[0],), history=deque([shared] * 3))))
    assert env.first[0] is env.second[0]
    assert env.history[0] is env.history[2] is env.first
    again = Bare(first=shared, second=shared)  # one object there, two here
    write_simulator(again, read(Bare(first=[1], second=[1])))
    assert again.first is not again.second


@pytest.mark.parametrize(
    "make",
    [
        *(lambda name=name: np.random.Generator(getattr(np.random, name)(5))
          for name in ("PCG64", "MT19937", "Philox", "SFC64")),
        lambda: np.random.RandomState(5),
        lambda: random.Random(5),
    ],
)  # fmt: skip
def test_random_generators_go_on(make: Callable[[], Any]) -> None:
    generator, other = make(), make()
    draw = generator.normal if hasattr(generator, "normal") else lambda: generator.gauss(0, 1)
    draw()
    assert copied(generator, current=other) is other  # for whoever holds it
    created = copied(generator)
    results = [g.normal() if hasattr(g, "normal") else g.gauss(0, 1) for g in (other, created)]
    assert results == [draw()] * 2


def test_generators_that_are_one_stay_one_and_two_stay_two() -> None:
    one, two = np.random.default_rng(1), np.random.default_rng(2)
    env = Bare(first=one, second=one)
    write_simulator(env, read(Bare(first=np.random.default_rng(1), second=two)))
    assert env.first is not env.second
    assert env.second.random() == np.random.default_rng(2).random()
    env = Bare(first=one, second=two)
    write_simulator(env, read(Bare(first=two, second=two)))
    assert env.first is env.second


@pytest.mark.parametrize(
    "space",
    [Discrete(1000), Tuple([Discrete(1000), Box(0, 1)]), Dict(a=Dict(b=Box(0, 1, (2,))))],
)
def test_draws_from_spaces_go_on(space: gym.Space[Any]) -> None:
    space.seed(1)
    space.sample()
    same = type(space)(space.n if isinstance(space, Discrete) else space.spaces)  # type: ignore[call-arg,attr-defined]
    env = Bare(observation_space=same)
    state = read(Bare(observation_space=space))
    expected = [repr(space.sample()) for _ in range(3)]
    write_simulator(env, state)
    assert [repr(env.observation_space.sample()) for _ in range(3)] == expected


def test_plain_objects_are_restored_in_place_with_their_relations() -> None:
    def build(speed: float) -> Bare:
        motor = Part(speed=speed, trail=[speed])
        robot = Part(motor=motor, backup=motor)
        motor.owner = robot
        return Bare(robot=robot, motor=motor, name="x")

    env, again = build(2.0), build(0.0)
    robot, motor = again.robot, again.motor
    write_simulator(again, read(env))
    assert again.robot is robot
    assert again.robot.motor is again.robot.backup is again.motor is motor
    assert (motor.speed, motor.trail, motor.owner) == (2.0, [2.0], robot)


def test_attributes_made_in_the_episode_are_made_again() -> None:
    env = Bare()
    write_simulator(env, read(Bare(last_action=np.float32(0.5), buffer=deque([1]))))
    assert (env.last_action, env.buffer) == (np.float32(0.5), deque([1]))


def test_a_wrapper_has_state_of_its_own() -> None:
    env, again = (gym.make("CartPole-v1", max_episode_steps=5) for _ in range(2))
    env.reset(seed=1)
    at_reset = fixed_parts(env)
    for _ in range(3):
        env.step(0)
    again.reset(seed=1)
    write_simulator(again, read_simulator(env, at_reset))
    assert [again.step(1)[3] for _ in range(2)] == [False, True]


def closure() -> Callable[[], int]:
    count = [0]
    return lambda: count[0]


LOOP: list[Any] = []
LOOP.append(LOOP)
STATE = np.zeros(4)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"a": object()}, "a: a value of type object"),
        ({"a": itertools.count()}, "a: a value of type count"),
        ({"a": [Part()]}, "a: a value of type Part"),
        ({"a": Slotted()}, "a: a value of type Slotted"),
        ({"a": Name("x")}, "a: a value of type Name"),
        ({"a": functools.partial(print)}, "a: a value of type partial"),
        ({"a": closure()}, "a: a value of type function"),
        ({"a": np.random.default_rng().normal}, "a: a value of type method"),
        ({"a": LOOP}, "a: a list that contains itself"),
        ({"a": np.array([object()])}, "a: an array of object"),
        ({"a": STATE, "b": STATE[:2]}, "b: an array that shares memory"),
        ({"a": np.frombuffer(bytearray(8))}, "a: an array in the memory of another"),
        ({"part": Part(deep=Part(a=object()))}, "env.part.deep.a: a value of type object"),
    ],
)
def test_what_cannot_be_saved_is_named(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotSaveError) as error:
        read(Bare(**attributes))
    assert reason in str(error.value)


def test_what_does_not_change_is_left_alone() -> None:
    def build(scale: float) -> Bare:
        env = Bare(function=len, kind=Part, path=np.pi)
        env.method, env.enclosed = env.close, lambda: scale
        return env

    env, again = build(1.0), build(2.0)
    write_simulator(again, read(env))
    assert again.method.__self__ is again
    assert again.enclosed() == 2.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.zeros(2), np.zeros(3)),
        (Part(), Part()),
        (len, max),
        (None, Part()),
        (Part(), None),
        (np.zeros(2), Part()),
    ],
)
def test_what_a_reset_would_not_bring_back_is_not_saved(before: Any, after: Any) -> None:
    env = Bare(value=before)
    at_reset = fixed_parts(env)
    read_simulator(env, at_reset)
    env.value = after
    with pytest.raises(CannotSaveError, match=r"env\.value has changed"):
        read_simulator(env, at_reset)


@pytest.mark.parametrize(
    ("saved", "current", "text"),
    [
        ({}, {"a": 1}, "it has no attribute env.a"),
        ({"a": np.zeros(2)}, {"a": np.zeros(3)}, "env.a has shape [2] there and [3] in this"),
        ({"a": Part()}, {}, "env.a is a Part of its own there, but nothing in this"),
        ({"a": Part()}, {"a": 1}, "env.a is a Part of its own there, but a int in this"),
        ({"a": 1}, {"a": Part()}, "env.a is a value there, but a Part in this"),
        ({"a": len}, {}, "env.a is a fixed object there, but nothing in this"),
        ({"p": Part(x=1)}, {"p": Part(x=1, y=2)}, "it has no attribute env.p.y"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(
    saved: dict[str, Any], current: dict[str, Any], text: str
) -> None:
    state = read(Bare(**saved))
    with pytest.raises(ConfigError, match="saved state of the environment does not fit") as error:
        write_simulator(Bare(**current), state)
    assert text in str(error.value)


def test_objects_related_otherwise_are_refused() -> None:
    part = Part()
    state = read(Bare(a=Part(), b=Part()))
    with pytest.raises(ConfigError, match=r"env\.b is a Part of its own there"):
        write_simulator(Bare(a=part, b=part), state)
