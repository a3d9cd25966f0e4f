"""What the command says before PyTorch is needed: help, version, lists, mistakes, copies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac import __version__
from rlkit_sac.cli import COMMANDS, main
from rlkit_sac.recipe_files import shipped_recipes
from tests.recipes.loading import RECIPES, config_files

ROOT = RECIPES.parent
MEASURED = ROOT / "docs" / "data" / "evaluations.csv"
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


def exit_code(argv: list[str]) -> object:
    try:
        return main(argv)
    except SystemExit as end:  # of a recipe
        return end.code


def files_named(text: str) -> list[str]:
    """Files of the repository, which nobody has who installed a wheel."""
    return [word for word in re.findall(r"[\w./-]+", text) if (ROOT / word).is_file()]


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
    assert not files_named(done.stdout)


@pytest.mark.parametrize("name", shipped_recipes())
def test_the_common_options_need_no_pytorch_and_are_among_all(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["-m", "rlkit_sac", "train", name, "--help"]
    page = process("-X", "importtime", *command, stdout=subprocess.PIPE)
    imported = {line.split()[-1] for line in page.stderr.splitlines()}
    assert "rlkit_sac.config" in imported
    assert "torch" not in imported
    with pytest.raises(SystemExit, match="0"):
        main(["train", name, "--help", "all"])
    texts = page.stdout, capsys.readouterr().out
    common, every = (
        [line.split()[0] for line in text.splitlines() if line.startswith("  --")] for text in texts
    )
    assert not files_named("".join(texts))
    options = {"--options", "--space"} if name == "sweep" else {"--env.id", "--device"}
    assert {"--config", *options} < set(common) <= set(every)
    assert len(common) < 30
    hint = f"These are {len(common) - 1} of {len(every) - 1} options; see all with --help all.\n"
    assert page.stdout.endswith(hint) == (common != every)


def test_a_script_with_other_imports_answers_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (RECIPES / "sac.py").read_text(encoding="utf-8")
    script = tmp_path / "mine.py"
    own = "from rlkit_sac.runs import RunConfig\n\n\n@dataclass\n"
    script.write_text(source.replace("    RunConfig,\n", "").replace("\n\n@dataclass\n", own))
    with pytest.raises(SystemExit, match="0"):
        main(["train", str(script), "--help"])
    assert "--help all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["train", "sacc"], "unknown recipe 'sacc'; did you mean sac? There are sac, acer"),
        (["train", "ppo"], "unknown recipe 'ppo'; there are acer"),
        (["train", "my_sac.py"], "there is no script my_sac.py"),
        (["recipes", "copy", "hybrid"], "did you mean hybrid_sac?"),
        (["resume", "nowhere"], "nowhere is not a folder; give a run directory"),
        (["evaluate", "nowhere"], "nowhere is not a folder; give a run directory"),
        (
            ["evaluate", ".", "--episodes", "0"],
            "--episodes: must be >= 1, got 0",
        ),
        (["evaluate", ".", "--seed", "-1"], "--seed: must be >= 0 and < 4294967296, got -1"),
        (["report", "nowhere"], "nowhere is not a directory; give a run directory or one above"),
        (["report", "."], "no run found under ."),
        (["resume", LONG], f"{LONG} is not a folder"),
        (["evaluate", LONG], f"{LONG} is not a folder"),
        (["train", f"{LONG}.py"], f"there is no script {LONG}.py"),
        (["recipes", "copy", "sac", "--config", "acrobot"], "sac has no configuration 'acrobot'"),
        (
            ["recipes", "copy", "sac", LONG],
            f"cannot copy to {LONG}: OSError: [Errno 36] File name too long",
        ),
        (["check-env", "Pendulun-v1"], "Did you mean: `Pendulum`"),
        (["check-env", "Pendulum-v1", "--env.num_env", "2"], "did you mean --env.num_envs?"),
        (["check-env", "A-v0", "--env.num_envs=1", "--env.num_envs=2"], "--env.num_envs: is given"),
        (["train", "sweep", "--trials", "2", "--trials", "3"], "--trials: is given 2 times"),
        (["resume", "a\nb"], r"a\nb is not a folder"),
        (["evaluate", "a\nb"], r"a\nb is not a folder"),
        (["report", "a\nb"], r"a\nb is not a directory"),
        (["train", "a\nb.py"], r"there is no script a\nb.py"),
        (["check-env", "a\nb"], r"unknown environment 'a\nb'"),
        (["train", "sac", "--device", "a\nb"], r"--device: device 'a\nb' is not available here"),
        (
            ["train", "clone", "--data", "a\nb"],
            r"--data: wanted a folder that TensorDict.save wrote",
        ),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert exit_code(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not any(folder.iterdir())


def test_recipes_are_listed_with_their_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert "sac: Soft actor-critic for continuous actions.\n" in listed
    assert list(shipped_recipes()) == sorted(path.stem for path in RECIPES.glob("*.py"))
    for name in shipped_recipes():
        assert f"{name}: " in listed
        for config in config_files(name):
            assert f"\n  {config.stem} " in listed
            command = f"# rlkit-sac train {name} --config {config.stem}\n"
            assert config.read_text(encoding="utf-8").startswith(command)
    rows = pd.read_csv(MEASURED).query(
        "recipe == 'sac' and configuration == 'halfcheetah' and frames == 100_000"
    )
    value = f"{rows['return_mean'].mean():,.0f}"
    lines = [line.split() for line in listed.splitlines() if line.startswith("  halfcheetah")]
    assert ["halfcheetah", "HalfCheetah-v5", value, "100,000", "3"] in lines
    assert ["halfcheetah_alf", "HalfCheetah-v5", "-", "-", "-"] in lines


@pytest.mark.parametrize(
    ("recipe", "configs", "copied"),
    [
        ("clone", [], []),
        ("sweep", [], [f"spaces/{file.name}" for file in RECIPES.glob("spaces/*.yaml")]),
        ("sac", [], ["spaces/mine.yaml", "configs/mine/default.yaml"]),
        ("sac", ["ant", "hopper"], ["spaces/mine.yaml", "configs/mine/default.yaml"]),
        (
            "kl-prior-sac",
            ["halfcheetah_same_action"],
            ["spaces/mine.yaml", "configs/mine/default.yaml"],
        ),
        (
            "kl-prior-sac",
            ["pendulum_controller"],
            ["spaces/mine.yaml", "configs/mine/default.yaml", "priors/pendulum_controller.py"],
        ),
    ],
)
def test_a_copy_is_the_recipe_and_what_it_needs(
    folder: Path, recipe: str, configs: list[str], copied: list[str]
) -> None:
    options = [option for name in configs for option in ("--config", name)]
    assert main(["recipes", "copy", recipe, "to/mine.py", *options]) == 0
    found = {str(path.relative_to(folder / "to")) for path in folder.rglob("*.*")}
    own = [f"configs/mine/{name}.yaml" for name in configs]
    assert found == {"mine.py", *own, *copied}


def test_a_copy_overwrites_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "copy", "kl-prior-sac", "mine/smooth.py"]) == 0
    assert "rlkit-sac train mine/smooth.py" in capsys.readouterr().out
    (folder / "mine" / "smooth.py").write_text("changed")
    assert main(["recipes", "copy", "kl_prior_sac", "mine/smooth.py"]) == 2
    assert "mine/smooth.py exists already" in capsys.readouterr().err
    assert (folder / "mine" / "smooth.py").read_text() == "changed"
