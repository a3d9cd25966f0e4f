"""Open files and memory of a long run, as its environments see them."""

import os

import pandas as pd
import pytest

from tests import processes
from tests.reliability.runs import ENVIRONMENT, SAC, SHORT

# Each reset writes a line: between two steps nothing is open but what stays open.
PROBE = """
import os

import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv


class Probe(PendulumEnv):
    def reset(self, **options):
        pages = int(open("/proc/self/statm").read().split()[1])
        with open(os.environ["PROBE"], "a") as file:
            file.write(f"{len(os.listdir('/proc/self/fd'))},{pages * os.sysconf('SC_PAGESIZE')}\\n")
        return super().reset(**options)


gym.register("Probe-v0", Probe, max_episode_steps=20)
"""


def measured(folder, frames, *options):
    """Open files and bytes of memory at each reset of a run, of training and evaluation."""
    (folder / "probe.py").write_text(PROBE)
    done = processes.run(
        SAC,
        *(*SHORT, "--env.id", "probe:Probe-v0", "--collector.total_frames", str(frames)),
        *("--evaluation.interval", "20", "--checkpoint.interval", "20", "--logging.interval", "20"),
        *options,
        cwd=folder,
        env=ENVIRONMENT | {"PROBE": str(folder / "probe.csv"), "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / "probe.csv", names=["files", "memory"])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux counts open files there")
@pytest.mark.parametrize(
    "options",
    [[], pytest.param(["--replay.storage", "memmap"], marks=pytest.mark.slow)],
    ids=["memory", "memmap"],
)
def test_evaluations_and_checkpoints_leave_no_file_open(tmp_path, options):
    rows = measured(tmp_path, 160, *options)
    assert len(rows) >= 16
    steady = rows["files"][8:]  # all tables have their first row
    assert set(steady) == {steady.iloc[0]}


@pytest.mark.slow
def test_memory_stays_after_hundreds_of_evaluations_and_checkpoints(tmp_path):
    rows = measured(tmp_path, 6000)
    assert len(rows) >= 600
    assert len(set(rows["files"][8:])) == 1
    tenth = len(rows) // 10
    growth = rows["memory"][-tenth:].median() - rows["memory"][4 * tenth : 5 * tenth].median()
    print(f"grows by {growth / 2**20:.1f} MiB in the second half")
    assert growth < 8 * 2**20
