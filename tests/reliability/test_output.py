"""Output that nobody reads: the run ends as it would have."""

import json

import pytest

from tests import processes
from tests.reliability.runs import ENVIRONMENT, SAC, SHORT, assert_same_run, only_run, train

OPTIONS = [*SHORT, "--logging.progress", "true", "--collector.total_frames", "150"]


@pytest.mark.parametrize(
    "closed", [["stdout", "stderr"], pytest.param(["stderr"], marks=pytest.mark.slow)]
)
def test_a_run_goes_on_when_its_pipes_close(tmp_path, closed):
    with processes.Process(SAC, *OPTIONS, cwd=tmp_path, env=ENVIRONMENT, pipes=True) as process:
        assert process.stdout.readline().startswith("sac on Pendulum-v1 (cpu): runs/sac/")
        for name in closed:
            getattr(process, name).close()  # as `head -1` does
        if "stdout" not in closed:
            assert f"results          {only_run(tmp_path).relative_to(tmp_path)}" in (
                process.stdout.read()
            )
        assert process.wait() == 0
    path = only_run(tmp_path)
    assert json.loads((path / "run.json").read_text())["status"] == "finished"
    assert_same_run(train(tmp_path / "whole", *OPTIONS), path)
