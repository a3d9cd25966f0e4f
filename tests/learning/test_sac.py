"""SAC learns: the recipe's defaults reach the figure that the documentation quotes."""

import pandas as pd
import pytest

from rlkit_sac.runs import read_config
from tests.recipes.loading import load_recipe


@pytest.mark.slow
def test_the_default_run_solves_pendulum(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("sac")
    run = recipe.main(read_config(recipe.SACConfig, ["--logging.progress", "false"]))
    last = pd.read_csv(run / "evaluations.csv").iloc[-1]
    assert last["frames"] == 10_000
    assert last["return_mean"] >= -200
