"""Images keep their bytes, alone or within a structure, and the rest is a vector beside them."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array

from rlkit_sac.data import make_collector
from rlkit_sac.envs import make_env, observation_dim, observation_layout
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.spaces import space_to_json
from rlkit_sac.envs.task_tensors import TaskTensors
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import categorical_actor
from tests.data.collect.kinds import KINDS, of_kind
from tests.data.collect.test_light_collector import assert_same
from tests.image_tasks import Dot


def dot(observation: str = "mixed", **options: Any) -> Any:
    kwargs = {"observation": observation, "action": "discrete"}
    return make_env("tests/Dot-v0", kwargs=kwargs, **options)


def image(*shape: int, dtype: Any = np.uint8, high: int = 255) -> Box:
    return Box(0, high, shape, dtype)


def test_each_image_is_an_entry_and_all_else_one_vector() -> None:
    env = dot("mixed", seed=4)
    found = env.reset()
    seed = env.base_env.gym_env().get_wrapper_attr("np_random_seed")
    raw, _ = Dot("mixed", "discrete").reset(seed=seed)
    planes, moved, color = raw["view"]
    hot = np.eye(3)[raw["mode"]]
    assert found["image_view_0"].dtype == torch.bool
    assert found["image_view_2"].dtype == torch.uint8
    assert np.array_equal(found["image_view_0"], planes)
    assert np.array_equal(found["image_view_2"], color)
    assert np.array_equal(found["observation"], np.float32([*hot, *moved]))
    assert "observation" not in dot("images").reset()
    assert dot("planes").reset()["observation"].dtype == torch.bool


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (image(84, 96), ([84, 96], 255, "first")),
        (image(3, 84, 96), ([3, 84, 96], 255, "first")),
        (image(84, 96, 3), ([84, 96, 3], 255, "last")),
        (image(10, 10, 10, dtype=np.bool_, high=1), ([10, 10, 10], 1, "last")),
        (image(4, 84, 84, 3), ([4, 84, 84, 3], 255, "last")),
        (image(4, 3, 84, 84, high=7), ([4, 3, 84, 84], 7, "first")),
        # Channels are beside two axes that are equal.
        (image(12, 8, 8), ([12, 8, 8], 255, "first")),
        (image(7, 7, 20), ([7, 7, 20], 255, "last")),
        (image(3, 4, 5), ([3, 4, 5], 255, "first")),
        (image(210, 160, 3), ([210, 160, 3], 255, "last")),
        (image(3, 3, 3), ([3, 3, 3], 255, "last")),
        (image(4, 12, 8, 8), ([4, 12, 8, 8], 255, "first")),
    ],
)
def test_the_layout_says_how_an_image_is_read(space: Box, wanted: Any) -> None:
    (entry,) = ObservationConversion(space).layout()
    assert tuple(entry[name] for name in ("shape", "scale", "channels")) == wanted


def test_a_layout_is_of_images_and_then_the_vector() -> None:
    assert observation_layout(dot("mixed")) == [
        {"key": "image_view_0", "shape": [2, 12, 14], "scale": 1, "channels": "first"},
        {"key": "image_view_2", "shape": [12, 14, 3], "scale": 255, "channels": "last"},
        {"key": "observation", "shape": [5]},
    ]
    assert observation_layout(make_env("Pendulum-v1")) == [{"key": "observation", "shape": [3]}]
    with pytest.raises(ConfigError, match="observation_inputs"):
        observation_dim(dot("mixed"))


def test_chosen_entries_are_those_of_the_vector() -> None:
    whole, chosen = dot("mixed"), dot("mixed", observation_indices=[4, 0])
    first, second = whole.reset(), chosen.reset()
    assert torch.equal(second["observation"], first["observation"][[4, 0]])
    assert torch.equal(second["image_view_2"], first["image_view_2"])
    with pytest.raises(ConfigError, match="for vectors"):
        dot("images", observation_indices=[0])


def test_a_counter_beside_an_image_is_still_one_number() -> None:
    convert = ObservationConversion(Tuple([image(4, 4), Discrete(101)]))
    assert convert((np.zeros((4, 4), np.uint8), 50))["observation"].tolist() == [0.5]


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("observation", ["planes", "images", "mixed"])
def test_both_collectors_yield_the_same_frames(observation: str, num_envs: int) -> None:
    found = []
    for kind in KINDS:
        env = of_kind(dot(observation, num_envs=num_envs, seed=2), kind)
        torch.manual_seed(0)
        actor = categorical_actor({"layout": observation_layout(env)}, 5, num_cells=[8])
        options = {"total_frames": 60, "frames_per_batch": 20, "init_random_frames": 20}
        found.append(torch.cat(list(make_collector(env, actor, **options)), -1))
    assert_same(*found)
    assert found[0]["next", "terminated"].any() | found[0]["next", "truncated"].any()


@pytest.mark.parametrize(
    ("env_id", "package", "dtype"),
    [
        ("MinAtar/Breakout-v1", "minatar", torch.bool),
        ("ALE/Pong-v5", "ale_py", torch.uint8),
        ("Atari-v0", "ale_py", torch.uint8),
    ],
)
def test_ids_of_games_register_themselves(env_id: str, package: str, dtype: torch.dtype) -> None:
    try:
        __import__(package)
    except ImportError:
        extra = {"minatar": "minatar", "ale_py": "atari"}[package]
        with pytest.raises(ConfigError, match=rf"pip install 'rlkit_sac\[{extra}\]'"):
            make_env(env_id)
    else:
        assert make_env(env_id).reset()["observation"].dtype == dtype


def test_two_images_of_one_entry_are_refused() -> None:
    space = Dict(arm=Tuple([image(8, 8, 3)]), arm_0=image(8, 8, 3))
    with pytest.raises(ConfigError, match="two images of the observation space"):
        ObservationConversion(space)


def test_images_and_choices_are_those_of_the_environment() -> None:
    space = Dict(mode=Discrete(3, start=1), view=Tuple([Box(0, 255, (4, 4, 3), np.uint8)] * 2))
    observe = ObservationConversion(space, indices=[2, 0])
    described = {"observation_space": space_to_json(space), "observation_indices": [2, 0]}
    actions = {"action_space": space_to_json(Discrete(2)), "rescale_actions": True}
    task = TaskTensors(described | actions)
    each = [space.sample() for _ in range(3)]
    tensors, front = task.to_tensors(concatenate(space, each, create_empty_array(space, 3)))
    assert front == (3,)
    for key, values in task.policy_inputs(tensors).items():
        assert np.array_equal(values, np.stack([observe(one)[key] for one in each]))
