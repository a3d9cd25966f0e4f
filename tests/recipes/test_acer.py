"""The recipe of ACER as a user runs it: real environments and real files."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.modules import BehaviorPolicy
from rlkit_sac.runs import load_policy
from tests.recipes.loading import config_files
from tests.recipes.running import Recipe
from tests.reliability.runs import newest, replay_of

SHORT = shlex.split("""
    --collector.total_frames 250 --collector.t_max 5 --env.num_envs 2 --replay.batch_size 4
    --update.n_times_replay 2 --update.replay_start_size 50 --network.num_cells [16,16]
    --evaluation.interval 125 --evaluation.episodes 2 --logging.interval 50
    --logging.progress false
""")
ACER = Recipe("acer", "ACERConfig", tuple(SHORT), loss="loss_critic", early=())
PENDULUM = ("--env.id", "Pendulum-v1")


def updates(*arguments: str) -> int:
    return json.loads((ACER.train(*arguments) / "run.json").read_text())["updates"]


def test_a_run_logs_policy_critic_and_trust_region(workplace):
    run = ACER.train("--update.poisson", "false")
    assert run.parent == workplace / "runs" / "acer" / "CartPole-v1"
    metrics = pd.read_csv(run / "metrics.csv")
    columns = ["loss_actor", "loss_critic", "loss_entropy", "kl", "entropy", "value", "ratio"]
    columns += ["truncated", "projected", "q_mean", "target_mean", "grad_norm_all"]
    assert np.isfinite(metrics[columns]).all().all()
    info = json.loads((run / "run.json").read_text())
    # 25 batches of 10 frames, each with an update; from the fifth on two of replay besides.
    assert (info["status"], info["frames"], info["updates"]) == ("finished", 250, 25 + 21 * 2)
    assert isinstance(load_policy(run), BehaviorPolicy)


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


def test_replay_and_fresh_segments_can_be_left_out(workplace):
    assert updates("--update.n_times_replay", "0") == 25
    fixed = ("--update.poisson", "false", "--update.disable_online_update", "true")
    assert updates(*fixed) == 21 * 2


def test_the_number_of_replays_is_random_with_the_mean_asked_for(workplace):
    options = ("--update.disable_online_update", "true", "--update.n_times_replay", "4")
    made = updates(*options, "--update.replay_start_size", "0")
    assert made != 4 * 25
    assert made == pytest.approx(4 * 25, abs=4 * (4 * 25) ** 0.5)


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("kind", ["light", pytest.param("torchrl", marks=pytest.mark.slow)])
def test_random_frames_are_stored_with_their_distribution_and_have_no_on_policy_update(
    workplace, kind, task
):
    run = ACER.train(
        *("--env.id", task, "--collector.kind", kind, "--collector.init_random_frames", "95"),
        *("--update.n_times_replay", "0"),
    )
    assert json.loads((run / "run.json").read_text())["updates"] == 15
    stored = replay_of(run, newest(run))
    if task == "CartPole-v1":
        logits = stored['["behavior", "logits"]']
        assert (logits[:100] == 0).all()
        assert not (logits[100:] == 0).any()
        return
    loc, scale = (stored[f'["behavior", "{name}"]'] for name in ("loc", "scale"))
    assert (loc[:100] == 0).all()
    assert (scale[:100] == 1).all()
    assert not (loc[100:] == 0).any()
    assert (scale > 0).all()


@pytest.mark.parametrize(
    ("task", "shared"),
    [
        ("CartPole-v1", "true"),
        ("Pendulum-v1", "false"),
        pytest.param("CartPole-v1", "false", marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", "true", marks=pytest.mark.slow),
    ],
)
def test_the_saved_policy_repeats_the_last_evaluation(workplace, task, shared):
    ACER.assert_policy_repeats_the_last_evaluation(
        "--env.id", task, "--network.shared_trunk", shared
    )


@pytest.mark.slow  # the same code as in test_sac.py
def test_a_seed_gives_the_same_tables_again(workplace):
    ACER.assert_seed_decides()


@pytest.mark.slow  # the same code as in test_sac.py
def test_evaluation_does_not_change_the_training(workplace):
    ACER.assert_evaluation_leaves_training_alone()


@pytest.mark.parametrize(
    ("half", "options"),
    [
        pytest.param(  # test_memory.py has a quick one
            100, ["--network.shared_trunk", "true"], id="shared trunk", marks=pytest.mark.slow
        ),
        pytest.param(130, [*PENDULUM, "--collector.init_random_frames", "50"], id="random frames"),
        pytest.param(
            125,
            ["--update.schedules", "{lr: {50: 0.001, 200: 0}}", "--env.num_envs", "1"],
            id="one environment",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            100,
            ["--loss.schedules", "{beta: {50: 0.1, 150: 0}}", "--collector.kind", "torchrl"],
            id="torchrl",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys, half, options):
    ACER.assert_resumes_exactly(capsys, half, *options)


def test_a_run_whose_replay_is_full_goes_on_exactly(workplace, capsys):
    """The oldest batch is overwritten in part, and so are episodes."""
    ACER.assert_resumes_exactly(capsys, 100, "--replay.capacity", "55", capacity=55)


VARIANTS = {
    "every loss option": "--loss.use_q_opc true"
    " --loss.trust_region_space probs --loss.truncation_threshold 1 --loss.policy_coef 0.5"
    " --loss.critic_coef 1 --loss.trust_region_delta 0.1 --loss.beta 0.1",
    "no trust region, no truncation": "--loss.use_trust_region false"
    " --loss.truncation_threshold null --update.max_grad_norm null",
    "sums of losses": "--loss.normalize_loss_by_steps false --update.lr 0.0001",
    "continuous": "--env.id Pendulum-v1 --loss.trust_region_space loc_scale"
    " --network.num_samples 3 --network.log_std_mode tanh --network.log_std_min -3",
    "files": "--replay.storage memmap --collector.t_max 25",
    "single frames": "--collector.t_max 1 --env.num_envs 5",
    "samples in evaluation": "--evaluation.epsilon 0.5",
}
# The same code as in test_sac.py.
OF_OTHERS = ("samples in evaluation",)


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(options, id=name, marks=[pytest.mark.slow] * (name in OF_OTHERS))
        for name, options in VARIANTS.items()
    ],
)
def test_variants_train(workplace, variant):
    ACER.assert_trains(variant)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_updates_are_compiled(workplace, recwarn, task):
    ACER.assert_trains(f"--env.id {task} --compile true")
    assert not [each for each in recwarn if "uncompiled" in str(each.message)]


def test_a_warm_start_takes_actor_and_critic_along(workplace):
    run = ACER.train("--collector.total_frames", "50")
    ACER.train("--warm_start.run", str(run), "--warm_start.modules", "[actor,critic]")


def test_runs_go_on_as_what_they_are(workplace, capsys):
    run = ACER.train("--collector.total_frames", "50")
    discrete = Recipe("discrete_sac", "DiscreteSACConfig")
    discrete.assert_refused(
        capsys, workplace, f"--resume {run}", "has options that this recipe lacks (collector.t_max,"
    )
    short = ("--collector.total_frames", "4", "--collector.learning_starts", "4")
    sac = Recipe("sac", "SACConfig").run(*short, "--logging.progress", "false")
    assert "warning: no update in 4 frames" in capsys.readouterr().err
    code, error = Recipe("value_sac", "ValueSACConfig").stop(
        capsys, "--resume", str(sac), "--collector.total_frames", "8"
    )
    assert (code, error.count("\n")) == (2, 1)
    assert "is a run of recipes/sac.py: resume it with that recipe" in error
    code, error = ACER.stop(capsys, "--resume", str(run), "--loss.gamma", "0.5")
    assert code == 2
    assert (
        "only collector.total_frames, workers.address, workers.publish_interval, "
        "workers.restarts, workers.patience, workers.cpus, evaluation, update.lr, "
        "update.schedules, device" in error
    )
    other = f"--warm_start.run {run} --network.num_cells [16,16] --network.shared_trunk true"
    ACER.assert_refused(capsys, workplace, other, "is missing there and")


BAD = {
    "--env.id Platform-v0": "acts in discrete or in continuous spaces, but the actions are",
    "--env.id broken_envs:Vector-v0": "from one number, but the reward has 2 dimensions",
    "--loss.trust_region_space loc_var": "must be one of 'logits', 'log_probs', 'probs'",
    "--env.id Pendulum-v1 --loss.trust_region_space probs": (
        "trust_region_space: trust_region_space must be one of 'loc_var', 'loc_scale'"
    ),
    "--network.shared_trunk true --network.num_cells []": "must not be empty where shared_trunk",
    "--update.replay_start_size 641 --collector.total_frames 500 "
    "--update.disable_online_update true": ("or nothing is learned, got 641"),
    "--loss.schedules {betta: {0: 1}}": "did you mean beta?",
    "--update.n_times_replay 1.5 --update.poisson false": "must be a whole number unless poisson",
    "--update.n_times_replay 0 --update.disable_online_update true": "or nothing is learned",
    "--update.lr_actor 0.1": "--update.lr_actor: unknown option; did you mean --update.lr",
    "--update.utd_ratio 1": "--update.utd_ratio: unknown option",
    "--replay.capacity 319": "must hold two batches of env.num_envs x collector.t_max frames (320)",
    "--replay.prioritized true": "--replay.prioritized: unknown option",
    "--normalization.rewards true": "--normalization.rewards: unknown option",
    "--warm_start.modules [qvalue]": "--warm_start.modules: must be 'actor' or 'critic'",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    ACER.assert_refused(capsys, workplace, arguments, message)


@pytest.mark.parametrize("path", config_files("acer"), ids=lambda path: path.stem)
def test_every_configuration_parses_and_names_its_command(path):
    ACER.assert_config_file(path)
