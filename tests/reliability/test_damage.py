"""Damaged, foreign and hostile files, a full disk, options that may not change: clear refusals."""

from __future__ import annotations

import pickle
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlkit_sac.runs import read_config, run_recipe
from tests import processes
from tests.recipes.loading import load_recipe
from tests.reliability.runs import ROOT, SHORT, newest, only_run

TRAINED = [*SHORT, "--collector.total_frames", "300"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run of 300 frames with three checkpoints and its replay in three segments."""
    recipe = load_recipe("sac")
    folder = tmp_path_factory.mktemp("trained")
    config = read_config(recipe.SACConfig, [*TRAINED, "--logging.dir", str(folder / "runs")])
    return recipe.main(config)


@pytest.fixture
def path(trained, tmp_path, monkeypatch) -> Path:
    """A copy of the run to do harm to."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(trained, tmp_path / "runs" / "sac" / "Pendulum-v1" / "copy")


def resume(capsys, path: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and errors of the recipe, in this process."""
    recipe = load_recipe("sac")
    capsys.readouterr()
    code = 0
    try:
        run_recipe(recipe.main, recipe.SACConfig, ["--resume", str(path), *arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr().err


def snapshot(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


class Evil:
    """Unpickling it makes a file."""

    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


MORE = ("--collector.total_frames", "320")
DAMAGES = {
    "cut short": lambda content: content[: len(content) // 2],
    "flipped bit": flip,
    "empty": lambda content: b"",
    "pickle": lambda content: pickle.dumps(Evil()),
    "missing": None,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "pattern",
    [
        "checkpoints/step_300/checkpoint.json",
        "checkpoints/step_300/state.safetensors",
        "replay/segment_200-*.safetensors",
        "run.json",
        "metrics.csv",
    ],
)
def test_a_damaged_file_is_refused_by_name_and_nothing_changes(capsys, path, pattern, damage):
    if (pattern, damage) == ("run.json", "flipped bit"):
        pytest.skip("run.json is for people: a letter more or less harms nothing")
    damage = DAMAGES[damage]
    (file,) = path.glob(pattern)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    before = snapshot(path)
    code, errors = resume(capsys, path, *MORE)
    if file.name == "checkpoint.json" and damage is None:
        # The folder is then no checkpoint, and the one before is the newest.
        assert (code, errors) == (0, "")
        return
    assert code == 2, errors
    assert all(line.startswith("error: ") for line in errors.splitlines())
    assert file.name in errors
    assert snapshot(path) == before
    assert not Path("executed").exists()


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
def test_the_error_names_an_older_checkpoint_and_the_run_goes_on_from_there(capsys, path, name):
    file = path / "checkpoints" / "step_300" / name
    file.write_bytes(flip(file.read_bytes()))
    _, errors = resume(capsys, path, *MORE)
    older = errors.strip().rpartition("--resume ")[2]
    assert Path(older).parent == path / "checkpoints"
    assert resume(capsys, Path(older), *MORE) == (0, "")
    assert newest(path).frames == 320


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "1"], "seed was 0 in this run and cannot become 1"),
        (["--loss.gamma", "0.9"], "loss.gamma was 0.99 in this run and cannot become 0.9"),
        (["--env.id", "Reacher-v5"], "env.id was 'Pendulum-v1'"),
        (["--update.utd_ratio", "2"], "update.utd_ratio was 1.0"),
        ([], "is at frame 300 of 300 already: raise collector.total_frames"),
        (["--collector.total_frames", "200"], "is at frame 300 of 200 already"),
    ],
)
def test_what_would_falsify_the_run_is_refused(capsys, path, arguments, message):
    before = snapshot(path)
    code, errors = resume(capsys, path, *arguments)
    assert code == 2
    assert message in errors
    assert snapshot(path) == before


def test_what_does_not_falsify_it_may_change(capsys, path):
    options = ["--update.lr_actor", "1e-4", "--evaluation.episodes", "2"]
    assert resume(capsys, path, *MORE, *options) == (0, "")
    text = (path / "config.yaml").read_text()
    assert "lr_actor: 0.0001" in text
    assert "episodes: 2" in text
    assert "resume: null" in text


@pytest.mark.parametrize("where", ["nowhere", "runs", "runs/sac/Pendulum-v1/copy/checkpoints"])
def test_a_path_without_a_checkpoint_is_refused(capsys, path, where):
    code, errors = resume(capsys, Path(where))
    assert code == 2
    assert where in errors


def test_a_run_goes_on_elsewhere_without_what_only_its_beginning_needed(
    capsys, path, tmp_path, monkeypatch
):
    """The folder of new runs, and the run it began with the values of."""
    recipe = load_recipe("sac")
    source, folder = tmp_path / "teacher", tmp_path / "students"
    shutil.copytree(path, source)
    options = [*TRAINED, "--logging.dir", str(folder), "--warm_start.run", str(source)]
    run_path = recipe.main(read_config(recipe.SACConfig, options))
    moved = shutil.move(run_path, tmp_path / "moved")
    shutil.rmtree(source)
    shutil.rmtree(folder)
    folder.write_text("no longer a folder")
    assert resume(capsys, Path(moved), *MORE) == (0, "")


def test_a_run_killed_in_its_last_evaluation_is_finished(capsys, path):
    """The last batch of frames may have gone beyond the total."""
    info = path / "run.json"
    info.write_text(info.read_text().replace('"finished"', '"running"', 1))
    rows = (path / "evaluations.csv").read_text().splitlines(keepends=True)
    (path / "evaluations.csv").write_text("".join(rows[:-1]))
    assert resume(capsys, path) == (0, "")
    assert (path / "evaluations.csv").read_text().count("\n") == len(rows)


def test_a_run_in_use_is_not_touched(capsys, path):
    script = path.parent / "holder.py"
    script.write_text(
        "import sys; from rlkit_sac.runs import RunDirectory\n"
        "with RunDirectory(sys.argv[1]): print(flush=True); sys.stdin.read()"
    )
    with processes.Process(script, str(path), cwd=ROOT) as holder:
        holder.readline()
        before = snapshot(path)
        code, errors = resume(capsys, path, *MORE)
        assert code == 2
        assert "is in use by another process" in errors
        assert snapshot(path) == before


def test_a_disk_that_fills_up_leaves_the_checkpoint_before(tmp_path):
    """The system refuses to let any file grow beyond a limit, as a full disk would."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))

    arguments = [*SHORT, "--collector.total_frames", "600", "--checkpoint.interval", "300"]
    # The state grows with the first updates: Adam's moments are beyond the limit.
    arguments += ["--network.num_cells", "[48,48]", "--collector.learning_starts", "350"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "recipes" / "sac.py"), *arguments],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit,
    )
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    path = only_run(tmp_path)
    assert newest(path).content("state.safetensors")
    assert not [*path.rglob("*.partial")]
