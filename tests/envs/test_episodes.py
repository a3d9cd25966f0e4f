import json
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.envs import load_episodes, make_env, save_episodes
from rlkit_sac.envs.seeding import episode_seed
from rlkit_sac.runs.files import join_state, split_state
from tests.envs.conftest import Recorder, Register
from tests.envs.tasks.test_tasks import TASKS

CLASSIC = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
MUJOCO = [
    f"{name}-v5"
    for name in (
        *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
        *("InvertedDoublePendulum", "InvertedPendulum", "Pusher", "Reacher"),
    )
]
BOX2D = ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3"]
MULTI_OBJECTIVE = ["mo-halfcheetah-v5", "mo-mountaincar-v0", "mo_gymnasium:deep-sea-treasure-v0"]


def through_json(episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a checkpoint keeps them."""
    tree, tensors = split_state(episodes)
    return join_state(json.loads(json.dumps(tree)), tensors)


def go(env: EnvBase, state: TensorDictBase, count: int) -> TensorDictBase:
    """The state after some random steps."""
    for _ in range(count):
        action = env.full_action_spec["action"].rand()
        _, state = env.step_and_maybe_reset(state.set("action", action))
    return state


def assert_same_future(env: EnvBase, again: EnvBase, count: int = 45) -> None:
    """Both take the same random actions from where they are, resets included."""
    state, other = (e.fake_tensordict().zero_() for e in (env, again))
    ends = 0
    for _ in range(count):
        action = env.full_action_spec["action"].rand()
        step, state = env.step_and_maybe_reset(state.set("action", action))
        step_again, other = again.step_and_maybe_reset(other.set("action", action))
        for key in ("observation", "reward", "done", "terminated", "truncated"):
            assert torch.equal(step["next", key], step_again["next", key]), key
        assert torch.equal(state["observation"], other["observation"])
        ends += int(step["next", "done"].sum())
    assert ends


@pytest.mark.parametrize("env_id", CLASSIC + MUJOCO + BOX2D + MULTI_OBJECTIVE + TASKS)
def test_a_saved_episode_goes_on_bit_for_bit(env_id: str) -> None:
    torch.manual_seed(0)
    env = make_env(env_id, seed=2, max_episode_steps=40)
    for count in (3, 58):
        state = go(env, env.reset(), count)
        saved = save_episodes(env)
        assert sum(map(len, saved[0]["actions"][:1])) == state["step_count"]
        again = make_env(env_id, seed=2, max_episode_steps=40)
        assert load_episodes(again, through_json(saved)) == [True]
        assert torch.equal(again.reset()["observation"], state["observation"])
        assert_same_future(env, again)


def test_episodes_have_seeds_of_their_own() -> None:
    assert len({episode_seed(3, env, episode) for env in range(3) for episode in range(3)}) == 9


def test_environments_side_by_side_go_on_each_from_its_own_step() -> None:
    torch.manual_seed(0)
    env, again = (make_env("CartPole-v1", num_envs=2, seed=2) for _ in range(2))
    state = go(env, env.reset(), 45)
    saved = save_episodes(env)
    steps = [len(entry["actions"][0]) for entry in saved]
    assert steps[0] != steps[1]
    assert steps == state["step_count"].flatten().tolist()
    assert load_episodes(again, through_json(saved)) == [True, True]
    assert torch.equal(again.reset()["observation"], state["observation"])
    assert_same_future(env, again)


class Curriculum(Recorder):
    """Its rewards grow from episode to episode."""

    episodes = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.episodes += 1
        return super().reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, _, _, info = super().step(action)
        return observation, float(self.episodes), False, False, info


class Noisy(Recorder):
    """Adds noise from outside of its seed to what it observes."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        noise = np.random.default_rng().random(2, np.float32)
        return noise, 0.0, False, False, {}


@pytest.mark.parametrize("kind", [Curriculum, Noisy])
def test_where_the_outcome_is_another_the_next_episode_begins(
    register: Register, kind: type[Recorder]
) -> None:
    spaces = {"action_space": Discrete(2), "observation_space": Box(0.0, 1.0, (2,), np.float32)}
    env_id = register(entry_point=kind, kwargs=spaces, max_episode_steps=4)
    env, again = make_env(env_id, seed=4), make_env(env_id, seed=4)
    go(env, env.reset(), 6)
    saved = save_episodes(env)
    assert (saved[0]["episode"], len(saved[0]["actions"][0])) == (1, 2)
    assert load_episodes(again, saved) == [False]
    again.reset()
    assert (save_episodes(again)[0]["episode"], save_episodes(again)[0]["actions"]) == (2, [])


def test_draws_from_the_spaces_go_on_too(restless: str) -> None:
    env, again = make_env(restless, seed=3), make_env(restless, seed=3)
    go(env, env.reset(), 5)
    assert load_episodes(again, through_json(save_episodes(env))) == [True]
    again.reset()
    action = env.fake_tensordict().zero_()
    for _ in range(3):
        first, second = (e.step(action.clone())["next"] for e in (env, again))
        assert torch.equal(first["reward"], second["reward"])
        assert torch.equal(first["observation"], second["observation"])
