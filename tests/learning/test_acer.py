"""ACER learns: chains and repetitions whose best returns are known, and CartPole."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.envs import analytic  # noqa: F401 (registers)
from tests.recipes.loading import RECIPES
from tests.recipes.running import Recipe, options

ACER = Recipe("acer")
# Updates on fresh segments alone, on replay alone, and on both.
SOURCES = {
    "fresh": "--update.n_times_replay 0",
    "replay": "--update.n_times_replay 2 --update.disable_online_update true",
    "both": "--update.n_times_replay 2",
}


def last_return(folder: Path, arguments: str) -> float:
    run = ACER.run(
        *options(f"--logging.dir {folder} --logging.progress false --compile false"),
        *options("--config published --evaluation.interval 1000000 --update.poisson false"),
        *options("--loss.reward_scale 1"),
        *options(arguments),
    )
    return float(pd.read_csv(run / "evaluations.csv")["return_mean"].iloc[-1])


@pytest.mark.slow
@pytest.mark.parametrize("continuous", ["false", "true"], ids=["discrete", "continuous"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("t_max", "trust_region"), list(product([1, 2], ["false", "true"])))
def test_it_spells_a_word(tmp_path, t_max, trust_region, source, continuous):
    found = last_return(
        tmp_path,
        f"--env.id analytic/ABCChain-v0 --env.kwargs {{size: 2, continuous: {continuous}}} "
        f"--env.num_envs 4 --collector.t_max {t_max} --collector.total_frames 4000 "
        f"--loss.use_trust_region {trust_region} {SOURCES[source]} "
        "--update.replay_start_size 40 --update.lr 0.003 --network.num_cells [32]",
    )
    assert found == 1.0


@pytest.mark.slow
def test_it_repeats_what_it_sees(tmp_path):
    found = last_return(
        tmp_path,
        "--env.id analytic/IdentityEnv-v0 --env.kwargs {n: 10} --env.num_envs 8 "
        "--collector.total_frames 15000 --loss.gamma 0.5 --update.lr 0.003",
    )
    assert found >= 90


@pytest.mark.slow
def test_the_configuration_solves_cartpole(tmp_path):
    """Training episodes, of sampled actions: the mean of twenty in a row, about 10,000 frames."""
    path = RECIPES / "configs" / "acer" / "cartpole.yaml"
    run = ACER.run(
        *options(f"--config {path} --logging.dir {tmp_path} --logging.progress false --seed 0")
    )
    returns = pd.read_csv(run / "episodes.csv")["return"]
    assert np.max(returns.rolling(20).mean()) >= 475
