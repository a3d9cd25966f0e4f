"""Stacks of the last frames of images, as networks and users of Gymnasium see them."""

from typing import Any

import numpy as np
from gymnasium.spaces import Tuple
from gymnasium.wrappers import FrameStackObservation

from rlkit_sac.envs import (
    FrameStack,
    describe_task,
    make_env,
    observation_layout,
)
from rlkit_sac.envs.task_tensors import make_conversions
from tests.image_tasks import Dot, Noise


def dot(observation: str, **options: Any) -> Any:
    kwargs = {"observation": observation, "action": "discrete"}
    return make_env("tests/Dot-v0", kwargs=kwargs, frame_stack=4, **options)


def test_stacks_are_those_of_gymnasium_for_one_image() -> None:
    ours = FrameStack(Dot("planes", "discrete"), 4)
    theirs = FrameStackObservation(Dot("planes", "discrete"), 4)
    assert ours.observation_space == theirs.observation_space
    for seed in range(3):
        pairs = [(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])]
        pairs += [(ours.step(n % 5)[0], theirs.step(n % 5)[0]) for n in range(9)]
        for mine, other in pairs:
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other)


def test_images_within_a_structure_are_stacked_and_the_rest_stays() -> None:
    raw, env = Noise(), FrameStack(Noise(), 3)
    first, _ = raw.reset(seed=1)
    frames = [first] * 3
    found, _ = env.reset(seed=1)
    for _ in range(6):
        assert env.observation_space.contains(found)
        for key in ("gray", "planes"):
            assert np.array_equal(found[key], [frame[key] for frame in frames[-3:]])
        assert np.array_equal(found["at"], frames[-1]["at"])
        frames.append(raw.step(0)[0])
        found = env.step(0)[0]
    mixed = FrameStack(Dot("mixed", "discrete"), 2)
    found, _ = mixed.reset(seed=0)
    assert isinstance(mixed.observation_space["view"], Tuple)
    assert [part.shape for part in found["view"]] == [(2, 2, 12, 14), (2,), (2, 12, 14, 3)]
    assert mixed.observation_space.contains(found)


def test_frames_are_channels_and_the_description_of_the_task_has_them() -> None:
    env = dot("mixed")
    layout = observation_layout(env)
    shapes = {entry["key"]: (entry["shape"], entry.get("channels")) for entry in layout}
    assert shapes == {
        "image_view_0": ([4, 2, 12, 14], "first"),
        "image_view_2": ([4, 12, 14, 3], "last"),
        "observation": ([5], None),
    }
    described = describe_task(env)
    assert described is not None
    observe, _ = make_conversions(described)
    raw, _ = FrameStack(Dot("mixed", "discrete"), 4).reset(seed=0)
    assert observe(raw)["image_view_0"].shape == (4, 2, 12, 14)
