"""Run directories made by a stranger: each file has a right checksum and a wrong content.

Nothing in one may run code, hang, take memory without bound, reach outside of the directory, or
be accepted although it contradicts itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from rlkit_sac.analysis import load_runs
from rlkit_sac.cli import main as rlkit_sac
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.runs import load_policy, read_config, run_recipe
from rlkit_sac.runs.checkpoints.folders import FileRecord
from rlkit_sac.runs.files import checksum
from tests import processes
from tests.recipes.loading import load_recipe
from tests.reliability.runs import SHORT

STEP = "checkpoints/step_300"
MORE = ("--collector.total_frames", "320")
State = dict[str, torch.Tensor]


def train(folder: Path, *options: str) -> Path:
    recipe = load_recipe("sac")
    arguments = [*SHORT, "--collector.total_frames", "300", "--logging.dir", str(folder), *options]
    return recipe.main(read_config(recipe.SACConfig, arguments))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run of 300 frames, with running statistics of observations."""
    folder = tmp_path_factory.mktemp("trained")
    options = ["--normalization.observations", "true", "--checkpoint.interval", "150"]
    return train(folder, *options, "--evaluation.interval", "150")


@pytest.fixture
def path(trained, tmp_path, monkeypatch) -> Path:
    """A copy of the run to do harm to."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(trained, tmp_path / "run")


@contextmanager
def bounded(seconds: int = 60) -> Iterator[None]:
    """Raise where something hangs."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def resume(capsys, path: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and errors of the recipe, in this process."""
    recipe = load_recipe("sac")
    capsys.readouterr()
    code = 0
    with bounded():
        try:
            run_recipe(recipe.main, recipe.SACConfig, ["--resume", str(path), *MORE, *arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, capsys.readouterr().err


def contents(path: Path) -> dict[str, Any]:
    """What is in a folder: of files the content, of all else what they are."""
    found = {}
    for file in path.rglob("*"):
        mode = file.lstat().st_mode
        is_small_file = file.is_file() and not file.is_symlink() and file.stat().st_size < 2**24
        if file.name != ".lock":
            found[str(file)] = file.read_bytes() if is_small_file else mode
    return found


def describe(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file that has its own checksum."""
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)
    path.write_text(json.dumps(content | {"sha256": checksum(content)}))


def manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda path: describe(path / STEP / "checkpoint.json", change)


def state(change: Callable[[State], object]) -> Callable[[Path], None]:
    """Change the tensors of a checkpoint."""

    def forge(path: Path) -> None:
        file = path / STEP / "state.safetensors"
        tensors = safetensors.torch.load(file.read_bytes())
        change(tensors)
        content = safetensors.torch.save(tensors)
        replace(path, file, content)

    return forge


def replace(path: Path, file: Path, content: bytes) -> None:
    """Replace a file that the checkpoint knows, and its checksum there."""
    file.write_bytes(content)
    kind = "segments" if file.parent.name == "replay" else "files"
    record = vars(FileRecord.of(content))
    manifest(lambda found: found[kind].update({file.name: record}))(path)


def rows(change: Callable[[State], object]) -> Callable[[Path], None]:
    """Change the transitions of the last segment."""

    def forge(path: Path) -> None:
        file = sorted(
            (path / "replay").iterdir(), key=lambda file: int(file.stem[8:].split("-")[0])
        )
        tensors = safetensors.torch.load(file[-1].read_bytes())
        change(tensors)
        replace(path, file[-1], safetensors.torch.save(tensors))

    return forge


def entry(found: dict[str, Any], *keys: str) -> Callable[[Any], None]:
    """What sets an entry of the state tree of a manifest."""
    node = found["state"]
    for key in keys[:-1]:
        node = dict(node["items"])[key]
    (pair,) = [pair for pair in node["items"] if pair[0] == keys[-1]]
    return lambda value: pair.__setitem__(1, value)


def set_entry(*keys: str, value: Any) -> Callable[[Path], None]:
    return manifest(lambda found: entry(found, *keys)(value))


def with_tensor(
    name: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[Path], None]:
    def forge(tensors: State) -> None:
        (found,) = [key for key in tensors if key.endswith(name)]
        tensors[found] = change(tensors[found]).contiguous()

    return state(forge)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def drop(kind: str, which: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def forge(found: dict[str, Any]) -> None:
        for name in which(list(found[kind])):
            del found[kind][name]

    return manifest(forge)


def repeated_key(path: Path) -> None:
    file = path / STEP / "checkpoint.json"
    file.write_text(file.read_text().replace('"frames": 300', '"frames": 7, "frames": 300', 1))


def overlapping(path: Path) -> None:
    old = next((path / "replay").glob("segment_150-300*"))
    tensors = safetensors.torch.load(old.read_bytes())
    longer = {key: torch.cat([value[:50], value]) for key, value in tensors.items()}
    file = path / "replay" / "segment_100-300.safetensors"
    replace(path, file, safetensors.torch.save(longer))
    drop("segments", lambda names: [old.name])(path)


def announced(path: Path, shape: list[int], end: int) -> None:
    header = {"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(16)
    replace(path, path / STEP / "state.safetensors", content)


BIAS = "actor_network_params.module.0.module.0.0.bias"
RESUME: dict[str, tuple[Callable[[Path], object], str]] = {
    # The manifest.
    "no segments": (drop("segments", lambda names: names), "replay segments"),
    "no first segment": (drop("segments", lambda names: names[:1]), "replay segments"),
    "no last segment": (drop("segments", lambda names: names[-1:]), "replay segments"),
    "overlapping segments": (overlapping, "replay segments"),
    "larger capacity": (
        manifest(lambda m: m["config"].update({"replay.capacity": 400})),
        "capacity, 250",
    ),
    "smaller capacity": (
        manifest(lambda m: m["config"].update({"replay.capacity": 100})),
        "capacity, 250",
    ),
    "a key twice": (repeated_key, "checkpoint.json is damaged"),
    "NaN frames": (manifest(lambda m: m.update(frames=float("nan"))), "checkpoint.json"),
    "negative frames": (manifest(lambda m: m.update(frames=-300)), "checkpoint.json"),
    "frames as a float": (manifest(lambda m: m.update(frames=300.0)), "checkpoint.json"),
    "a number of 400 digits": (manifest(lambda m: m.update(frames=10**400)), "checkpoint.json"),
    "a nested state": (manifest(lambda m: m.update(state=json.loads(nested(900)))), STEP),
    "a state that is a list": (manifest(lambda m: m.update(state=[1, 2])), STEP),
    "gamma of 7": (manifest(lambda m: m["config"].update({"loss.gamma": 7.0})), "loss.gamma"),
    "a negative seed": (manifest(lambda m: m["config"].update(seed=-1)), "seed"),
    "a name outside": (
        manifest(lambda m: m["files"].update({"../../run.json": {"size": 1, "sha256": ""}})),
        "checkpoint.json names files",
    ),
    "an absolute name": (
        manifest(lambda m: m["files"].update({"/etc/passwd": {"size": 1, "sha256": ""}})),
        "checkpoint.json names files",
    ),
    "a name with NUL": (
        manifest(lambda m: m["files"].update({"a\0b": {"size": 1, "sha256": ""}})),
        "checkpoint.json names files",
    ),
    "a segment with NUL": (
        manifest(lambda m: m["segments"].update({"segment_0-1\0": {"size": 1, "sha256": ""}})),
        "checkpoint.json names files",
    ),
    "a segment of 5000 digits": (
        manifest(
            lambda m: m["segments"].update(
                {f"segment_0-{'9' * 5000}.safetensors": {"size": 1, "sha256": ""}}
            )
        ),
        "checkpoint.json names files",
    ),
    # Counters.
    "frames of the log": (set_entry("log", "frames", value=299), "frames of its log are 299"),
    "NaN updates": (
        set_entry("update", "count", value={"kind": "float", "value": "nan"}),
        "count of its update are nan",
    ),
    "negative updates": (set_entry("log", "updates", value=-1), "updates of its log are -1"),
    "huge updates": (set_entry("update", "count", value=10**300), "count of its update are 1000"),
    # Tensors.
    "a broadcastable bias": (with_tensor(f"loss/{BIAS}", lambda v: v[:1]), f"{BIAS} ([1] float32"),
    "a bias of no dimension": (with_tensor(f"loss/{BIAS}", lambda v: v[0]), f"{BIAS} ([] float32"),
    "a transposed weight": (
        with_tensor("loss/actor_network_params.module.0.module.0.0.weight", torch.t),
        "([3, 16] float32, in the module [16, 3] float32)",
    ),
    "an integer bias": (with_tensor(f"loss/{BIAS}", torch.Tensor.long), f"{BIAS} ([16] int64"),
    "a complex bias": (with_tensor(f"loss/{BIAS}", torch.Tensor.cfloat), f"{BIAS} ([16] complex64"),
    "a double bias": (with_tensor(f"loss/{BIAS}", torch.Tensor.double), f"{BIAS} ([16] float64"),
    "a NaN bias": (with_tensor(f"loss/{BIAS}", lambda v: v * torch.nan), f"with NaN {BIAS}"),
    "a broadcastable moment": (
        with_tensor("optimizers/actor/state/0/exp_avg", lambda v: v[:1, :1]),
        "exp_avg of an optimizer is [1, 1], its parameter [",
    ),
    "a NaN moment": (
        with_tensor("optimizers/actor/state/0/exp_avg", lambda v: v * torch.nan),
        "exp_avg of an optimizer holds NaN",
    ),
    "a short state of PyTorch's generator": (with_tensor("random/torch", lambda v: v[:99]), STEP),
    "no tensors": (state(dict.clear), STEP),
    "2**60 bytes announced": (lambda path: announced(path, [2**58], 2**60), "state.safetensors"),
    "10**12 elements announced": (
        lambda path: announced(path, [10**12], 16),
        "state.safetensors",
    ),
    # Transitions.
    "broadcastable rewards": (
        rows(lambda r: r.update({'["next", "reward"]': r['["next", "reward"]'][..., 0]})),
        "does not hold transitions of this run",
    ),
    "observations of one number": (
        rows(lambda r: r.update({'"observation"': r['"observation"'][:, :1].clone()})),
        "([150, 1] float32, in the module [150, 3] float32)",
    ),
    "observations of another type": (
        rows(lambda r: r.update({'"observation"': r['"observation"'].double()})),
        "([150, 3] float64, in the module [150, 3] float32)",
    ),
    "NaN observations": (
        rows(lambda r: r.update({'"observation"': r['"observation"'] * torch.nan})),
        "with NaN observation",
    ),
    "fewer transitions than named": (
        rows(lambda r: r.update({key: value[:9].clone() for key, value in r.items()})),
        STEP,
    ),
}


@pytest.mark.parametrize("case", RESUME)
def test_a_forged_checkpoint_is_refused_in_one_line_and_nothing_changes(capsys, path, case):
    forge, message = RESUME[case]
    forge(path)
    before = contents(path)
    code, errors = resume(capsys, path / STEP)
    assert code == 2, errors
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert len(line) < 1000
    assert contents(path) == before


PLACES = [
    "run.json",
    "metrics.csv",
    "evaluations.csv",
    f"{STEP}/checkpoint.json",
    f"{STEP}/state.safetensors",
    f"{STEP}/policy.json",
    f"{STEP}/policy.safetensors",
    "replay/segment_150-300.safetensors",
    "config.yaml",
    ".lock",
]


def fifo(file: Path) -> None:
    os.mkfifo(file)


def listening(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(file))  # names of sockets are short


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def link(file: Path) -> None:
    """A link to the right content, elsewhere."""
    shutil.move(file, elsewhere := Path(f"{file.name}.elsewhere").absolute())
    file.symlink_to(elsewhere)


def sparse(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(10 * 2**30)


RARE = ("socket", "device")
SPECIAL = {"fifo": fifo, "socket": listening, "device": device, "link": link, "sparse": sparse}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in RARE else ()) for kind in SPECIAL],
)
def test_what_is_no_file_of_the_run_is_refused_by_name(capsys, path, kind, place):
    """By all that read it; nothing blocks, and nothing is written where a link leads."""
    file = path / place
    if place == ".lock":
        file.touch()
    if kind != "link":
        file.unlink()
    SPECIAL[kind](file)
    before = contents(path.parent)
    is_of_policy = "policy" in place
    is_replaced = kind == "sparse" and place in ("config.yaml", ".lock")
    if not is_replaced and not (kind == "sparse" and is_of_policy):
        code, errors = resume(capsys, path / STEP)
        (line,) = errors.splitlines()
        assert (code, line[:7]) in [(1, "error: "), (2, "error: ")]
        assert file.name in line
        assert contents(path.parent) == before
    if is_of_policy:
        with bounded(), pytest.raises(RlkitSacError, match=file.name):
            load_policy(path / STEP)
    if place == "evaluations.csv":
        with bounded(), pytest.raises(RlkitSacError, match=file.name):
            load_policy(path, which="best")
    table = "metrics" if place == "metrics.csv" else "evaluations"
    if file.parent == path and place != ".lock":
        with bounded(), pytest.raises(RlkitSacError, match=file.name):
            load_runs(path, config=True, table=table)


@pytest.mark.parametrize("folder", ["checkpoints", STEP, "replay", "videos", "figures"])
def test_a_folder_elsewhere_is_refused_by_name(capsys, path, folder):
    (path / folder).mkdir(exist_ok=True)
    shutil.move(path / folder, path.parent / "elsewhere")
    (path / folder).symlink_to(path.parent / "elsewhere")
    before = contents(path.parent)
    code, errors = resume(capsys, path)
    (line,) = errors.splitlines()
    assert code in (1, 2)
    assert f"{path / folder}" in line
    assert contents(path.parent) == before
    if "checkpoints" in folder:
        with pytest.raises(RlkitSacError, match="it is a link that leads out of"):
            load_policy(path)


def test_links_to_a_run_and_within_one_are_followed(capsys, path):
    latest = path.parent / "latest"
    latest.symlink_to(path)
    (path / "replay").rename(path / "transitions")
    (path / "replay").symlink_to("transitions")
    (path / "newest").symlink_to(STEP)
    assert load_policy(latest).in_keys == ["observation"]
    assert load_policy(path / "newest").in_keys == ["observation"]
    assert load_runs(latest)["frames"].tolist() == [150, 300]
    assert resume(capsys, latest) == (0, "")


OPTIONS = {
    "evaluation.episodes": -5,
    "env.max_episode_steps": 0.5,
    "env.kwargs": [1],
    "seed": "0",
    "loss.reward_weights": ["a"],
    "loss.reward_weights_at": {"x": 1},
}


@pytest.mark.parametrize("key", OPTIONS)
def test_options_that_no_run_has_are_refused(capsys, path, key):
    manifest(lambda found: found["config"].update({key: OPTIONS[key]}))(path)
    assert rlkit_sac(["evaluate", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path / STEP} has options that no run has" in error
    assert error.count("\n") == 1


def test_a_module_that_a_run_brings_along_is_not_imported(capsys, path, monkeypatch):
    """And one from elsewhere is named before it is imported."""
    manifest(lambda found: found["config"].update({"env.id": "brought_along:Task-v0"}))(path)
    text = "from pathlib import Path; Path('executed').touch()"
    (path / "brought_along.py").write_text(text)
    monkeypatch.chdir(path)
    monkeypatch.syspath_prepend(path)
    assert rlkit_sac(["evaluate", str(path)]) == 2
    assert "no file of a run is executed" in capsys.readouterr().err
    assert resume(capsys, path)[0] == 2
    assert not Path("executed").exists()
    (path / "brought_along.py").rename(path.parent / "brought_along.py")
    monkeypatch.syspath_prepend(path.parent)
    assert rlkit_sac(["evaluate", str(path)]) == 2
    named, unknown = capsys.readouterr().err.splitlines()
    assert "env.id names the module 'brought_along', which is imported" in named
    assert "unknown environment" in unknown


LIMITED = """
import resource, sys
import rlkit_sac.runs
from rlkit_sac.cli import main
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 2**30,) * 2)
sys.exit(main(["evaluate", sys.argv[1]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by /proc and RLIMIT_AS")
def test_absurd_sizes_take_little_memory(path):
    """A text of 100 MB; a checksum that is right, of a file of many gigabytes."""
    script = path.parent / "limited.py"
    script.write_text(LIMITED)
    file = path / STEP / "policy.json"
    describe(file, lambda found: found.update(builder="x" * 100 * 2**20))
    done = processes.run(script, str(path), cwd=path.parent)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr[-500:]
    assert "policy.json cannot be read: it has 104,8" in done.stderr
