from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.envs import can_save_episodes, closing_env, load_episodes, make_env, save_episodes
from rlkit_sac.errors import ConfigError, RunError

CLASSIC = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
MUJOCO = [
    f"{name}-v5"
    for name in (
        *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
        *("InvertedDoublePendulum", "InvertedPendulum", "Pusher", "Reacher"),
    )
]
MULTI_OBJECTIVE = ["mo-halfcheetah-v5", "mo-mountaincar-v0", "mo_gymnasium:deep-sea-treasure-v0"]


def through_json(episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return json.loads(json.dumps(episodes, default=lambda array: array.tolist(), sort_keys=True))


def go(env: EnvBase, state: TensorDictBase, count: int) -> TensorDictBase:
    """The state after some random steps."""
    for _ in range(count):
        action = env.full_action_spec["action"].rand()
        _, state = env.step_and_maybe_reset(state.set("action", action))
    return state


def assert_same_future(env: EnvBase, again: EnvBase, count: int = 70) -> None:
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


@pytest.mark.parametrize("env_id", CLASSIC + MUJOCO + MULTI_OBJECTIVE)
def test_a_saved_episode_goes_on_bit_for_bit(env_id: str) -> None:
    torch.manual_seed(0)
    env = make_env(env_id, seed=2, max_episode_steps=40)
    for count in (3, 58):
        go(env, env.reset(), count)
        saved = save_episodes(env)
        assert can_save_episodes(env)
        again = make_env(env_id, seed=2, max_episode_steps=40)
        assert load_episodes(again, through_json(saved)) == [True]
        again.reset()
        assert save_episodes(again)[0]["step"] == saved[0]["step"]
        assert_same_future(env, again)


@pytest.mark.parametrize("parallel", [False, True])
def test_environments_side_by_side_go_on_each_from_its_own_step(parallel: bool) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"num_envs": 2, "seed": 2}
    with (
        closing_env(make_env("CartPole-v1", **options, parallel=parallel)) as env,
        closing_env(make_env("CartPole-v1", **options)) as again,
    ):
        state = go(env, env.reset(), 45)
        saved = save_episodes(env)
        assert can_save_episodes(env)
        positions = [(entry["episode"], entry["step"]) for entry in saved]
        assert positions[0] != positions[1]
        assert [step for _, step in positions] == state["step_count"].flatten().tolist()
        assert load_episodes(again, through_json(saved)) == [True, True]
        again.reset()
        assert_same_future(env, again)
        assert load_episodes(env, saved) == [True, True]  # in processes of their own, too
        again = make_env("CartPole-v1", **options)
        load_episodes(again, saved)
        env.reset()
        again.reset()
        assert_same_future(env, again)


def test_an_episode_at_its_start_is_reset_again() -> None:
    env, again = (make_env("Pendulum-v1", seed=4, max_episode_steps=3) for _ in range(2))
    start = go(env, env.reset(), 6)
    saved = save_episodes(env)
    assert [(entry["episode"], entry["step"]) for entry in saved] == [(2, 0)]
    assert load_episodes(again, saved) == [True]
    assert torch.equal(again.reset()["observation"], start["observation"])
    assert torch.equal(env.reset()["observation"], again.reset()["observation"])


def test_what_outlives_an_episode_goes_on_too() -> None:
    """A difficulty that grows from episode to episode, say."""

    def make():
        env = make_env("Pendulum-v1", seed=4, max_episode_steps=3)
        return env, env.base_env._env.unwrapped

    (env, task), (again, other) = make(), make()
    task.max_torque = 0.5
    go(env, env.reset(), 6)
    load_episodes(again, save_episodes(env))
    again.reset()
    assert other.max_torque == 0.5


def test_an_episode_of_bipedal_walker_depends_on_nothing_before_it() -> None:
    """Its world outlives the reset; what is left of earlier contacts shows in the last digits."""
    env, again = (make_env("BipedalWalker-v3", seed=4, max_episode_steps=60) for _ in range(2))
    torch.manual_seed(0)
    go(env, env.reset(), 150)
    while save_episodes(env)[0]["step"]:  # to the beginning of an episode
        go(env, env.reset(), 0)
    load_episodes(again, save_episodes(env))
    fresh, present = again.reset(), env.reset()
    load_episodes(again, save_episodes(env))
    assert torch.equal(again.reset()["observation"], present["observation"])
    for _ in range(50):
        action = torch.rand(4) * 2 - 1
        present["action"] = fresh["action"] = action
        present, fresh = (e.step(td)["next"] for e, td in ((env, present), (again, fresh)))
        assert torch.equal(present["observation"], fresh["observation"])


def test_where_the_state_cannot_be_saved_the_next_episode_begins() -> None:
    env = make_env("LunarLanderContinuous-v3", seed=4)
    go(env, env.reset(), 5)
    assert not can_save_episodes(env)
    saved = save_episodes(env)
    assert saved == [{"episode": 0, "step": 5, "simulator": None}]
    again = make_env("LunarLanderContinuous-v3", seed=4)
    assert load_episodes(again, saved) == [False]
    assert torch.equal(again.reset()["observation"], env.reset()["observation"])


def test_an_environment_that_was_loaded_and_not_reset_yet_is_saved_as_it_was_loaded() -> None:
    env, again = make_env("Pendulum-v1"), make_env("Pendulum-v1")
    go(env, env.reset(), 5)
    saved = save_episodes(env)
    load_episodes(again, saved)
    assert save_episodes(again) == saved


def test_a_new_seed_takes_precedence_over_what_was_loaded() -> None:
    env, again = make_env("Pendulum-v1"), make_env("Pendulum-v1")
    go(env, env.reset(), 5)
    load_episodes(again, save_episodes(env))
    again.set_seed(8)
    again.reset()
    assert (save_episodes(again)[0]["episode"], save_episodes(again)[0]["step"]) == (1, 0)


def test_saving_does_not_disturb_the_episode() -> None:
    torch.manual_seed(0)
    env, other = (make_env("Hopper-v5", seed=1) for _ in range(2))
    state, other_state = env.reset(), other.reset()
    for _ in range(60):
        action = env.action_spec.rand()
        save_episodes(env)
        _, state = env.step_and_maybe_reset(state.set("action", action))
        _, other_state = other.step_and_maybe_reset(other_state.set("action", action))
        assert torch.equal(state["observation"], other_state["observation"])


@pytest.mark.parametrize(("num_envs", "count"), [(1, 2), (3, 1), (2, 0)])
def test_another_number_of_environments_is_refused(num_envs: int, count: int) -> None:
    saved = save_episodes(make_env("Pendulum-v1")) * count  # before any reset: episode 0
    with pytest.raises(ConfigError, match=f"{count} saved episodes do not fit {num_envs} env"):
        load_episodes(make_env("Pendulum-v1", num_envs=num_envs), saved)


def test_environments_that_are_closed_are_not_started_to_be_saved() -> None:
    env = make_env("Pendulum-v1", num_envs=2)
    with pytest.raises(RunError, match="can be saved after a reset"):
        save_episodes(env)


@pytest.mark.parametrize(
    ("env_id", "text"),
    [
        ("CartPole-v1", "env.env.env is a HalfCheetahEnv of its own there, but a CartPoleEnv"),
        ("Hopper-v5", "env.env.env is a HalfCheetahEnv of its own there, but a HopperEnv"),
    ],
)
def test_the_state_of_another_task_is_refused(env_id: str, text: str) -> None:
    env, other = make_env("HalfCheetah-v5"), make_env(env_id)
    go(env, env.reset(), 2)
    load_episodes(other, save_episodes(env))
    with pytest.raises(ConfigError, match="does not fit") as error:
        other.reset()
    assert text in str(error.value)


def test_another_model_of_the_same_task_is_refused(tmp_path: Path) -> None:
    env = make_env("Reacher-v5")
    go(env, env.reset(), 2)
    saved = save_episodes(env)
    text = (
        Path(env.base_env._env.unwrapped.fullpath)
        .read_text()
        .replace(
            "<worldbody>", '<worldbody><body name="post"><geom type="sphere" size="1"/></body>', 1
        )
    )
    (tmp_path / "reacher.xml").write_text(text)
    other = make_env("Reacher-v5", kwargs={"xml_file": str(tmp_path / "reacher.xml")})
    load_episodes(other, saved)
    with pytest.raises(ConfigError, match=r"does not fit.* shape \[\d+.*\] there and \[\d+"):
        other.reset()


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
