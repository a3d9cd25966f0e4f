"""Recipes on tasks whose actions are several choices, or not all allowed."""

import shlex
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rlkit_sac.envs import make_env
from rlkit_sac.errors import EnvironmentFault
from rlkit_sac.modules import categorical_actor
from rlkit_sac.runs import export_policy, load_policy
from rlkit_sac.runs.build import warn_of_masks
from rlkit_sac.runs.launch import exit_code
from rlkit_sac.runs.stop import describe_failure
from tests.envs.test_action_masks import Masked
from tests.recipes.running import ACER, DISCRETE, HYBRID, each_case

SPACE = Dict(
    gear=Discrete(3, start=-1),
    arm=Tuple([Box(0, 4, (1,)), Discrete(2)]),
    wheel=Box(-1, 1, (2,), np.float64),
)


class Choices(gym.Env[Any, Any]):
    """Rewards two choices and a box, whatever the state, for ten steps."""

    action_space, observation_space = SPACE, Box(-1, 1, (3,))

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        reward = float(action["gear"] + action["arm"][1] - action["arm"][0][0])
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), reward, False, False, {}


gym.register("Choices-v0", entry_point=Choices, max_episode_steps=10)
gym.register("Masked5-v0", entry_point=Masked, max_episode_steps=5)  # refuses others


def test_two_choices_and_two_boxes_are_trained_exported_and_acted(workplace) -> None:
    run = HYBRID.train("--env.id", "Choices-v0")
    act, env = load_policy(run).act, gym.make("Choices-v0")
    observation, _ = env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(act(observation))  # which holds it against the space
    file = workplace / "policy.pt2"
    export_policy(run, file, format="torch")
    found = torch.export.load(file).module()(torch.from_numpy(observation[None]))
    wanted = act(observation)
    parts = [wanted["gear"], *wanted["arm"], wanted["wheel"]]
    for one, other in zip(found, parts, strict=True):
        np.testing.assert_allclose(one[0].numpy(), other, atol=1e-5)


MASKED = {
    "discrete": (DISCRETE, "--env.id Masked5-v0"),
    "actor": (DISCRETE, "--env.id Masked5-v0 --actor true"),
    "memory": (
        DISCRETE,
        "--env.id Masked5-v0 --network.memory gru --network.memory_size 4 --replay.slice_length 4",
    ),
    "hybrid": (HYBRID, "--env.id Masked5-v0 --env.kwargs '{space: hybrid}'"),
    "ACER": (ACER, "--env.id Masked5-v0"),
}


@each_case(MASKED, slow=("discrete", "actor", "memory"))
def test_a_run_with_masks_obeys_them_and_resumes_exactly(workplace, capsys, case) -> None:
    recipe, arguments = case
    recipe.assert_resumes_exactly(capsys, 40, *shlex.split(arguments))


def test_a_wrong_mask_ends_a_run_with_one_line(workplace) -> None:
    kwargs = "{fault: nothing, sound_episodes: 18}"
    with pytest.raises(EnvironmentFault) as ended:
        DISCRETE.train("--env.id", "Masked5-v0", "--env.kwargs", kwargs)
    first, *others = describe_failure(ended.value).splitlines()
    assert first.startswith("error: at frame 89 of the run: environment 0 gave an action_mask")
    assert [line.partition(":")[0] for line in others] == ["results so far", "continue with"]
    assert exit_code(ended.value) == 1


def test_a_policy_that_ignores_masks_is_warned_of_once(capsys) -> None:
    env = make_env("Taxi-v4")
    policy = categorical_actor(500, 6)
    warn_of_masks(env, policy)
    assert capsys.readouterr().err.startswith("warning: the task gives masks of allowed actions")
    warn_of_masks(make_env("Taxi-v4", action_mask=False), policy)
    assert not capsys.readouterr().err
