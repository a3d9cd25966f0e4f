"""A prior that is good helps where there is little data."""

import pandas as pd
import pytest

from tests.recipes.loading import RECIPES
from tests.recipes.running import PRIOR, options

CONFIG = RECIPES / "configs" / "kl_prior_sac" / "pendulum_controller.yaml"


@pytest.mark.slow
def test_a_controllers_prior_learns_pendulum_in_2000_frames(tmp_path, monkeypatch):
    """By 200 more than the uniform prior with the same warm-up, in four of five seeds."""
    monkeypatch.syspath_prepend(str(RECIPES))

    def learned(seed: int, prior: str = "") -> float:
        common = f"--config {CONFIG} --seed {seed} --evaluation.interval 2000"
        files = f"--logging.dir {tmp_path} --logging.progress false"
        run = PRIOR.run(*options(f"{common} {files} {prior}"))
        last = pd.read_csv(run / "evaluations.csv").iloc[-1]
        assert last["frames"] == 2_000
        return last["return_mean"]

    uniform = "--prior.kind uniform --prior.factory null"
    gains = [learned(seed) - learned(seed, uniform) for seed in range(5)]
    assert sum(gain >= 200 for gain in gains) >= 4
