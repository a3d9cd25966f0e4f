import random

import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.envs import (
    EnvBase,
    GymEnv,
    ObservationNorm,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.collector import add_policy_states
from rlkit_sac.envs import make_env
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate, seed_everything
from tests.envs.track import Track
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


@pytest.mark.parametrize("memory", [None, "gru"])
def test_the_transforms_of_the_environment_are_those_of_the_evaluation(env, policy, memory) -> None:
    if memory is not None:
        torch.manual_seed(0)
        policy = recurrent_gaussian(memory)
    halved = ObservationNorm(0.0, 0.5, in_keys=["observation"])
    found = evaluate(policy, env.append_transform(halved), episodes=4, seed=11)
    plain = make_env("Pendulum-v1", num_envs=env.batch_size.numel(), max_episode_steps=LIMIT)
    halve = TensorDictModule(lambda x: 0.5 * x, ["observation"], ["observation"])
    apart = TensorDictSequential(halve, policy)
    wanted = evaluate(apart, add_policy_states(plain, policy), episodes=4, seed=11)
    np.testing.assert_allclose(found.returns, wanted.returns, rtol=1e-5)
    assert found.lengths.tolist() == [LIMIT] * 4
    if memory is None:
        other = make_env("Pendulum-v1", num_envs=env.batch_size.numel(), max_episode_steps=LIMIT)
        assert (
            evaluate(policy, other, episodes=4, seed=11).returns.tolist() != found.returns.tolist()
        )


def test_an_environment_of_torchrl_is_evaluated(policy) -> None:
    def make() -> EnvBase:
        return TransformedEnv(GymEnv("Pendulum-v1"), StepCounter(max_steps=LIMIT))

    env = SerialEnv(3, make)
    found = evaluate(policy, env, episodes=5, seed=3)
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        env.set_seed(3)
        rewards = env.rollout(LIMIT, policy)["next", "reward"]
    np.testing.assert_allclose(found.returns[:3], rewards.sum(1).flatten(), rtol=1e-5)
    assert found.lengths.tolist() == [LIMIT] * 5


class HalfEndless(Track):
    """Ends the episodes of the first half of its environments after four steps, and no others."""

    def _step(self, tensordict):
        after = super()._step(tensordict)
        ends = torch.arange(len(self.state))[:, None] < len(self.state) // 2
        after["terminated"] = after["done"] = ends & (len(self.received) % 4 == 0)
        return after


def test_environments_beyond_the_episodes_need_not_end() -> None:
    env = make_env(HalfEndless, kwargs={"num": 6})
    policy = tanh_gaussian_actor(5, [-1.0], [1.0])
    assert evaluate(policy, env, episodes=3, seed=1).lengths.tolist() == [4, 4, 4]
