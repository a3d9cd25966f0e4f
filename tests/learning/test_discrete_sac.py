"""Discrete SAC learns: a configuration solves its task in a fifth of its frames."""

import pandas as pd
import pytest

from tests.recipes.loading import RECIPES
from tests.recipes.running import DISCRETE, options


@pytest.mark.slow
def test_the_configuration_solves_cartpole(tmp_path):
    path = RECIPES / "configs" / "discrete_sac" / "cartpole.yaml"
    run = DISCRETE.run(
        *options(f"--config {path} --logging.dir {tmp_path} --logging.progress false"),
        *options("--seed 0 --collector.total_frames 10000"),
    )
    evaluations = pd.read_csv(run / "evaluations.csv")
    assert evaluations["frames"].iloc[-1] == 10_000
    assert evaluations["return_mean"].max() >= 475
