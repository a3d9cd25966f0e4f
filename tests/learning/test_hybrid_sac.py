"""Hybrid SAC learns: short runs of its configurations, and a task that needs both parts."""

import pandas as pd
import pytest

from tests.envs import analytic
from tests.recipes.loading import RECIPES
from tests.recipes.running import HYBRID, options

CONFIGS = RECIPES / "configs" / "hybrid_sac"


def learn(folder, arguments):
    return HYBRID.run(
        *options(f"--logging.dir {folder} --logging.progress false --seed 0"), *options(arguments)
    )


@pytest.mark.slow
def test_episodes_of_platform_go_far(tmp_path):
    config = f"--config {CONFIGS / 'platform.yaml'}"
    run = learn(tmp_path, f"{config} --collector.total_frames 10000")
    episodes = pd.read_csv(run / "episodes.csv")
    assert len(episodes) > 250
    assert episodes["return"].tail(250).mean() >= 0.55


@pytest.mark.slow
def test_hard_move_is_reached(tmp_path):
    config = f"--config {CONFIGS / 'hard_move.yaml'}"
    run = learn(tmp_path, f"{config} --collector.total_frames 12000")
    last = pd.read_csv(run / "evaluations.csv").iloc[-1]
    assert last["frames"] == 12_000
    assert last["return_mean"] >= 1.5


@pytest.mark.slow
def test_the_discrete_action_tells_what_the_continuous_one_is(tmp_path):
    run = learn(
        tmp_path,
        "--config published --env.id analytic/MixedToy-v0 --collector.total_frames 2000"
        " --collector.init_random_frames 200 --collector.learning_starts 200"
        " --replay.batch_size 64 --network.num_cells [64,64] --evaluation.interval 500",
    )
    best = pd.read_csv(run / "evaluations.csv")["return_mean"].max()
    assert best >= 0.95 * analytic.MixedToy.num_steps
