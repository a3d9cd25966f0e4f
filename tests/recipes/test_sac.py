"""The SAC recipe as a user runs it: real environments, real processes, real files."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import processes
from tests.recipes.running import (
    BRIEF,
    SAC,
    SHORT,
    assert_policy_repeats_the_last_evaluation,
    each_case,
)


def test_a_run_as_a_process_leaves_what_the_documentation_promises(tmp_path):
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [*SHORT, *BRIEF, "--seed", "3"]
    done = processes.run(root / "recipes" / "sac.py", *command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs" / "sac" / "Pendulum-v1").iterdir()
    assert run.name.endswith("-seed3")
    for line in ("last evaluation", "120", f"{run.relative_to(tmp_path)}"):
        assert line in done.stdout
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "finished"
    assert (info["frames"], info["updates"], info["seed"]) == (120, 25, 3)
    assert info["target_entropy"] == -0.5
    assert (run / "figures" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")

    metrics = pd.read_csv(run / "metrics.csv")
    assert metrics["frames"].tolist() == [40, 80, 120]
    assert metrics["updates"].tolist() == [0, 0, 25]
    learned = metrics[metrics["updates"] > 0]
    assert np.isfinite(learned.drop(columns=["frames", "updates"])).all().all()
    assert (learned["q0_min"] <= learned["q0_mean"]).all()
    assert (learned["q1_mean"] <= learned["q1_max"]).all()
    episodes = pd.read_csv(run / "episodes.csv")
    assert episodes["frames"].tolist() == [40, 80, 120]
    assert (episodes["length"] == 40).all()
    assert not episodes["terminated"].any()
    assert pd.read_csv(run / "evaluations.csv")["frames"].tolist() == [60, 120]
    assert_policy_repeats_the_last_evaluation(run)


def test_a_seed_gives_the_same_tables_again(workplace):
    SAC.assert_seed_decides()


def test_evaluation_does_not_change_the_training(workplace):
    SAC.assert_evaluation_leaves_training_alone()


VARIANTS = {
    "lambda, interleaved": "--replay.slice_length 4 --loss.lmbda 0.9 --replay.batch_size 32"
    " --env.num_envs 2 --collector.frames_per_batch 10 --replay.capacity 100"
    " --replay.storage memmap",
    "three steps": "--replay.n_steps 3 --env.num_envs 2 --collector.frames_per_batch 10"
    " --replay.prioritized true --replay.priority_alpha 0.7 --replay.priority_beta_frames null"
    " --normalization.rewards true --network.critic_atoms 11",
    "Spinning Up's order": "--update.order [actor,qvalue,target] --update.periods {}"
    " --update.recompute true --loss.fixed_alpha true --loss.qvalue_coef 0.5",
    "every loss option": "--loss.num_qvalue_nets 3 --loss.dqda_clipping 1"
    " --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.target_entropy -0.5 --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
    "DroQ": "--network.critic_layer_norm true --network.critic_dropout 0.01"
    " --loss.policy_reduction mean --update.utd_ratio 2 --update.periods {actor: 2, alpha: 2}"
    " --update.order [qvalue,actor,alpha,target]",
    "REDQ": "--loss.num_qvalue_nets 5 --loss.target_subset 2 --loss.policy_reduction mean",
    "normalization": "--normalization.observations true --normalization.rewards bounded"
    " --normalization.clip null --network.critic_atoms 11 --env.num_envs 2",
    "schedules, steps at once and twice": "--update.schedules {lr_actor: {0: 0.001, 120: 0}}"
    " --update.schedules.max_grad_norm {9: 2}"
    " --loss.schedules {gamma: {90: 0.9, 110: 0.99}} --loss.schedules.qvalue_coef {3: 0.5}"
    " --update.order [qvalue,[actor,alpha],[actor,alpha],target]"
    " --update.periods {actor: 2, alpha: 2} --update.recompute true",
    "networks, ratio, samples in evaluation": "--network.log_std_mode tanh"
    " --network.activation silu --update.utd_ratio 0.5 --update.max_grad_norm 1"
    " --evaluation.epsilon 0.5",
}


@each_case(VARIANTS)
def test_variants_train(workplace, case):
    SAC.assert_trains(case)


BAD = {
    "--loss.target_subset 3": "--loss.target_subset: must not exceed num_qvalue_nets (2), got 3",
    "--update.order [joint,actor,target] --update.periods {}": "already holds every loss",
    "--replay.n_steps 3 --replay.slice_length 4 --env.frame_stack 2"
    " --loss.schedules.gamma {9: 0.9}": "--replay.n_steps: must be 1 with env.frame_stack, "
    "replay.slice_length, a schedule of loss.gamma",
    "--replay.n_steps 3 --collector.learning_starts 2": "samples need at least 3, got 2",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    SAC.assert_refused(capsys, workplace, arguments, message)
