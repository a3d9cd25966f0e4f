"""The recipe of ACER as a user runs it: real environments and real files."""

import shlex

import pandas as pd
import pytest

from rlkit_sac.modules import BehaviorPolicy
from tests.recipes.running import ACER, assert_policy_repeats_the_last_evaluation, each_case


def test_a_run_logs_policy_critic_and_trust_region(workplace):
    columns = ["loss_actor", "loss_critic", "loss_entropy", "kl", "entropy", "value", "ratio"]
    columns += ["truncated", "projected", "q_mean", "target_mean", "grad_norm_all"]
    # 12 batches of 10 frames, each with an update; from the fifth on two of replay besides.
    options = ("--update.poisson", "false")
    left = ACER.assert_leaves(workplace, "CartPole-v1", columns, *options, updates=12 + 8 * 2)
    assert isinstance(left["policy"], BehaviorPolicy)


def test_fresh_segments_are_scored_as_on_policy_and_replayed_ones_as_off_policy(workplace):
    low = ("--loss.truncation_threshold", "0.5")  # which every ratio of about 1 is above
    fresh = pd.read_csv(ACER.train("--update.n_times_replay", "0", *low) / "metrics.csv")
    assert (fresh["ratio"] == 1).all()
    assert (fresh["truncated"] == 0).all()
    alone = ("--update.disable_online_update", "true", "--update.poisson", "false", *low)
    replayed = pd.read_csv(ACER.train(*alone, "--update.lr", "0.01") / "metrics.csv").dropna()
    assert (replayed["ratio"] != 1).all()
    assert (replayed["truncated"] > 0).all()
    # With one of each kind in every batch of frames, each has half of the mean.
    both = ("--update.n_times_replay", "1", "--update.poisson", "false", *low)
    last = pd.read_csv(ACER.train(*both) / "metrics.csv").iloc[-1]
    assert last["truncated"] == pytest.approx(0.5, abs=0.1)


def test_continuous_actions_by_two_networks(workplace):
    options = "--loss.trust_region_space loc_scale --network.num_samples 3"
    options += " --network.log_std_mode tanh --network.log_std_min -3"
    assert_policy_repeats_the_last_evaluation(
        ACER.assert_trains(f"--env.id Pendulum-v1 --network.shared_trunk false {options}")
    )


HALVES = {
    "random frames": (40, "--env.id Pendulum-v1 --collector.init_random_frames 20"),
    "shared trunk": (40, "--network.shared_trunk true"),  # test_memory.py has a quick one
    "one environment": (40, "--env.num_envs 1 --update.schedules '{lr: {20: 0.001, 70: 0}}'"),
    "schedule": (40, "--loss.schedules '{beta: {20: 0.1, 60: 0}}'"),
}


@each_case(HALVES, slow=("shared trunk", "one environment", "schedule"))
def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys, case):
    half, options = case
    ACER.assert_resumes_exactly(capsys, half, *shlex.split(options))


VARIANTS = {
    "every loss option": "--loss.use_q_opc true"
    " --loss.trust_region_space probs --loss.truncation_threshold 1 --loss.policy_coef 0.5"
    " --loss.critic_coef 1 --loss.trust_region_delta 0.1 --loss.beta 0.1",
    "no trust region, no truncation": "--loss.use_trust_region false"
    " --loss.truncation_threshold null --update.max_grad_norm null",
    "sums of losses, files": "--loss.normalize_loss_by_steps false --update.lr 0.0001"
    " --replay.storage memmap --collector.t_max 20",
    "single frames": "--collector.t_max 1 --env.num_envs 5",
}


@each_case(VARIANTS)
def test_variants_train(workplace, case):
    ACER.assert_trains(case)
