import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import rlkit_sac
from rlkit_sac.config import EnvConfig
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs.failures import results_so_far
from rlkit_sac.runs.tables.run_directory import RunDirectory
from tests import processes

HOLDER = """
import sys
from rlkit_sac.runs.tables.run_directory import RunDirectory
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


def begin_and_raise(run: RunDirectory, error: BaseException) -> None:
    with run:
        run.begin()
        raise error


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


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("ALE/Pong-v5", "ALE-Pong-v5"),
        ("module:Env-v0", "module-Env-v0"),
        ("../../etc", "etc"),
        ("..", "unnamed"),
        ("x" * 300, "x" * 100),
    ],
)
def test_task_names_stay_inside_the_root(tmp_path: Path, task: str, name: str) -> None:
    assert create(tmp_path, task=task).path.parent == tmp_path / "sac" / name


def test_runs_started_together_get_directories_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: create(tmp_path).path, range(16)))
    assert len(set(paths)) == 16


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


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (RunError("reward is NaN\nmore"), "failed", "RunError: reward is NaN"),
        (ZeroDivisionError(), "failed", "ZeroDivisionError: "),
        (KeyboardInterrupt(), "interrupted", None),
    ],
)
def test_an_error_is_written_and_goes_on(
    tmp_path: Path, error: BaseException, status: str, line: str | None
) -> None:
    with pytest.raises(type(error)) as ended:
        begin_and_raise(run := create(tmp_path), error)
    assert results_so_far(ended.value)[0] == f"results so far: {run.path}"
    assert (info(run.path)["status"], info(run.path)["error"]) == (status, line)


def test_facts_about_the_machine(tmp_path: Path) -> None:
    facts = info(create(tmp_path).path)
    assert facts["format_version"] == 1
    assert (facts["recipe"], facts["task"], facts["seed"]) == ("sac", "Pendulum-v1", 3)
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["versions"]["torch"]
    assert facts["versions"]["rlkit_sac"] == rlkit_sac.__version__
    assert {"command", "host", "platform", "git_revision"} <= facts.keys()


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


def test_a_directory_that_was_only_looked_at_is_left_as_it_was(tmp_path: Path) -> None:
    path = create(tmp_path).path
    before = (path / "run.json").read_bytes()
    with pytest.raises(ConfigError), RunDirectory(path):
        raise ConfigError("damaged")
    assert (path / "run.json").read_bytes() == before


def test_sessions_of_a_run_are_listed(tmp_path: Path) -> None:
    path = create(tmp_path).path
    for frames in (10, 20, 30):
        with RunDirectory(path) as run:
            run.info["frames"] = frames - 10  # as restoring a checkpoint does
            run.begin(device="cpu", resumed_at=frames - 10)
            run.info["frames"] = frames
    facts = info(path)
    assert facts["frames"] == 30
    assert [(s["resumed_at"], s["frames"], s["status"]) for s in facts["sessions"]] == [
        (0, 10, "finished"),
        (10, 20, "finished"),
    ]


def test_tables_go_on_where_a_state_was(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        run.begin()
        run.metrics.write({"frames": 1, "alpha": 0.5})
        state = run.state_dict()
        run.metrics.write({"frames": 2, "alpha": 0.25})
        run.episodes.write({"frames": 2, "env": 0})
    with RunDirectory(run.path) as again:
        again.load_state_dict(state)
        assert (run.path / "metrics.csv").read_text().count("\n") == 3  # nothing changed so far
        again.begin()
        again.metrics.write({"frames": 3, "alpha": 1.0})
    assert (run.path / "metrics.csv").read_text() == "frames,alpha\n1,0.5\n3,1.0\n"
    assert not (run.path / "episodes.csv").exists()


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        begin_and_raise(run := create(tmp_path), RunError("x"))
    hold(run.path).communicate()
    assert info(run.path)["status"] == "finished"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format_version": 99}', "\0"])
def test_a_foreign_directory_is_refused_by_name(tmp_path: Path, content: str) -> None:
    with pytest.raises(RunError, match=r"run\.json cannot be read"):
        RunDirectory(tmp_path)
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=re.escape(str(tmp_path / "run.json"))):
        RunDirectory(tmp_path)


def test_no_partial_file_is_left_and_no_log_before_its_first_row(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        run.update_info(frames=1)
    names = {file.name for file in run.path.iterdir()} - {".lock"}
    assert names == {"config.yaml", "run.json"}


def test_a_failed_write_keeps_the_old_facts(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        before = (run.path / "run.json").read_bytes()
        with pytest.raises(TypeError):
            run.update_info(device=object())
        assert (run.path / "run.json").read_bytes() == before
        run.update_info(device="cpu")
