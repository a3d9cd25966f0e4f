"""The recipe of discrete SAC as a user runs it, on CartPole-v1."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from rlkit_sac.modules import BoltzmannPolicy
from rlkit_sac.runs import load_policy
from tests.recipes.loading import config_files
from tests.recipes.running import Recipe

DISCRETE = Recipe("discrete_sac", "DiscreteSACConfig")


def test_a_run_without_actor_has_no_loss_and_no_step_of_one(workplace):
    run = DISCRETE.train()
    assert run.parent == workplace / "runs" / "discrete_sac" / "CartPole-v1"
    columns = pd.read_csv(run / "metrics.csv").columns
    assert {"loss_qvalue", "loss_alpha", "alpha", "entropy", "grad_norm_alpha"} <= set(columns)
    assert not [name for name in columns if "actor" in name]
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["frames"], info["updates"]) == ("finished", 250, 60)
    # p (log(K - 1) - log p) - (1 - p) log(1 - p) of K = 2 actions and p = 0.1
    assert info["target_entropy"] == pytest.approx(0.325083, abs=1e-6)
    assert isinstance(load_policy(run), BoltzmannPolicy)


def test_an_actor_is_trained_and_saved_where_it_is_asked_for(workplace):
    run = DISCRETE.train("--actor", "true", "--loss.target_entropy", "scaled_log_k")
    last = pd.read_csv(run / "metrics.csv").iloc[-1]
    assert math.isfinite(last["loss_actor"])
    assert last["grad_norm_actor"] > 0
    info = json.loads((run / "run.json").read_text())
    assert info["target_entropy"] == pytest.approx(0.98 * math.log(2), abs=1e-6)
    assert "logits" in load_policy(run).out_keys


@pytest.mark.parametrize("actor", ["false", "true"])
def test_the_saved_policy_repeats_the_last_evaluation(workplace, actor):
    DISCRETE.assert_policy_repeats_the_last_evaluation("--actor", actor)


@pytest.mark.slow  # the same code as in test_sac.py
def test_a_seed_gives_the_same_tables_again(workplace):
    DISCRETE.assert_seed_decides()


@pytest.mark.slow  # the same code as in test_sac.py
def test_evaluation_does_not_change_the_training(workplace):
    DISCRETE.assert_evaluation_leaves_training_alone()


@pytest.mark.parametrize("half", [pytest.param(200, marks=pytest.mark.slow), 70])
def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys, half):
    DISCRETE.assert_resumes_exactly(capsys, half)


@pytest.mark.slow  # test_memory.py has a quick one
def test_a_run_that_sees_some_entries_resumes_with_them(workplace, capsys):
    DISCRETE.assert_resumes_exactly(capsys, 70, "--env.observation_indices", "[2, 0]")


def test_a_policy_of_many_updates_is_rebuilt(workplace):
    """By the mean of critics with dropout, on normalized observations."""
    DISCRETE.assert_policy_repeats_the_last_evaluation(
        *("--network.critic_dropout", "0.1", "--network.critic_layer_norm", "true"),
        *("--loss.num_qvalue_nets", "3", "--loss.target_subset", "2"),
        *("--loss.policy_reduction", "mean", "--normalization.observations", "true"),
    )


VARIANTS = {
    "two environments": "--env.num_envs 2 --collector.frames_per_batch 10",
    "fixed alpha": "--loss.fixed_alpha true --loss.alpha_init 0.2",
    "steps in turn": "--update.order [alpha,qvalue,target] --update.periods {alpha: 2}",
    "steps in turn with an actor": "--actor true --update.order [qvalue,actor,alpha,target]"
    " --update.recompute true",
    "every loss option": "--loss.num_qvalue_nets 3 --loss.discrete_entropy sampled"
    " --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.target_entropy 0.5 --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
    "normalization, priorities": "--normalization.observations true --normalization.rewards true"
    " --replay.prioritized true",
    "samples in evaluation": "--evaluation.epsilon 0.5",
    "more actions": "--env.id Acrobot-v1 --evaluation.episodes 1 --env.max_episode_steps 100",
}


# The same code as in test_sac.py.
OF_OTHERS = ("two environments", "fixed alpha", "steps in turn", "samples in evaluation")


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(variant, id=name, marks=[pytest.mark.slow] * (name in OF_OTHERS))
        for name, variant in VARIANTS.items()
    ],
)
def test_variants_train(workplace, variant):
    DISCRETE.assert_trains(variant)


BAD = {
    "--env.id Pendulum-v1": "acts in discrete spaces, but the actions are a Box of shape (1,)",
    "--env.id Platform-v0": "at once: the recipe hybrid_sac trains this task",
    "--loss.target_entropy neg_dim": "--loss.target_entropy: must be a valid number or 'auto'",
    "--loss.min_alpha 2 --loss.max_alpha 1": "must not exceed max_alpha (1.0), got 2.0",
    "--loss.dqda_clipping 1": "--loss.dqda_clipping: unknown option",
    "--network.log_std_min -5": "--network.log_std_min: unknown option",
    "--update.order [alpha,target]": "must also name 'qvalue' for the policy to learn",
    "--update.order [qvalue,actor,target]": "there is none: set actor to true",
    "--update.order [qvalue,target] --actor true": "must also name 'actor'",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    DISCRETE.assert_refused(capsys, workplace, arguments, message)


@pytest.mark.parametrize("path", config_files("discrete_sac"), ids=lambda path: path.stem)
def test_every_configuration_parses_and_names_its_command(path):
    DISCRETE.assert_config_file(path)
