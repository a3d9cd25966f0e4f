"""Environments of TorchRL have the entries, numbers and errors of those of Gymnasium."""

import warnings
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torchrl.data import (
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    NonTensor,
    Unbounded,
)
from torchrl.envs import DTypeCastTransform, GymEnv, RewardSum, SerialEnv
from torchrl.envs.utils import check_env_specs

from rlkit_sac.data import make_collector
from rlkit_sac.envs import (
    action_mask_key,
    check_env,
    critic_layout,
    describe_task,
    make_env,
    observation_dim,
    observation_layout,
)
from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.errors import ConfigError, EnvironmentFault, RunError
from rlkit_sac.modules import tanh_gaussian_actor
from tests.envs.conftest import Recorder
from tests.envs.track import Track

# The spaces that the actions of `Track` are, and what the environment receives for them.
SPACES = {
    "box": Box(-2, 2, (1,)),
    "wide box": Box(-3, 3, (1,)),
    "choice": Discrete(3),
    "one-hot": Discrete(3),
    "choices": MultiDiscrete([3, 2]),
    "one-hots": MultiDiscrete([3, 2]),
    "flags": MultiBinary(2),
    "both": Dict(force=Box(0, 4, (1,)), side=Discrete(3)),
}


def encoded(kind: str, action: Any) -> Any:
    if kind == "one-hot":
        return np.eye(3)[action]
    if kind == "one-hots":
        return np.concatenate([np.eye(3)[action[0]], np.eye(2)[action[1]]])
    return action


@pytest.mark.parametrize("kind", SPACES)
def test_the_environment_receives_what_its_spec_wants(kind: str) -> None:
    bounds = [-3, 3] if kind == "wide box" else None
    env = make_env(Track, kwargs={"action": kind}, action_bounds=bounds, seed=1)
    frames = env.rollout(5, break_when_any_done=False)
    received = env.base_env.base_env.received
    convert = ActionConversion(SPACES[kind], rescale=True)
    for n, t in np.ndindex(4, 5):
        action = frames["action"][n, t]
        agent = {"action": {k: v.numpy() for k, v in action.items()}} if kind == "both" else None
        wanted = encoded(kind, convert(action.numpy() if agent is None else agent))
        found = received[t][n]
        if kind == "both":
            assert found["side"].item() == wanted["side"]
            found, wanted = found["force"], wanted["force"]
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_entries_are_those_of_the_simulator_batch_by_batch() -> None:
    env = make_env(Track, seed=3, max_episode_steps=4)
    raw = Track()
    raw.set_seed(env.base_env.set_seed(7) and 7)
    state, raw_state = env.reset(), raw.reset()
    total = torch.zeros(4, 1, dtype=torch.float64)
    for step in range(4):
        wanted = torch.cat(
            [
                raw_state["at"],
                torch.nn.functional.one_hot(raw_state["lit"], 2),
                raw_state["wind"],
            ],
            -1,
        )
        assert torch.equal(state["observation"], wanted.float())
        frame, state = env.step_and_maybe_reset(env.rand_action(state))
        raw_frame = raw.step(raw_state.set("action", 2 * frame["action"]))["next"]
        total += raw_frame["reward"]
        assert torch.equal(frame["next", "reward"], raw_frame["reward"].float())
        assert torch.equal(frame["next", "episode_reward"], total)
        # The limit ends the last step, whose observation is the true one, not that of a reset.
        assert frame["next", "truncated"].all() == (step == 3)
        assert torch.equal(frame["next", "observation"][:, :2], raw_frame["at"].float())
        raw_state = raw_frame.exclude("reward")
    assert (state["step_count"] == 0).all()
    assert state["is_init"].all()
    assert not torch.equal(state["observation"], frame["next", "observation"])


def test_a_batch_without_lock_has_first_states_of_its_own() -> None:
    env = make_env("torchrl.envs:PendulumEnv", num_envs=64, max_episode_steps=10)
    assert env.reset()["observation"][:, 0].unique().numel() == 64
    again = make_env("torchrl.envs:PendulumEnv", num_envs=64, max_episode_steps=10)
    assert torch.equal(
        env.set_seed(5) and env.reset()["observation"],
        again.set_seed(5) and again.reset()["observation"],
    )


def test_single_environments_become_a_batch() -> None:
    env = make_env(GymEnv, kwargs={"env_name": "CartPole-v1"}, num_envs=3)
    batch = env.rollout(50, break_when_any_done=False)
    assert batch["observation"].shape == (3, 50, 4)
    assert batch["action"].shape == (3, 50)
    assert batch["next", "done"].any()


@pytest.mark.filterwarnings("ignore")
def test_vector_environments_of_gymnasium_keep_the_true_last_observation() -> None:
    options = {"id": "Pendulum-v1", "num_envs": 2, "max_episode_steps": 5}
    options["vector_kwargs"] = {"autoreset_mode": "Disabled"}
    env = make_env("gymnasium:make_vec", kwargs=options)
    frames = env.rollout(12, break_when_any_done=False)
    ended = frames["next", "done"].squeeze(-1)
    assert ended.sum(-1).tolist() == [2, 2]
    assert frames["next", "truncated"].squeeze(-1).equal(ended)
    single = gym.make("Pendulum-v1", max_episode_steps=5)
    for n in range(2):
        single.reset()
        cos, sin, speed = frames["observation"][n, 0].tolist()
        single.unwrapped.state = np.array([np.arctan2(sin, cos), speed])  # type: ignore[attr-defined]
        for t in range(5):
            wanted, *_ = single.step(2 * frames["action"][n, t].numpy())
            np.testing.assert_allclose(frames["next", "observation"][n, t], wanted, atol=1e-5)
        assert not torch.allclose(frames["observation"][n, 5], frames["next", "observation"][n, 4])


def test_masks_bounds_and_keys() -> None:
    env = make_env(Track, kwargs={"action": "choice", "masked": True})
    assert action_mask_key(env) == "action_mask"
    assert env.reset()["action_mask"].tolist() == [[True, False, True]] * 4
    assert (
        action_mask_key(
            make_env(Track, kwargs={"action": "choice", "masked": True}, action_mask=False)
        )
        is None
    )
    floats = DTypeCastTransform(torch.int8, torch.float32, in_keys=["action_mask"])
    with pytest.raises(ConfigError, match=r"action_mask is torch\.float32 in the specs"):
        make_env(lambda: Track("choice", masked=True).append_transform(floats))
    env = make_env(Track, observation_keys=["wind"], critic_keys=["at", "wind"])
    assert observation_layout(env) == [{"key": "observation", "shape": [1]}]
    assert critic_layout(env) == [{"key": "critic_observation", "shape": [3]}]
    state = env.reset()
    assert torch.equal(state["critic_observation"][:, 2:], state["observation"])
    task = describe_task(env)
    assert task is not None
    assert task["observation_space"]["shape"] == [1]


def test_critics_read_parts_of_gymnasium_that_the_policy_does_not() -> None:
    parts = Dict(seen=Box(-1, 1, (2,)), hidden=Box(-1, 1, (3,)))
    spaces = {"action_space": Box(-1, 1, (1,)), "observation_space": parts}
    env = make_env(
        Recorder, kwargs=spaces, observation_keys=["seen"], critic_keys=["hidden", "seen"]
    )
    policy = tanh_gaussian_actor(2, [-1.0], [1.0])
    (batch,) = make_collector(env, policy, total_frames=3, frames_per_batch=3)
    assert batch["observation"].shape == (3, 2)
    assert batch["next", "critic_observation"].shape == (3, 5)
    assert torch.equal(batch["critic_observation"][:, 3:], batch["observation"])


class Text(Track):
    def __init__(self) -> None:
        super().__init__()
        self.observation_spec["sign"] = NonTensor((4,))


def two_tasks() -> SerialEnv:
    return SerialEnv(2, [lambda: GymEnv("Pendulum-v1"), lambda: GymEnv("MountainCarContinuous-v0")])


def test_what_cannot_be_adapted_is_refused_by_name() -> None:
    for function, options, words in [
        (Track, {"observation_keys": ["speed"]}, "speed"),
        (Track, {"critic_keys": ["speed"]}, "speed"),
        (Track, {"num_envs": 3}, "num_envs is 3, but the function made a batch of 4"),
        (Track, {"frame_stack": 2}, "frame_stack"),
        (Track, {"kwargs": {"action": "wide box"}}, "bounds"),
        (Track, {"action_bounds": [1, 2, 3]}, "action_bounds"),
        (Track, {"kwargs": {"nonsense": 1}}, "nonsense"),
        (Text, {}, "sign is text"),
        (two_tasks, {}, "its environments have different spaces"),
        ("tests.envs.track:Trick", {}, "unknown environment"),
    ]:
        with pytest.raises(ConfigError, match=words):
            make_env(function, **options)


def test_faults_of_the_simulator_are_named() -> None:
    policy = tanh_gaussian_actor(5, [-1.0], [1.0])
    for broken, words in [("step", "OSError: the simulator is gone"), ("nan", "environment 2")]:
        env = make_env(Track, kwargs={"broken": broken})
        with pytest.raises((EnvironmentFault, RunError), match=words):
            list(make_collector(env, policy, total_frames=8, frames_per_batch=4))


def test_choices_and_images_keep_their_range() -> None:
    env = Track()
    seen = {"board": Bounded(0, 2, (4, 6, 7), dtype=torch.uint8), "at": Unbounded((4, 1))}
    seen["pair"] = MultiCategorical([[3, 2]] * 4, (4, 2))
    env.observation_spec = Composite(seen, shape=[4])
    layout = {each["key"]: each for each in observation_layout(make_env(lambda: env))}
    assert layout["observation"]["shape"] == [1 + 3 + 2]
    assert layout["image_board"]["scale"] == 2


def test_the_end_of_an_episode_is_told_by_done() -> None:
    env = Track()
    env.full_done_spec = Composite(over=Categorical(2, (4, 1), dtype=torch.bool), shape=[4])
    with pytest.raises(ConfigError, match=r"episodes end by \['over'\]: there must be 'done'"):
        make_env(lambda: env)


class Lost(Track):
    """Begins the next episode in the step that ends one, and loses its last observation."""

    def _step(self, tensordict: Any) -> Any:
        after = super()._step(tensordict)
        if after["done"].any():
            self.state = torch.where(after["done"], torch.zeros(()).double(), self.state)
            after.update(self._seen().select("at", "wind", "lit"))
        return after

    def _reset(self, tensordict: Any = None, **options: Any) -> Any:
        if tensordict is not None and "_reset" in tensordict:
            return self._seen()
        return super()._reset(tensordict, **options)


class Blank(Track):
    """Has a number in place of the last observation."""

    number = 0.0

    def __init__(self) -> None:
        super().__init__()
        del self.observation_spec["lit"]

    def _seen(self) -> Any:
        return super()._seen().exclude("lit")

    def _step(self, tensordict: Any) -> Any:
        after = super()._step(tensordict)
        for key in ("at", "wind"):
            after[key] = torch.where(after["done"], self.number, after[key])
        return after


class Missing(Blank):
    number = torch.nan


class Endless(Track):
    """Goes on where a time limit ends an episode."""

    def _reset(self, tensordict: Any = None, **options: Any) -> Any:
        if tensordict is not None and "_reset" in tensordict:
            return self._seen()
        return super()._reset(tensordict, **options)


class Constant(Track):
    """Shows the same in every step."""

    def _seen(self) -> Any:
        return super()._seen().apply(torch.zeros_like)


@pytest.mark.filterwarnings("error:the last observation")
@pytest.mark.parametrize(
    ("function", "limit", "words"),
    [
        (Track, 9, None),
        (Constant, 9, None),
        (Lost, None, "the first of the next"),
        (Blank, None, "zeros or NaN"),
        (Missing, None, "zeros or NaN"),
        (Endless, 9, "the first of the next"),
    ],
)
def test_a_lost_last_observation_is_warned_of_once(
    function: Any, limit: int | None, words: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make_env(function, max_episode_steps=limit)
    policy = tanh_gaussian_actor(observation_dim(env), [-1.0], [1.0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with nullcontext() if function is not Missing else pytest.raises(RunError, match="nan"):
            list(make_collector(env, policy, total_frames=800, frames_per_batch=4))
    found = [str(each.message) for each in told if "last observation" in str(each.message)]
    assert [words in text for text in found] == [True] * (words is not None)
    module = Track.__module__ if function is Track else __name__
    check_env(f"{module}:{function.__name__}", max_episode_steps=limit)
    printed = capsys.readouterr().err
    assert ("warning" in printed) == (words is not None)
    assert (words or "") in printed


class Unpaid(Track):
    """Rewards of another shape or device than the spec has."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def _step(self, tensordict: Any) -> Any:
        after = super()._step(tensordict)
        reward = self.change(after.pop("reward"))
        return after if reward is None else after.set("reward", reward)


@pytest.mark.parametrize(
    "change",
    [
        lambda reward: None,
        lambda reward: reward.squeeze(-1),
        lambda reward: reward[..., None],
        lambda reward: reward.expand(4, 2),
        lambda reward: reward.to("meta"),
    ],
)
def test_rewards_are_those_of_the_spec(change: Any) -> None:
    env = make_env(lambda: Unpaid(change))
    with pytest.raises(EnvironmentFault, match=r"the reward is .*wanted \(\[4, 1\], 'cpu'\)"):
        env.rollout(2)


@pytest.mark.parametrize("inside", [True, False])
def test_sums_of_rewards_that_torchrl_has_counted_already(inside: bool) -> None:
    def summed(env: Any) -> Any:
        return env.append_transform(RewardSum())

    def make() -> Any:
        if inside:
            return SerialEnv(2, lambda: summed(GymEnv("CartPole-v1")))
        return summed(SerialEnv(2, lambda: GymEnv("CartPole-v1")))

    env = make_env(make)
    check_env_specs(env)
    frames = env.rollout(30, break_when_any_done=False)
    ended = frames["next", "done"]
    assert torch.equal(frames["next", "episode_reward"][ended], frames["next", "step_count"][ended])


class Stateless(Track):
    """Reads its state from the entry that networks would read, too."""

    def __init__(self) -> None:
        super().__init__()
        del self.observation_spec["at"]
        self.observation_spec["observation"] = Unbounded((4, 2), dtype=torch.float64)
        self.state_spec = Composite(observation=self.observation_spec["observation"], shape=[4])


def test_a_state_with_the_name_of_an_entry_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reads \{'observation'\}.*another name"):
        make_env(Stateless)


@pytest.mark.parametrize("bounds", [[1, -1], [5.0], [[-1], [1]], [[-1, 1], [-1, 1]]])
def test_bounds_of_actions_are_pairs_of_numbers(bounds: Any) -> None:
    for env_id in ("Pendulum-v1", "tests.envs.track:Track"):
        with pytest.raises(ConfigError, match=r"action_bounds is .*for 1 continuous"):
            make_env(env_id, action_bounds=bounds)


def test_actions_at_random_are_allowed_ones() -> None:
    env = make_env(Track, kwargs={"action": "choice", "masked": True}, seed=4)
    drawn = env.rollout(40, break_when_any_done=False)["action"]
    assert set(drawn.flatten().tolist()) == {0, 2}
