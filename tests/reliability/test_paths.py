"""Folders with any characters in their names, and terminals that lack them."""

import shutil
import subprocess
from pathlib import Path

from rlkit_sac.analysis import load_runs
from rlkit_sac.runs import load_policy
from rlkit_sac.runs.stop import resume_command
from tests import processes
from tests.reliability.runs import ENVIRONMENT, SAC, SHORT, assert_same_run, train

ODD = Path("Ünï cödé dir", "with spaces 日本", "it's $HOME; `x` #1")
OPTIONS = [*SHORT, "--replay.storage", "memmap", "--collector.total_frames", "150"]


def test_folders_may_have_any_characters(tmp_path):
    folder = tmp_path / ODD
    (folder / "temporary").mkdir(parents=True)
    environment = {**ENVIRONMENT, "TMPDIR": str(folder / "temporary")}
    whole = train(folder, *OPTIONS)
    shutil.copy(whole / "config.yaml", folder / "a config.yaml")
    options = ["--config", "a config.yaml", "--logging.dir", "rüns of 日本", "--time_limit", "1e-6"]
    stopped = processes.run(SAC, *options, cwd=folder, env=environment)
    assert stopped.returncode == 75, stopped.stderr
    path = next(folder.glob("rüns of 日本/*/*/*/run.json")).parent.relative_to(folder)
    command = resume_command(path, SAC)
    assert stopped.stderr.splitlines()[1:] == [
        f"results so far: {path}",
        f"continue with: {command}",
    ]
    words = f"printf '%s\\n' {command} --time_limit null"  # as a shell reads them
    words = subprocess.run(["sh", "-c", words], capture_output=True, text=True).stdout.splitlines()
    assert words[-4] == "resume"
    done = processes.run(SAC, "--resume", *words[-3:], cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    assert f"results          {path}\n" in done.stdout
    assert_same_run(whole, folder / path)
    assert not list((folder / "temporary").glob("rlkit_sac*"))
    assert load_policy(folder / path, which="best").in_keys == ["observation"]
    assert set(load_runs(folder / "rüns of 日本")["run"]) == {str(folder / path)}
