"""Observations in tensors, against those that an environment writes."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array

from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.spaces import space_to_json
from rlkit_sac.envs.task_tensors import TaskTensors


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
