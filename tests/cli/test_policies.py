"""The trained policies of the package: listed, evaluated, exported, loaded, taken as priors."""

import csv
import importlib
from pathlib import Path, PureWindowsPath

import pytest
import safetensors.torch
import torch

from rlkit_sac import Run
from rlkit_sac.cli import main
from rlkit_sac.config import PriorConfig
from rlkit_sac.envs import make_env
from rlkit_sac.modules import PolicyPrior
from rlkit_sac.runs import load_policy, make_prior, read_config
from rlkit_sac.runs.policy import StoredRun, find_policy
from rlkit_sac.trained_policies import FOLDER, find_run, trained_policies
from tests.recipes.loading import RECIPES, config_class, load_recipe

CHEETAH = "zoo:sac/HalfCheetah-v5"
PENDULUM = "zoo:sac/Pendulum-v1"


def rows(table: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(table.read_text().splitlines()))


def test_each_is_listed_with_its_return(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies"]) == 0
    printed = capsys.readouterr().out
    for name, folder in trained_policies().items():
        (row,) = rows(folder / "evaluations.csv")
        assert row["episodes"] == "100"
        (line,) = (line for line in printed.splitlines() if line.split()[:1] == [name])
        assert f"{float(row['return_mean']):,.2f}" in line


def test_all_of_them_are_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < 3 * 2**20


def test_one_is_evaluated_on_its_task(folder: Path) -> None:
    assert main(["evaluate", CHEETAH, "--episodes", "2", "--csv", "episodes.csv"]) == 0
    (stated,) = rows(trained_policies()[CHEETAH] / "evaluations.csv")
    mean, std = float(stated["return_mean"]), float(stated["return_std"])
    found = [float(row["return"]) for row in rows(folder / "episodes.csv")]
    assert found == pytest.approx([mean, mean], abs=5 * std)


def test_its_rounded_weights_become_float32() -> None:
    (file,) = trained_policies()[CHEETAH].glob("checkpoints/*/policy.safetensors")
    stored = safetensors.torch.load_file(file)
    assert {value.dtype for value in stored.values()} >= {torch.float16, torch.float64}
    policy = load_policy(CHEETAH)
    assert {value.dtype for value in policy.parameters()} == {torch.float32}
    assert all(torch.equal(value, stored[n].to(value)) for n, value in policy.state_dict().items())


def test_it_can_be_a_prior_and_is_its_own_best() -> None:
    options = {"kind": "policy", "run": CHEETAH, "which": "best"}
    prior = make_prior(PriorConfig(**options), make_env("HalfCheetah-v5"))
    assert isinstance(prior, PolicyPrior)


@pytest.mark.parametrize(
    ("recipe", "file", "options"),
    [
        ("kl_prior_sac", "fine_tune", ["--prior.run", PENDULUM, "--network.log_std_min", "-20"]),
        ("sac", "default", ["--warm_start.run", PENDULUM, "--warm_start.modules", "[actor]"]),
    ],
)
def test_a_run_can_start_from_it(recipe: str, file: str, options: list[str]) -> None:
    words = ["--config", str(RECIPES / "configs" / recipe / f"{file}.yaml"), *options]
    config = read_config(config_class(recipe), words)
    loss = load_recipe(recipe).build(config, make_env("Pendulum-v1")).loss_module
    wanted = load_policy(PENDULUM).state_dict()
    found = loss.policy().state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_its_name_is_found_in_a_path_of_windows() -> None:
    assert find_run(PureWindowsPath(CHEETAH)) == trained_policies()[CHEETAH]


def test_files_made_from_it_go_to_the_current_folder(folder: Path) -> None:
    assert main(["export", CHEETAH, "--format", "torch"]) == 0
    assert main(["video", "zoo:sac/Pendulum-v1"]) == 0
    assert (folder / "policy.pt2").is_file()
    assert len(list((folder / "videos").glob("*.mp4"))) == 1


def test_an_unknown_name_is_refused_with_all_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "zoo:sac/Chess"]) == 2
    assert f"there is no zoo:sac/Chess; choose from {', '.join(trained_policies())}" in (
        capsys.readouterr().err
    )


def test_a_run_becomes_one(run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RECIPES / "benchmarks")
    script = importlib.import_module("make_trained_policies")
    monkeypatch.setattr(script, "EPISODES", 5)
    script.main(script.PoliciesConfig(runs=[str(run)], folder="policies"))
    made = folder / "policies" / "sac" / "Pendulum-v1"
    result = StoredRun(find_policy(made, "last"), episodes=5).evaluate(load_policy(made))
    (stated,) = rows(made / "evaluations.csv")
    assert float(stated["return_mean"]) == result.returns.mean()
    exact = Run(run).evaluate(which="best", episodes=5).returns
    assert result.returns.tolist() != exact.tolist()
    assert result.returns == pytest.approx(exact, rel=0.05)
