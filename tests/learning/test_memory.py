"""A memory makes up for hidden velocities: Pendulum-v1 is solved with one, and not without."""

import pandas as pd
import pytest

from tests.recipes.loading import RECIPES
from tests.recipes.running import SAC, options

CONFIG = RECIPES / "configs" / "sac" / "pendulum_no_velocity_gru.yaml"
WITHOUT = """
    --network.memory none --replay.slice_length 1 --replay.burn_in 0 --replay.store_state false
    --replay.batch_size 192
"""


def best_return(tmp_path, arguments: str) -> float:
    run = SAC.run(
        *options(f"--config {CONFIG} --logging.dir {tmp_path} --logging.progress false"),
        *options(f"--seed 0 --collector.total_frames 8000 {arguments}"),
    )
    evaluations = pd.read_csv(run / "evaluations.csv")
    assert evaluations["frames"].iloc[-1] == 8_000
    return evaluations["return_mean"].max()


@pytest.mark.slow
def test_hidden_velocities_are_remembered(tmp_path):
    assert best_return(tmp_path, "") >= -250
    assert best_return(tmp_path, WITHOUT) <= -900
