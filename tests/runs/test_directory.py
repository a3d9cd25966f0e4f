import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rlkit_sac.config import EnvConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.directory import RunDirectory
from tests import processes

HOLDER = """
import sys
from rlkit_sac.runs.directory import RunDirectory
with RunDirectory(sys.argv[1]) as run:
    run.begin()
    print("held", flush=True)
    sys.stdin.read()
"""


@dataclass
class Config:
    env: EnvConfig = field(default_factory=EnvConfig)
    seed: int = 0


def create(root: Path, **changes: Any) -> RunDirectory:
    options = {"recipe": "sac", "task": "Pendulum-v1", "seed": 3, "root": root, **changes}
    return RunDirectory.create(Config(), **options)


def info(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "run.json").read_text()))


def hold(path: Path) -> processes.Process:
    script = path.parent / "holder.py"
    script.write_text(HOLDER)
    holder = processes.Process(script, str(path), cwd=path.parent)
    assert holder.readline() == "held\n"
    return holder


def test_layout(tmp_path: Path) -> None:
    run = create(tmp_path)
    assert run.path.parent == tmp_path / "sac" / "Pendulum-v1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-seed3", run.path.name)
    assert (run.path / "config.yaml").read_text().startswith("env:\n  id: Pendulum-v1\n")


def test_status_follows_the_run(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        assert info(run.path)["status"] == "created"
        run.begin()
        started = info(run.path)
        assert started["status"] == "running"
        assert started["finished"] is None
        run.update_info(target_entropy=-1.5, frames=10)
    ended = info(run.path)
    assert (ended["status"], ended["error"]) == ("finished", None)
    assert (ended["target_entropy"], ended["frames"]) == (-1.5, 10)
    assert ended["finished"] >= ended["started"]


def test_a_second_process_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    path = create(tmp_path).path
    with hold(path):
        before = (path / "run.json").read_bytes()
        with pytest.raises(ConfigError, match="in use by another process; wait for its end"):
            RunDirectory(path).__enter__()
        assert (path / "run.json").read_bytes() == before
    with RunDirectory(path) as run:
        assert run.info["status"] == "finished"


def test_a_killed_holder_does_not_block(tmp_path: Path) -> None:
    path = create(tmp_path).path
    with hold(path) as holder:
        holder.kill()
    assert info(path)["status"] == "running"
    with RunDirectory(path) as run:
        run.begin()
    assert info(path)["status"] == "finished"


def test_tables_go_on_where_a_state_was(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        run.begin()
        run.write("metrics", {"frames": 1, "alpha": 0.5})
        state = run.state_dict()
        run.write("metrics", {"frames": 2, "alpha": 0.25})
        run.write("episodes", {"frames": 2, "env": 0})
    with RunDirectory(run.path) as again:
        again.load_state_dict(state)
        assert (run.path / "metrics.csv").read_text().count("\n") == 3  # nothing changed so far
        again.begin()
        again.write("metrics", {"frames": 3, "alpha": 1.0})
    assert (run.path / "metrics.csv").read_text() == "frames,alpha\n1,0.5\n3,1.0\n"
    assert not (run.path / "episodes.csv").exists()
