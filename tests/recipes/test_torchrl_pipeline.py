"""The pipeline of TorchRL around a loss of this package."""

import pytest

from rlkit_sac.config import EnvConfig
from tests.recipes.loading import load_recipe


def test_episodes_are_printed_with_their_frames(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe("torchrl_pipeline")
    config = recipe.PipelineConfig(frames=400, init_random_frames=390, batch_size=16)
    mean = recipe.main(config)
    rows = [
        line.split() for line in capsys.readouterr().out.splitlines() if "frames, return" in line
    ]
    assert [int(row[0]) for row in rows] == [200, 400]
    assert mean == pytest.approx(sum(float(row[-1]) for row in rows) / 2, abs=0.01)


@pytest.mark.slow
def test_it_learns_pendulum() -> None:
    recipe = load_recipe("torchrl_pipeline")
    assert recipe.main(recipe.PipelineConfig(env=EnvConfig(id="Pendulum-v1"), frames=8_000)) > -350
