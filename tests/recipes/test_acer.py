"""The recipe of ACER as a user runs it: real environments and real files."""

import shlex

import pandas as pd
import pytest
import torch

from rlkit_sac.modules import BehaviorPolicy
from rlkit_sac.runs import export_policy, load_policy
from tests.recipes.running import ACER, assert_policy_repeats_the_last_evaluation, each_case
from tests.reliability.runs import newest, replay_of


def test_a_run_logs_policy_critic_and_trust_region(workplace):
    columns = ["loss_actor", "loss_critic", "loss_entropy", "kl", "entropy", "value", "ratio"]
    columns += ["truncated", "projected", "q_mean", "target_mean", "grad_norm_all"]
    # 12 batches of 10 frames, each with an update; from the fifth on two of replay besides.
    options = ("--update.poisson", "false")
    left = ACER.assert_leaves(workplace, "CartPole-v1", columns, *options, updates=12 + 8 * 2)
    assert isinstance(left["policy"].policy, BehaviorPolicy)  # around it: normalized observations


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


PUBLISHED = (
    "--normalization.observations false --normalization.rewards false"
    " --network.critic_layer_norm false --update.optimizer rmsprop"
)
SHARED = "--network.shared_trunk true --network.critic_layer_norm false"
HALVES = {
    "random frames": (40, "--env.id Pendulum-v1 --collector.init_random_frames 20"),
    "shared trunk": (40, SHARED),  # test_memory.py has a quick one
    "one environment": (40, "--env.num_envs 1 --update.schedules '{lr: {20: 0.001, 70: 0}}'"),
    "schedule": (40, "--loss.schedules '{beta: {20: 0.1, 60: 0}}'"),
    "discrete": (40, ""),
    "published": (40, PUBLISHED),
    "published, continuous": (40, f"--env.id Pendulum-v1 {PUBLISHED}"),
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
    "memory": "--network.memory gru --replay.burn_in 1",
}


@each_case(VARIANTS)
def test_variants_train(workplace, case):
    ACER.assert_trains(case)


def test_statistics_are_of_the_frames_collected_and_the_policy_carries_them(workplace):
    run = ACER.train("--collector.init_random_frames", "20")
    checkpoint = newest(run)
    state, seen = checkpoint.state()["loss"], replay_of(run, checkpoint)['"observation"'].double()
    statistics = {
        name: state[f"observation_normalizer.statistics.{name}"]
        for name in ("count", "mean", "deviations")
    }
    wanted = {"count": torch.tensor(120), "mean": seen.mean(0)}
    wanted["deviations"] = 120 * seen.var(0, correction=0)
    torch.testing.assert_close(statistics, wanted)
    assert state["reward_normalizer.statistics.count"] == 120
    assert_policy_repeats_the_last_evaluation(run)
    policy = load_policy(run)
    torch.testing.assert_close(policy.normalizer.statistics.mean, wanted["mean"])
    export_policy(run, run / "policy.pt2", format="torch")
    (exported,) = torch.export.load(run / "policy.pt2").module()(seen.float())
    assert exported.tolist() == policy.act(seen.float().numpy()).tolist()


def test_an_on_policy_update_is_of_the_policy_that_acted(workplace):
    """The policy changes with the statistics alone, and always after the update."""
    fixed = "--update.n_times_replay 0 --update.lr 1e-30"
    run = ACER.train(*fixed.split(), "--logging.interval", "120", "--checkpoint.interval", "120")
    stored = replay_of(run, newest(run))['["behavior", "logits"]'].log_softmax(-1)
    entropy = -(stored.exp() * stored).sum(-1).mean()
    found = pd.read_csv(run / "metrics.csv")["entropy"].iloc[-1]
    assert found == pytest.approx(float(entropy), rel=1e-6)


BAD = {
    "--network.shared_trunk true": "network.critic_layer_norm: must be false where shared_trunk is "
    "true",
    "--workers.number 2 --workers.mode async": "normalization.rewards: must be false where "
    "workers.mode is async",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    ACER.assert_refused(capsys, workplace, arguments, message)
