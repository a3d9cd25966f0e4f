"""The SAC recipe as a user runs it: real environments, real processes, real files."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.envs import make_env
from rlkit_sac.training import evaluate, evaluation_seed, load_policy, parse_config, run_recipe
from tests.recipes.loading import CONFIGS, load_recipe

SHORT = shlex.split("""
    --collector.total_frames 500 --collector.init_random_frames 150 --collector.learning_starts 150
    --replay.batch_size 32 --network.num_cells [16,16] --evaluation.interval 250
    --evaluation.episodes 2 --logging.interval 100 --logging.progress false
""")

BROKEN_ENVS = """
import gymnasium as gym
import numpy as np


class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))

    def __init__(self, bound=1.0, spoil=None):
        self.action_space = gym.spaces.Box(-bound, bound, (2,))
        self.spoil = spoil
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        bad = self.steps == 27
        observation = np.full(2, np.inf if bad and self.spoil == "observation" else 0.5, np.float32)
        return observation, np.nan if bad and self.spoil == "reward" else 1.0, False, False, {}


gym.register("Broken-v0", entry_point=Broken, max_episode_steps=10)
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_envs.py").write_text(BROKEN_ENVS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def train(*arguments: str) -> Path:
    """A short run in this process; its directory."""
    recipe = load_recipe("sac")
    return recipe.main(parse_config(recipe.SACConfig, [*SHORT, *arguments])).resolve()


def test_a_run_as_a_process_leaves_what_the_documentation_promises(tmp_path):
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(root / "recipes" / "sac.py"), *SHORT, "--seed", "3"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs" / "sac" / "Pendulum-v1").iterdir()
    assert run.name.endswith("-seed3")
    for line in ("last evaluation", "500", f"{run.relative_to(tmp_path)}"):
        assert line in done.stdout
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "finished"
    assert (info["frames"], info["updates"], info["seed"]) == (500, 350, 3)
    assert info["target_entropy"] == pytest.approx(-1.609438, abs=1e-6)
    assert (run / "figures" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")

    metrics = pd.read_csv(run / "metrics.csv")
    assert metrics["frames"].tolist() == [100, 200, 300, 400, 500]
    assert metrics["updates"].tolist() == [0, 50, 150, 250, 350]
    learned = metrics[metrics["updates"] > 0]
    assert np.isfinite(learned.drop(columns=["frames", "updates"])).all().all()
    assert (learned["q0_min"] <= learned["q0_mean"]).all()
    assert (learned["q1_mean"] <= learned["q1_max"]).all()
    episodes = pd.read_csv(run / "episodes.csv")
    assert episodes["frames"].tolist() == [200, 400]
    assert (episodes["length"] == 200).all()
    assert not episodes["terminated"].any()
    assert pd.read_csv(run / "evaluations.csv")["frames"].tolist() == [250, 500]


def test_the_saved_policy_repeats_the_last_evaluation(workplace):
    run = train("--seed", "5")
    last = json.loads(pd.read_csv(run / "evaluations.csv")["returns"].iloc[-1])
    result = evaluate(
        load_policy(run), make_env("Pendulum-v1"), episodes=2, seed=evaluation_seed(5)
    )
    assert result.returns.tolist() == last


def test_a_seed_gives_the_same_tables_again(workplace):
    first, second = train("--seed", "1"), train("--seed", "1")
    other = train("--seed", "2")
    for table in ("metrics", "episodes", "evaluations"):
        frames = [
            pd.read_csv(run / f"{table}.csv").drop(
                columns=["seconds", "frames_per_second"], errors="ignore"
            )
            for run in (first, second, other)
        ]
        pd.testing.assert_frame_equal(frames[0], frames[1], check_exact=True)
        assert not frames[0].equals(frames[2])


def test_evaluation_does_not_change_the_training(workplace):
    often = train("--evaluation.interval", "100", "--evaluation.episodes", "1")
    seldom = train("--evaluation.interval", "500", "--evaluation.episodes", "3")
    time = ["seconds", "frames_per_second"]
    for table in ("metrics", "episodes"):
        left, right = (
            pd.read_csv(run / f"{table}.csv").drop(columns=time, errors="ignore")
            for run in (often, seldom)
        )
        pd.testing.assert_frame_equal(left, right, check_exact=True)


VARIANTS = {
    "environments alone": "--env.num_envs 4",
    "two environments": "--env.num_envs 2 --collector.frames_per_batch 10",
    "files for replay": "--replay.storage memmap",
    "fixed alpha": "--loss.fixed_alpha true --loss.alpha_init 0.2",
    "Spinning Up's order": "--update.order [actor,qvalue,target] --update.recompute true"
    " --loss.fixed_alpha true --loss.qvalue_coef 0.5",
    "delayed policy": "--update.order [alpha,qvalue,actor,target] --update.periods {actor: 2}"
    " --logging.interval 1",
    "every loss option": "--loss.num_qvalue_nets 3 --loss.dqda_clipping 1"
    " --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.target_entropy -0.5 --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
    "networks": "--network.log_std_mode tanh --network.activation silu",
    "ratio": "--update.utd_ratio 0.5 --update.max_grad_norm 1",
    "environment bounds": "--env.rescale_actions false --env.max_episode_steps 50",
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_variants_train(workplace, variant):
    arguments = []
    for option in variant.split("--")[1:]:
        name, value = option.strip().split(" ", 1)
        arguments += [f"--{name}", value]
    run = train(*arguments)
    metrics = pd.read_csv(run / "metrics.csv")
    assert np.isfinite(metrics["loss_qvalue"].iloc[-1])
    assert metrics["frames"].iloc[-1] == 500
    assert load_policy(run)


BAD = {
    "--env.idd Pendulum-v1": "did you mean --env.id",
    "--loss.gamma 1.5": "--loss.gamma: must be >= 0 and <= 1, got 1.5",
    "--loss.alpha_init nan": "--loss.alpha_init",
    "--collector.total_frames many": "expected an integer, got 'many'",
    "--seed 1.5": "--seed",
    "--num_threads 0": "--num_threads",
    "--network.num_cells [64,0]": "--network.num_cells",
    "--network.activation relo": "--network.activation",
    "--update.order [joint,actor,target]": "already holds every loss",
    "--device cuda:7": "device 'cuda:7' is not available",
    "--env.id Pendulun-v1": "did you mean Pendulum-v1",
    "--env.id Pendulum-v9": "unknown version v9",
    "--env.id nowhere:Pendulum-v1": "cannot import the module 'nowhere'",
    "--env.id CartPole-v1": "Box action space",
    "--env.id broken_envs:Broken-v0 --env.kwargs.bound .inf": "lower bound of action dimension",
    "--env.kwargs.wind 1": "takes no argument 'wind'",
    "--env.num_envs 2 --collector.frames_per_batch 3": "must be a multiple of env.num_envs (2)",
    "--logging.dir broken_envs.py": "is not a folder",
    "--resume nowhere": "--resume: nowhere does not exist",
    "--warm_start.run nowhere": "--warm_start.run: nowhere does not exist",
    "--replay.capacity 100000000000": "the largest capacity that fits",
    "--replay.capacity 10": "at least batch_size",
    "--config missing.yaml": "missing.yaml: cannot be read",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    before = set(workplace.iterdir())
    recipe = load_recipe("sac")
    with pytest.raises(SystemExit) as stop:
        run_recipe(recipe.main, recipe.SACConfig, arguments.split(" "))
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert {path for path in workplace.iterdir() if path.name != "__pycache__"} == before


def test_all_errors_of_a_configuration_come_at_once(workplace, capsys):
    (workplace / "bad.yaml").write_text("env: {idd: x}\nloss: {gama: 1}\nseed: -1\n")
    recipe = load_recipe("sac")
    with pytest.raises(SystemExit):
        run_recipe(recipe.main, recipe.SACConfig, ["--config", "bad.yaml", "--num_threads", "0"])
    error = capsys.readouterr().err
    for part in ("env.idd", "loss.gama", "seed", "num_threads"):
        assert part in error


@pytest.mark.parametrize(("spoil", "number"), [("reward", "nan"), ("observation", "inf")])
def test_a_spoiled_frame_stops_the_run(workplace, capsys, spoil, number):
    recipe = load_recipe("sac")
    arguments = [*SHORT, "--env.id", "broken_envs:Broken-v0", "--env.kwargs.spoil", spoil]
    with pytest.raises(SystemExit) as stop:
        run_recipe(recipe.main, recipe.SACConfig, arguments)
    assert stop.value.code == 1
    assert f"('next', '{spoil}') is {number} at frame 27" in capsys.readouterr().err
    (info,) = workplace.glob("runs/sac/*/*/run.json")
    assert json.loads(info.read_text())["status"] == "failed"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_parses_and_names_its_command(path):
    recipe = load_recipe("sac")
    config = parse_config(recipe.SACConfig, ["--config", str(path)])
    assert make_env(config.env.id).action_spec.shape[-1] > 0
    first = path.read_text().splitlines()[0]
    assert first == f"# python recipes/sac.py --config recipes/configs/sac/{path.name}"


def test_a_failure_leaves_no_processes_of_parallel_environments(tmp_path):
    """Workers that outlive the error would keep the recipe from exiting."""
    (tmp_path / "broken_envs.py").write_text(BROKEN_ENVS)
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(tmp_path)])
    command = [sys.executable, str(root / "recipes" / "sac.py"), *SHORT]
    command += ["--env.id", "broken_envs:Broken-v0", "--env.kwargs.spoil", "reward"]
    command += [
        "--env.num_envs",
        "2",
        "--env.parallel",
        "true",
        "--collector.frames_per_batch",
        "2",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "('next', 'reward') is nan at frame" in done.stderr


def test_a_run_without_a_finished_episode_still_draws_its_curve(workplace):
    run = train("--env.id", "HalfCheetah-v5", "--evaluation.episodes", "1")
    assert pd.read_csv(run / "evaluations.csv")["frames"].tolist() == [250, 500]
    assert not (run / "episodes.csv").exists()
    assert (run / "figures" / "learning_curve.png").exists()


def test_vector_rewards_are_refused_before_anything_is_created(workplace, capsys):
    (workplace / "vector_env.py").write_text(
        BROKEN_ENVS.replace("Broken-v0", "Vector-v0")
        .replace("else 1.0, False", "else np.ones(2), False")
        .replace(
            "        self.steps = 0\n",
            "        self.steps = 0\n        self.reward_space = gym.spaces.Box(0, 1, (2,))\n",
        )
    )
    recipe = load_recipe("sac")
    with pytest.raises(SystemExit) as stop:
        run_recipe(recipe.main, recipe.SACConfig, [*SHORT, "--env.id", "vector_env:Vector-v0"])
    assert stop.value.code == 2
    assert "scalar rewards, but the reward has the shape [2]" in capsys.readouterr().err
    assert not (workplace / "runs").exists()
