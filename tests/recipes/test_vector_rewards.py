"""Runs with several rewards, of each recipe."""

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

from rlkit_sac.analysis import learning_curves, load_runs
from tests.recipes.running import DISCRETE, HYBRID, SAC

CHEETAH = ("--config", "mo_halfcheetah", "--env.max_episode_steps", "25")
TREASURE = ("--env.id", "mo_gymnasium:deep-sea-treasure-v0", "--env.max_episode_steps", "25")
TRADE = ("--env.id", "Trade-v0")
CASES = [(SAC, CHEETAH), (DISCRETE, TREASURE), (HYBRID, TRADE)]
EACH_RECIPE = pytest.mark.parametrize(
    ("recipe", "task"), CASES, ids=["continuous", "discrete", "hybrid"]
)


class Trade(gym.Env[Any, Any]):
    """Moves a point: being near the middle is the one reward, and what it costs the other."""

    observation_space = Box(-5.0, 5.0, (2,))
    action_space = Tuple([Discrete(3), Box(-1.0, 1.0, (1,))])
    reward_space = Box(-5.0, 5.0, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2)
        return self.position.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        choice, (push,) = action
        if choice < 2:
            self.position[choice] = np.clip(self.position[choice] + 0.2 * push, -5, 5)
        reward = np.array([-np.abs(self.position).sum() / 2, -abs(push) * (choice < 2)])
        return self.position.astype(np.float32), reward, False, False, {}


gym.register("Trade-v0", Trade, max_episode_steps=20)


@EACH_RECIPE
def test_the_tables_hold_each_return_and_the_weighted_sum(workplace, recipe, task):
    weights = [1.0, -0.5]
    run = recipe.train(*task, "--loss.reward_weights", json.dumps(weights))
    episodes = load_runs(run, table="episodes")
    parts = episodes[["return_0", "return_1"]].to_numpy()
    assert (parts.std(0) > 0).all()
    np.testing.assert_allclose(episodes["return"], (weights * parts).sum(1), rtol=1e-5)

    evaluations = load_runs(run)
    assert evaluations["frames"].tolist() == [60, 120]
    means = evaluations[["return_mean_0", "return_mean_1"]].to_numpy()
    np.testing.assert_allclose(evaluations["return_mean"], (means * weights).sum(1), rtol=1e-5)
    curve = learning_curves(evaluations, column="return_mean_1")
    assert curve["value"].tolist() == means[:, 1].tolist()
    metrics = pd.read_csv(run / "metrics.csv")
    assert np.isfinite(metrics.drop(columns="frames").iloc[-1]).all()
