"""What the command says before PyTorch is needed: help, version, lists, mistakes, copies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlkit_sac import __version__
from rlkit_sac.cli import COMMANDS, main
from rlkit_sac.cli.recipe_files import shipped_recipes
from tests.recipes.loading import RECIPES, config_files

ROOT = RECIPES.parent
LONG = "x" * 300  # more than a file system takes
LIGHT = """
import sys
from rlkit_sac.cli import main
for argv in sys.argv[1:]:
    try:
        print(main(argv.split()))
    except SystemExit as end:
        print("exit", end.code)
    assert not {"torch", "pandas", "gymnasium", "pydantic"} & set(sys.modules), argv
"""


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, text=True, stderr=subprocess.PIPE, **options)


def test_help_lists_and_mistakes_need_no_pytorch() -> None:
    asked = ["--help", "--version", "", "train", "train sacc", "recipes", "recipes copy ppo"]
    asked += [f"{name} --help" for name in COMMANDS] + ["evaluate nowhere"]
    done = process("-c", LIGHT, *asked, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert f"rlkit_sac {__version__}" in done.stdout
    for name in COMMANDS:
        assert f"usage: rlkit-sac {name}" in done.stdout
    assert done.stdout.count("Examples:\n    rlkit-sac ") == 2 + len(COMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_reader_that_leaves_is_no_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    done = process("-m", "rlkit_sac", "recipes", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train", "sacc"], "unknown recipe 'sacc'; did you mean sac? There are sac, acer"),
        (["train", "ppo"], "unknown recipe 'ppo'; there are acer"),
        (["train", "my_sac.py"], "there is no script my_sac.py"),
        (["recipes", "copy", "hybrid"], "did you mean hybrid_sac?"),
        (["resume", "nowhere"], "nowhere does not exist; give a run directory"),
        (["evaluate", "nowhere"], "nowhere is not a folder; give a run directory"),
        (
            ["evaluate", ".", "--episodes", "0"],
            "--episodes: must be >= 1, got 0",
        ),
        (["evaluate", ".", "--seed", "-1"], "--seed: must be >= 0 and < 4294967296, got -1"),
        (["evaluate", ".", "--csv", "a.txt"], "must end in .csv, got a.txt"),
        (["report", "nowhere"], "nowhere is not a directory; give a run directory or one above"),
        (["report", "."], "no run found under ."),
        (["report", "a", "b"], "several RUNS have no common place for the page: name it, -o"),
        (["report", ".", "-o", "page"], "page ends in ''; a report is written as .html"),
        (["report", ".", "--confidence", "2", "-o", "a.html"], "confidence is 2.0; it must lie"),
        (["resume", LONG], f"{LONG} does not exist"),
        (["evaluate", LONG], f"{LONG} is not a folder"),
        (["train", f"{LONG}.py"], f"there is no script {LONG}.py"),
        (["recipes", "copy", "sac", LONG], f"cannot copy to {LONG}: File name too long"),
        (["check-env", "Pendulun-v1"], "Did you mean: `Pendulum`"),
        (["check-env", "Pendulum-v1", "--env.num_env", "2"], "did you mean --env.num_envs?"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not any(folder.iterdir())


def test_a_recipe_s_own_mistakes_keep_their_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "sac", "--sed", "1"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: --sed: unknown option; did you mean --seed?\n"


def test_a_pattern_that_matches_several_runs_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(folder / name) for name in ("a", "b")]
    for run in runs:
        Path(run).mkdir()
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", *runs])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"unrecognized arguments: {runs[1]}; evaluate takes one run" in error
    assert main(["resume", *runs]) == 2
    assert capsys.readouterr().err == f"error: resume takes one run, got {runs[0]} {runs[1]}\n"


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (["sweep", "--trials", "4"], "RECIPE"),
        (["train", "--seed", "1"], "RECIPE"),
        (["resume", "--seed", "1"], "RUN"),
        (["check-env", "--env.num_envs", "1"], "ID"),
    ],
)
def test_options_before_the_rest_are_refused_with_the_usage(
    command: list[str], first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"usage: rlkit-sac {command[0]} {first}" in error
    assert f"unrecognized arguments: {command[1]}; options come last\n" in error


def test_an_unknown_option_without_a_command_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--seed"])
    assert stop.value.code == 2
    assert "rlkit-sac: error: unrecognized arguments: --seed\n" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "first"), [("resume", "RUN"), ("check-env", "ID")])
def test_options_are_not_asked_for(
    command: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"the following arguments are required: {first}\n")


def test_recipes_are_listed_with_their_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert "sac: Soft actor-critic for continuous actions.\n" in listed
    assert list(shipped_recipes()) == sorted(path.stem for path in RECIPES.glob("*.py"))
    for name in shipped_recipes():
        assert f"{name}: " in listed
        for config in config_files(name):
            assert f"\n  {config.stem} " in listed


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_without_a_recipe_they_are_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "error: name a recipe:"
    assert [line.split()[0] for line in lines if line[2] != " "] == list(shipped_recipes())


def test_a_copy_has_its_configurations_and_overwrites_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recipes", "copy", "kl-prior-sac", "mine/smooth.py"]) == 0
    assert "rlkit-sac train mine/smooth.py" in capsys.readouterr().out
    copied = {str(path.relative_to(folder)) for path in folder.rglob("*.*")}
    names = [path.name for path in config_files("kl_prior_sac")]
    assert copied == {
        "mine/smooth.py",
        "mine/priors/pendulum_controller.py",
        "mine/spaces/smooth.yaml",
        *(f"mine/configs/smooth/{name}" for name in names),
    }
    (folder / "mine" / "smooth.py").write_text("changed")
    assert main(["recipes", "copy", "kl_prior_sac", "mine/smooth.py"]) == 2
    assert "mine/smooth.py exists already" in capsys.readouterr().err
    assert (folder / "mine" / "smooth.py").read_text() == "changed"


def test_a_sweep_is_checked_before_anything_starts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    (folder / "space.yaml").write_text("update.lr_actr: {low: 1, high: 2}\nloss.gamma: 3\n")
    options = ["--space", "space.yaml", "--device", "cpu"]
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "sac", *options])
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: space.yaml: update.lr_actr: unknown option; did you mean update.lr_actor?",
        "error: space.yaml: loss.gamma: expected {low: ..., high: ...}, with log: true or "
        "step: ..., or {choices: [...]}, got 3",
    ]
    with pytest.raises(SystemExit):
        main(["sweep", "sac", *options, "--time_limit", "9", "--trials", "0", "--seeds", "0,1"])
    assert capsys.readouterr().err.splitlines() == [
        "error: --trials: must be greater than or equal to 1, got 0",
        "error: --seeds: cannot go with --trials, which take the seed of the option seed",
        "error: --trials: cannot go with --time_limit; end the sweep by a signal",
    ]
    assert not (folder / "runs").exists()
