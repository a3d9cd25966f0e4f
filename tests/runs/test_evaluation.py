import random
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from tensordict.nn import TensorDictModule
from torchrl.envs import DoubleToFloat, EnvBase, GymEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.envs import make_env
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate
from rlkit_sac.runs.random_streams import evaluation_seed, seed_everything
from tests.recurrent_policies import STATES, Cells, recurrent_gaussian

LIMIT = 15


@pytest.fixture(params=[1, 3])
def env(request: pytest.FixtureRequest) -> EnvBase:
    return make_env("Pendulum-v1", num_envs=request.param, max_episode_steps=LIMIT)


@pytest.fixture
def policy() -> TensorDictModule:
    torch.manual_seed(0)
    return tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[16])


def streams() -> tuple[object, ...]:
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    keys = state["state"]["key"].tobytes()
    torch_state = torch.get_rng_state().numpy().tobytes()
    return random.getstate(), keys, state["state"]["pos"], torch_state


@pytest.mark.parametrize("deterministic", [True, False])
def test_random_streams_are_left_bit_equal(
    policy: TensorDictModule, env: EnvBase, deterministic: bool
) -> None:
    seed_everything(5)
    before = streams()
    evaluate(policy, env, episodes=2, seed=1, deterministic=deterministic)
    assert streams() == before


@pytest.mark.parametrize("deterministic", [True, False])
def test_result_is_a_function_of_policy_and_seed_alone(
    policy: TensorDictModule, env: EnvBase, deterministic: bool
) -> None:
    def run(global_seed: int, seed: int) -> EvaluationResult:
        seed_everything(global_seed)
        return evaluate(policy, env, episodes=4, seed=seed, deterministic=deterministic)

    first, again, other = run(0, 7), run(1, 7), run(0, 8)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert (first.returns != other.returns).all()
    assert len(set(first.returns)) == 4


def test_initial_states_do_not_depend_on_the_policy(env: EnvBase) -> None:
    starts: list[list[torch.Tensor]] = []

    def record(action: float) -> TensorDictModule:
        def act(observation: torch.Tensor, is_init: torch.Tensor) -> torch.Tensor:
            starts[-1].append(observation[is_init.squeeze(-1)])
            return torch.full((*observation.shape[:-1], 1), action)

        return TensorDictModule(act, in_keys=["observation", "is_init"], out_keys=["action"])

    for action in (-1.0, 1.0):
        starts.append([])
        evaluate(record(action), env, episodes=6, seed=3)
    first, second = (torch.cat([x.reshape(-1, 3) for x in found]) for found in starts)
    assert first.unique(dim=0).shape[0] >= 6
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_returns_and_lengths_equal_a_plain_loop() -> None:
    env = make_env("CartPole-v1", max_episode_steps=200)
    policy = TensorDictModule(
        lambda observation: (observation[..., 2] > 0).long(),
        in_keys=["observation"],
        out_keys=["action"],
    )
    result = evaluate(policy, env, episodes=5, seed=11)
    for episode in range(5):
        env.set_seed(11 + episode)
        rollout = env.rollout(200, policy, break_when_any_done=True)
        assert result.lengths[episode] == rollout.shape[0]
        assert result.returns[episode] == rollout["next", "reward"].sum()
    assert result.returns.dtype == np.float64
    assert result.lengths.dtype == np.int64


class Limited(PendulumEnv):
    """Ends its episodes after ``limit`` frames."""

    limit = 2

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return *super().step(action)[:3], self.steps == self.limit, {}


def test_short_episodes_are_not_favored(policy: TensorDictModule) -> None:
    env = make_env(EnvSpec("Limited-v0", entry_point=Limited), num_envs=2)
    gym_envs(env)[1].unwrapped.limit = 9
    result = evaluate(policy, env, episodes=5, seed=0)
    assert result.lengths.tolist() == [2, 9, 2, 9, 2]


def test_training_mode_of_every_submodule_is_restored(env: EnvBase) -> None:
    seen: list[bool] = []

    class Act(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen = torch.nn.Dropout().eval()

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            seen.append(self.training or torch.is_grad_enabled())
            return observation[..., :1] * 0

    act = Act()
    policy = TensorDictModule(act, in_keys=["observation"], out_keys=["action"])
    evaluate(policy, env, episodes=1, seed=0)
    assert (policy.training, act.training, act.frozen.training) == (True, True, False)
    assert not any(seen)


def test_everything_is_restored_after_an_error(env: EnvBase) -> None:
    def fail(observation: torch.Tensor) -> torch.Tensor:
        torch.rand(1)
        raise ZeroDivisionError

    policy = TensorDictModule(fail, in_keys=["observation"], out_keys=["action"])
    before = streams()
    with pytest.raises(ZeroDivisionError):
        evaluate(policy, env, episodes=1, seed=0)
    assert streams() == before
    assert policy.training


def test_sampling_differs_from_the_mode(policy: TensorDictModule, env: EnvBase) -> None:
    mode = evaluate(policy, env, episodes=3, seed=0)
    sample = evaluate(policy, env, episodes=3, seed=0, deterministic=False)
    assert (mode.returns != sample.returns).all()
    assert sample.lengths.tolist() == [LIMIT] * 3


def test_other_environments_and_policies_are_refused(policy: TensorDictModule) -> None:
    transformed = make_env("Pendulum-v1").append_transform(DoubleToFloat())
    for env in (GymEnv("Pendulum-v1"), transformed):
        with pytest.raises(ConfigError, match="environments as make_env returns them"):
            evaluate(policy, env, episodes=1, seed=0)
    with pytest.raises(ConfigError, match="a policy that has in_keys and out_keys"):
        evaluate(torch.nn.Linear(3, 1), make_env("Pendulum-v1"), episodes=1, seed=0)


def test_row() -> None:
    result = EvaluationResult(np.array([1.0, 2.0, 6.0]), np.array([10, 20, 30]))
    assert result.row(frames=100, seconds=2.5) == {
        "frames": 100,
        "episodes": 3,
        "return_mean": 3.0,
        "return_std": pytest.approx((14 / 3) ** 0.5),
        "return_min": 1.0,
        "return_max": 6.0,
        "length_mean": 20.0,
        "seconds": 2.5,
        "returns": [1.0, 2.0, 6.0],
    }


@pytest.mark.parametrize("num_envs", [1, 2])
def test_vector_returns_are_kept_by_dimension_and_weighted(num_envs: int) -> None:
    env = make_env("mo-mountaincar-v0", num_envs=num_envs, max_episode_steps=7)
    forward = TensorDictModule(
        lambda observation: torch.full(observation.shape[:-1], 2),
        in_keys=["observation"],
        out_keys=["action"],
    )
    # Time, reversing and driving forward cost 1 each frame.
    result = evaluate(
        forward, env, episodes=3, seed=0, reward_weights=torch.tensor([1.0, 5.0, 3.0])
    )
    assert result.returns_per_dimension.tolist() == [[-7.0, 0.0, -7.0]] * 3
    assert result.returns.tolist() == [-28.0] * 3
    row = result.row(frames=10, seconds=1.0)
    assert [row[f"return_mean_{m}"] for m in range(3)] == [-7.0, 0.0, -7.0]
    assert (row["return_mean"], row["return_max"]) == (-28.0, -28.0)
    assert evaluate(forward, env, episodes=1, seed=0).returns.tolist() == [-14.0]


def test_an_episode_without_end_is_given_up(policy, monkeypatch):
    monkeypatch.setattr("rlkit_sac.runs.evaluation.LONGEST_EPISODE", LIMIT - 1)
    env = make_env("Pendulum-v1", max_episode_steps=LIMIT)
    with pytest.raises(RunError, match=r"did not end within 14 frames.*max_episode_steps"):
        evaluate(policy, env, episodes=1, seed=0)
    monkeypatch.setattr("rlkit_sac.runs.evaluation.LONGEST_EPISODE", LIMIT)
    assert evaluate(policy, env, episodes=1, seed=0).lengths.tolist() == [LIMIT]


def test_runs_of_neighboring_seeds_are_evaluated_on_different_episodes(policy):
    env = make_env("Pendulum-v1", max_episode_steps=LIMIT)
    returns = [
        evaluate(policy, env, episodes=5, seed=evaluation_seed(seed)).returns for seed in range(3)
    ]
    assert len(np.unique(np.concatenate(returns))) == 15


def returns_by_hand(policy: TensorDictModule, num_envs: int, carried: list[str]) -> list[float]:
    """Of four episodes of 60 frames."""
    env = make_env("Pendulum-v1", num_envs=num_envs, max_episode_steps=60)
    returns: list[float] = []
    for first in range(0, 4, num_envs):
        env.set_seed(11 + first)
        step, state = env.reset(), {}
        for _ in range(60):
            acted = policy(step.update(state))
            state = {key: acted["next", key] for key in carried}
            after, step = env.step_and_maybe_reset(acted)
        returns += after["next", "episode_reward"].flatten().tolist()
    return returns


@pytest.mark.parametrize(("cells", "num_envs"), [("gru", 1), ("lstm", 2)])
def test_memory_runs_through_each_episode(cells: Cells, num_envs: int) -> None:
    torch.manual_seed(0)
    policy = recurrent_gaussian(cells)
    env = make_env("Pendulum-v1", num_envs=num_envs, max_episode_steps=60)
    before = streams()
    found = evaluate(policy, env, episodes=4, seed=11).returns.tolist()
    assert streams() == before
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        assert found == returns_by_hand(policy, num_envs, STATES[cells])
        forgetful = returns_by_hand(policy, num_envs, [])
    assert not set(found) & set(forgetful)
