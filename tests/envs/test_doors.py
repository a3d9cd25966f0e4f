"""What an environment gives is taken as it is, or refused."""

import threading
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.wrappers.vector import ClipReward
from hypothesis import given
from hypothesis import strategies as st
from torchrl.envs import GymEnv, GymWrapper, PendulumEnv, SerialEnv, TransformedEnv, VecNormV2

from rlkit_sac.data import make_collector
from rlkit_sac.envs import action_mask_key, check_env, make_env
from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.envs.observations import ObservationConversion, RewardConversion
from rlkit_sac.envs.spaces import space_to_json
from rlkit_sac.envs.task_tensors import TaskTensors
from rlkit_sac.errors import ConfigError, EnvironmentFault
from rlkit_sac.modules import categorical_actor, tanh_gaussian_actor
from tests.data.collect.kinds import BOTH, Kind, of_kind
from tests.envs.conftest import Still


class Line(Still):
    """Observes the number of its steps."""

    observation_space = Box(-1000, 1000, (1,))

    def __init__(self, settings: Any = None) -> None:
        self.settings = settings
        if isinstance(settings, dict):
            settings.pop("goal")
            settings["walls"].append("a wall")

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.array([self.steps], np.float32), 0.1, False, False, {}


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gym.wrappers.ClipReward(env, -1, 1)])
def test_two_environments_are_not_one_object(register, wrap) -> None:
    one = Line()
    name = register(entry_point=lambda: wrap(one))
    env = make_env(name)
    with pytest.raises(ConfigError, match=f"{name}: .* in use already"):
        make_env(name)
    env.close()
    make_env(name).close()  # nobody steps the first one any more
    with pytest.raises(ConfigError, match="in use already"):
        make_env(name, num_envs=2).reset()


def test_one_that_was_dropped_is_free_again(register) -> None:
    one = Line()
    name = register(entry_point=lambda: one)
    make_env("Pendulum-v1")  # the first one of a process is kept by an exception in TorchRL
    for _ in range(2):
        make_env(name).reset()  # and is collected


class Simulated(PendulumEnv):
    """One of TorchRL."""


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: TransformedEnv(env), GymWrapper])
def test_two_environments_of_torchrl_are_not_one_object(wrap) -> None:
    one: Any = Line() if wrap is GymWrapper else Simulated()
    if wrap is GymWrapper:
        one.action_space, one.metadata = Box(-1, 1, (1,)), {}
    env = make_env(lambda: wrap(one))
    with pytest.raises(ConfigError, match="in use already"):
        make_env(lambda: wrap(one))
    env.close()
    if wrap is GymWrapper:
        with pytest.raises(ConfigError, match="in use already"):
            make_env(lambda: wrap(one), num_envs=2).reset()


@pytest.mark.parametrize("flags", [({}, False), (None, False), (False, "False"), (False, {"a": 1})])
def test_flags_are_bools(register, flags: Any) -> None:
    class Flagged(Line):
        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 0.0, *flags, {}

    env = make_env(register(entry_point=Flagged))
    with pytest.raises(EnvironmentFault, match=r"terminated .* and truncated .* are not bool"):
        env.rollout(2)


@pytest.mark.parametrize("wrapper", ["NormalizeObservation", "NormalizeReward"])
def test_statistics_of_each_environment_alone_are_told(wrapper: str) -> None:
    with pytest.warns(UserWarning, match=f"{wrapper} has other statistics in evaluations"):
        make_env(lambda: getattr(gym.wrappers, wrapper)(Line()))
    with pytest.warns(UserWarning, match="VecNormV2 has other statistics in evaluations"):
        make_env(lambda: GymEnv("Pendulum-v1").append_transform(VecNormV2(in_keys=["observation"])))


def test_what_wrappers_of_torchrl_would_change_is_refused(register) -> None:
    class Chosen(Line):
        metadata: ClassVar[dict[str, Any]] = {}
        action_space = Discrete(3, start=1)

    class Masked(Chosen):
        action_space = Discrete(3)

        def reset(self, **options: Any) -> Any:
            return super().reset(**options)[0], {"action_mask": np.ones(3, np.int8)}

    class Counted(Line):
        observation_space = MultiDiscrete([2, 2])

    class Structured(Line):
        action_space = Tuple([Box(-1, 1, (1,)), Box(-1, 1, (1,))])

    class Nested(Line):
        observation_space = Tuple([Dict(at=Box(-1, 1, (1,)))] * 2)

        def reset(self, **options: Any) -> Any:
            return self.observation_space.sample(), {}

    options = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}
    for task, words in {
        Chosen: "choices that begin",
        Masked: "masks of actions in info",
        Counted: "MultiDiscrete observations of a vector",
        Structured: "structured actions of a vector",
    }.items():
        name = register(entry_point=task)
        makers = [partial(gym.make_vec, name, num_envs=2, vector_kwargs=options)]
        if task in (Chosen, Masked):
            makers += [lambda t=task: GymWrapper(t()), partial(SerialEnv, 2, partial(GymEnv, name))]
        for make in makers:
            with pytest.raises(ConfigError, match=words):
                make_env(make)
    with pytest.raises(ConfigError, match="parts of a Tuple"):
        make_env(lambda: GymWrapper(Nested()))
    with pytest.raises(ConfigError, match="the vector wrapper ClipReward"):
        make_env(lambda: ClipReward(gym.make_vec("Pendulum-v1", num_envs=2), -1, 1))
    allowed = make_env(lambda: GymWrapper(Masked()), action_mask=False)
    assert action_mask_key(allowed) is None


def test_an_index_reaches_a_gymnasium_environment_of_torchrl() -> None:
    env = make_env(lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    assert env.rollout(3)["action"].shape == (3,)


def test_kwargs_that_cannot_be_copied_are_named(register) -> None:
    name = register(entry_point=Line)
    with pytest.raises(ConfigError, match=r"could not be created: TypeError: cannot pickle .*lock"):
        make_env(name, kwargs={"settings": threading.Lock()})


@pytest.mark.parametrize("count", [-1, 51])
def test_act_refuses_counters_that_training_refuses(count: int) -> None:
    space, actions = (
        space_to_json(each) for each in (Dict(at=Box(0, 1, (1,)), n=Discrete(50)), Box(-1, 1, (1,)))
    )
    task = {"observation_space": space, "action_space": actions}
    tensors = TaskTensors({**task, "observation_indices": None, "rescale_actions": True})
    for fine in (0, 49, 50):  # one too far counts as the last
        tensors.to_tensors({"at": np.zeros(1), "n": fine})
    with pytest.raises(ValueError, match="wanted Discrete"):
        tensors.to_tensors({"at": np.zeros(1), "n": count})


def test_a_constructor_may_change_its_arguments(register) -> None:
    name = register(entry_point=Line)
    kwargs = {"settings": {"goal": 5, "walls": []}}
    for _ in range(2):
        make_env(name, kwargs=kwargs, num_envs=2).reset()
    assert kwargs == {"settings": {"goal": 5, "walls": []}}


TYPES = [np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64, np.bool_]


@given(
    declared=st.sampled_from(TYPES),
    values=st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=2, max_size=2),
    nest=st.sampled_from(["alone", "dict", "tuple"]),
)
def test_numbers_are_those_that_were_given(declared: Any, values: list[float], nest: str) -> None:
    kind = Box(0, 1, (2,), declared)
    array = np.array(values)
    spaces = {"alone": kind, "dict": Dict(a=kind), "tuple": Tuple([kind])}
    observations = {"alone": array, "dict": {"a": array}, "tuple": (array,)}
    found = ObservationConversion(spaces[nest])(observations[nest])["observation"]
    np.testing.assert_array_equal(found, array.astype(np.float32))


@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    given_shape=st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple),
    kind=st.sampled_from(["image", "vector", "part", "reward"]),
)
def test_axes_are_not_swapped(shape: Any, given_shape: Any, kind: str) -> None:
    value: Any = np.arange(np.prod(given_shape)).reshape(given_shape)
    dtype: Any = np.uint8 if kind == "image" else np.float32
    space: Any = Box(0, 255, shape, dtype)
    if kind == "part":
        space, value = Dict(at=space, door=Discrete(2)), {"at": value, "door": 0}
    if kind == "reward":
        if len(shape) > 1:
            return
        env = Line()
        env.reward_space = space  # type: ignore[attr-defined]
        convert: Any = RewardConversion(env)
    else:
        convert = ObservationConversion(space)
    if [n for n in shape if n != 1] == [n for n in given_shape if n != 1]:
        convert(value)
    else:
        with pytest.raises(ValueError, match=r"has the shape \[.*\], wanted \["):
            convert(value)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int64])
@pytest.mark.parametrize("number", [-1, 256])
def test_pixels_beyond_their_range_are_refused(dtype: Any, number: int) -> None:
    convert = ObservationConversion(Box(0, 255, (2, 2), np.uint8))
    fine = np.array([[0, 255], [7, 1]]).astype(dtype)
    np.testing.assert_array_equal(convert(fine)["observation"], fine)
    with pytest.raises(ValueError, match="wanted 0 to 255"):
        convert(np.full((2, 2), number).astype(dtype))
    with pytest.raises(ValueError, match="wanted 0 to 1"):
        ObservationConversion(Box(0, 1, (2, 2), np.uint8))(np.full((2, 2), 2, np.uint8))


@pytest.mark.parametrize("factor", [1.0, 1e6])
def test_check_env_judges_what_the_entry_point_returns(register, factor: float) -> None:
    def make() -> gym.Env[Any, Any]:
        env = Line()
        env.observation_space = Box(-1000 * factor, 1000 * factor, (1,))
        return gym.wrappers.TransformObservation(env, lambda x: x + 2000, None)

    name = register(entry_point=make, max_episode_steps=9)
    if factor == 1.0:
        with pytest.raises(EnvironmentFault, match="not within the observation space"):
            check_env(name)
    else:
        check_env(name)


@BOTH
@pytest.mark.parametrize("num_envs", [1, 3])
def test_returns_are_float64_sums_of_the_rewards_as_given(
    register, num_envs: int, kind: Kind
) -> None:
    name = register(entry_point=Line, max_episode_steps=70)
    env = of_kind(make_env(name, num_envs=num_envs), kind)
    policy = tanh_gaussian_actor(1, [-1.0], [1.0], num_cells=[2])
    size = 80 * num_envs
    (batch,) = make_collector(env, policy, total_frames=size, frames_per_batch=size)
    found = batch["next", "episode_reward"].reshape(num_envs, 80)[:, [69, 79]]
    wanted = [sum([0.1] * 70), sum([0.1] * 10)]
    assert found.tolist() == [wanted] * num_envs


@given(
    shape=st.sampled_from([(), (1,), (3,)]), column=st.booleans(), number=st.sampled_from([0, 4])
)
def test_act_takes_the_shapes_that_training_takes(shape: Any, column: bool, number: int) -> None:
    space = Dict(at=Box(-9, 9, (3,)), one=Box(-9, 9, shape))
    actions = space_to_json(Box(-1, 1, (1,)))
    task = {"observation_space": space_to_json(space), "action_space": actions}
    tensors = TaskTensors({**task, "observation_indices": None, "rescale_actions": True})
    front = (number,) if number else ()
    given_shape = () if shape == (1,) and column and not number else (*shape, *[1] * column)
    observation = {"at": np.ones((*front, 3)), "one": np.full((*front, *given_shape), 2.0)}
    found, in_front = tensors.to_tensors(observation)
    assert in_front == front
    assert found[1].shape == (*front, *shape)


def test_a_flat_mask_is_one_of_combinations() -> None:
    convert = ActionConversion(MultiDiscrete([2, 2]), rescale=True)
    assert convert.allowed_choices(np.array([1, 0, 1, 1])).tolist() == [True, False, True, True]
    convert = ActionConversion(MultiDiscrete([2, 3]), rescale=True)
    convert.allowed_choices(np.ones(6))
    with pytest.raises(ValueError, match="6"):
        convert.allowed_choices(np.ones(5))


@pytest.mark.parametrize(
    "mask",
    [
        [0.0, -np.inf, -np.inf],
        [np.nan, 0, 1],
        ["1", "0", "1"],
        [0, -1e9, 0],  # of logits
        [1, -1, 1],
        [0, 1, 2],  # indices
    ],
)
def test_a_mask_of_other_numbers_is_refused(mask: Any) -> None:
    with pytest.raises(ValueError, match="action_mask must hold 0 and 1"):
        ActionConversion(Discrete(3), rescale=True).allowed_choices(np.array(mask))


def test_surplus_parts_of_an_observation_are_refused() -> None:
    convert = ObservationConversion(Tuple([Box(-1, 1, (2,)), Box(-1, 1, (2,))]))
    with pytest.raises(ValueError, match="3 parts were given, wanted 2"):
        convert((np.zeros(2), np.zeros(2), np.zeros(2)))


class Late(Line):
    """Gives a mask in its steps alone."""

    action_space = Discrete(2)

    def step(self, action: Any) -> Any:
        *outcome, info = super().step(action)
        return *outcome, {**info, "action_mask": np.ones(2)}


@BOTH
def test_a_mask_that_the_first_reset_did_not_give_is_told(register, kind: Kind) -> None:
    name = register(entry_point=Late, max_episode_steps=9)
    env = of_kind(make_env(name), kind)
    policy = categorical_actor(1, 2, num_cells=[2])
    with pytest.raises(EnvironmentFault, match="which its first reset did not give"):
        list(make_collector(env, policy, total_frames=4, frames_per_batch=4))
    env = of_kind(make_env(name, action_mask=False), kind)
    list(make_collector(env, policy, total_frames=4, frames_per_batch=4))
