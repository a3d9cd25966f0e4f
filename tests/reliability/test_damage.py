"""Damaged and foreign files, a full disk, options that may not change: clear refusals."""

import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlkit_sac
from rlkit_sac.cli import main as cli_main
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs import load_policy, run_recipe
from rlkit_sac.runs.checkpoint import segment_range, step_folders
from rlkit_sac.runs.directory import best_frames, read_evaluations
from tests import processes
from tests.recipes.loading import load_recipe
from tests.reliability.runs import (
    ENVIRONMENT,
    RECIPES,
    ROOT,
    SAC,
    SHORT,
    assert_equal,
    assert_same_run,
    newest,
    only_run,
    train,
)

TRAINED = [*SHORT, "--collector.total_frames", "300"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run of 300 frames with three checkpoints and its replay in three segments."""
    return train(tmp_path_factory.mktemp("trained"), *TRAINED)


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


def become_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "empty": lambda file: file.write_bytes(b""),
    "a flipped bit": lambda file: file.write_bytes(flip(file.read_bytes())),
    "appended bytes": lambda file: file.write_bytes(file.read_bytes() + b"\xff\0rubbish\n"),
    "pickle": lambda file: file.write_bytes(pickle.dumps(Evil())),
    "missing": Path.unlink,
    "a folder": become_folder,
}
UNCHECKED = [(".csv", "a flipped bit")]
OF_A_RUN = ["run.json", "config.yaml", "metrics.csv", "episodes.csv", "evaluations.csv"]
OF_A_CHECKPOINT = ["checkpoint.json", "state.safetensors", "policy.json", "policy.safetensors"]


def files_of(path: Path) -> list[str]:
    """Files of a run to damage: those of its newest, best and oldest checkpoint among them."""
    folders = step_folders(path / "checkpoints")
    best = best_frames(read_evaluations(path), among=folders)
    checkpoints = [folders[frames] for frames in dict.fromkeys([max(folders), best, min(folders)])]
    segments = sorted(path.glob("replay/*"), key=lambda file: segment_range(file.name))
    files = [path / name for name in OF_A_RUN]
    files += [folder / name for folder in checkpoints for name in OF_A_CHECKPOINT]
    return [str(file.relative_to(path)) for file in [*files, segments[0], segments[-1]]]


VARIANTS = {name: (name, []) for name in RECIPES} | {
    "priorities": ("sac", ["--replay.prioritized", "true"]),
    "memory map": ("sac", ["--replay.storage", "memmap"]),
    "statistics": (
        "sac",
        ["--normalization.observations", "true", "--normalization.rewards", "true"],
    ),
    "slices": ("sac", ["--replay.slice_length", "3", "--loss.lmbda", "0.7"]),
    "several rewards": (
        "sac",
        [
            *("--env.id", "mo-halfcheetah-v5", "--env.max_episode_steps", "50"),
            *("--network.critic_atoms", "null"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("variant", "every"),
    [
        pytest.param("acer", 13, id="acer, some"),
        *(pytest.param(name, 1, id=name, marks=pytest.mark.slow) for name in VARIANTS),
    ],
)
def test_a_damaged_file_is_refused_by_name_or_does_not_matter(
    capsys, tmp_path, monkeypatch, variant, every
):
    """Resumed and loaded, such a run is the undamaged one, or one line says what is damaged."""
    monkeypatch.chdir(tmp_path)
    name, options = VARIANTS[variant]
    total = ("--collector.total_frames", "300")
    whole = train(tmp_path, *RECIPES[name], *total, *options, recipe=name)

    def copied(folder: str) -> Path:
        return shutil.copytree(whole, tmp_path / folder)

    def loaded(path: Path) -> list[Any]:
        policies = [load_policy(path, which=which) for which in ("last", "best")]
        return [policy.state_dict() for policy in policies]

    policies, reference = loaded(whole), copied("reference")

    def outcome(path: Path, file: str, check: Callable[[], object]) -> str:
        """``equal``, ``refused``, or what is wrong."""
        before = snapshot(path)
        try:
            check()
        except (RunError, ConfigError) as error:
            text = str(error)
            if "\n" in text or len(text) > 500 or Path(file).name not in text:
                return f"error: {text}"
            return "refused" if snapshot(path) == before else "changed"
        except AssertionError as error:
            return f"differs: {error}"
        return "equal"

    def check_policies(path: Path) -> None:
        assert_equal(loaded(path), policies, "policies")

    def check_resume(path: Path) -> None:
        train(tmp_path, "--resume", str(path), *MORE, recipe=name)
        assert_same_run(path, reference)

    train(tmp_path, "--resume", str(reference), *MORE, recipe=name)
    # Of the rows of a table the length alone is checked.
    pairs = product(files_of(whole), DAMAGES)
    cases = [(file, what) for file, what in pairs if (file[-4:], what) not in UNCHECKED][::every]
    counts: Counter[str] = Counter()
    for file, damage in cases:
        is_shorter = (file, damage) == ("evaluations.csv", "cut short")
        # The best policy is that of the rows that are there.
        for check in (check_resume,) if is_shorter else (check_policies, check_resume):
            path = copied("damaged")
            DAMAGES[damage](path / file)
            found = outcome(path, file, partial(check, path))
            if found not in ("equal", "refused"):
                found = f"{file}, {damage}, {check.__name__}: {found}"[:600]
            counts[found] += 1
            shutil.rmtree(path)
    assert not Path("executed").exists()
    with capsys.disabled():
        print(f"\n{variant}: {len(cases)} files damaged, {dict(counts)}")
    assert counts.keys() == {"equal", "refused"}


def without_script(file: Path) -> None:
    file.write_text(file.read_text().replace('"script"', '"scrip"'))


@pytest.mark.parametrize("damage", [*DAMAGES.values(), without_script], ids=[*DAMAGES, "no script"])
def test_a_damaged_run_json_is_a_mistake_in_what_was_given(capsys, path, damage):
    if damage is DAMAGES["a flipped bit"]:
        pytest.skip("it may be anywhere")
    damage(path / "run.json")
    code, error = resume(capsys, path, *MORE)
    assert (code, cli_main(["resume", str(path)])) == (2, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert error == line.replace("error: ", "error: --resume: ") + "\n"
    assert line.startswith(f"error: cannot use {path}: {path}/run.json ")
    with pytest.raises(ConfigError, match=r"run\.json"):
        rlkit_sac.Run(path).resume()


def test_a_resume_says_what_it_ignores_of_an_edited_configuration(capsys, path):
    file = path / "config.yaml"

    def edit(**update: float) -> None:
        options = yaml.safe_load(file.read_text())
        options["update"] |= update
        options["seed"] = float(options["seed"])
        file.write_text(f"# sorted, and 0.0 for 0\n{yaml.dump(options)}")

    edit()
    assert resume(capsys, path, *MORE) == (0, "")
    edit(lr_actor=0.01)
    code, warning = resume(capsys, path, "--collector.total_frames", "340")
    assert (code, warning.count("\n")) == (0, 1)
    assert warning.startswith(
        f"warning: {file} was edited (update.lr_actor), but is not read again"
    )
    edit(lr_actor=0.01)
    given = ["--update.lr_actor", "0.01", "--collector.total_frames", "360"]
    assert resume(capsys, path, *given) == (0, "")
    before = path / "checkpoints" / "step_340"  # with other options, but nobody has edited them
    assert resume(capsys, before, "--collector.total_frames", "350") == (0, "")


TAILS = {
    "half a row": b"330,1\n",
    "rubbish": bytes(range(128, 256)) + b"\n",
    "zeros": bytes(60) + b"\n",
    "a huge line": b"x" * 200_000 + b"\n",
    "a row without its end": b"330,1,-12",
}


def test_a_run_goes_on_before_damaged_rows_that_it_removes(capsys, tmp_path, path, trained):
    undamaged = shutil.copytree(trained, tmp_path / "undamaged")
    for name in ("metrics", "episodes", "evaluations"):
        with (path / f"{name}.csv").open("ab") as file:
            file.write(b"".join(TAILS.values()))
    for each in (undamaged, path):
        assert resume(capsys, each, *MORE) == (0, "")
    assert_same_run(undamaged, path)


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
    script = tmp_path / "limited.py"
    script.write_text(
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))\n"
        f"sys.argv[0] = {str(SAC)!r}; runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    arguments = [*SHORT, "--collector.total_frames", "200", "--checkpoint.interval", "100"]
    # The state grows with the first updates: Adam's moments are beyond the limit.
    arguments += ["--network.num_cells", "[48,48]", "--collector.learning_starts", "150"]
    arguments += ["--config", "published"]
    done = processes.run(script, *arguments, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    path = only_run(tmp_path)
    assert newest(path).content("state.safetensors")
    assert not [*path.rglob("*.partial")]


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
def test_the_error_names_an_older_checkpoint_and_the_run_goes_on_from_there(capsys, path, name):
    file = path / "checkpoints" / "step_300" / name
    file.write_bytes(flip(file.read_bytes()))
    _, errors = resume(capsys, path, *MORE)
    older = errors.strip().rpartition("intact: ")[2]
    assert Path(older).parent == path / "checkpoints"
    assert resume(capsys, Path(older), *MORE) == (0, "")
    assert newest(path).frames == 320
