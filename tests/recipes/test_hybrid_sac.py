"""The recipe of hybrid SAC as a user runs it, on the package's tasks."""

import pytest
from tensordict.nn import TensorDictSequential

from rlkit_sac.config import PriorConfig
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import categorical_actor, tanh_gaussian_actor
from rlkit_sac.runs import make_prior, save_policy
from tests.recipes.running import HYBRID, each_case


def test_a_run_reports_both_parts_of_the_action(workplace):
    columns = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha_discrete", "alpha_continuous"]
    columns += ["entropy_discrete", "entropy_continuous"]
    left = HYBRID.assert_leaves(workplace, "Platform-v0", columns)
    # K = 3 and three dimensions in [-1, 1], both with p = 0.1
    assert left["target_entropy_discrete"] == pytest.approx(0.394398, abs=1e-6)
    assert left["target_entropy_continuous"] == pytest.approx(3 * -1.609438, abs=1e-5)
    assert {("action", "continuous"), ("action", "discrete")} < set(left["policy"].out_keys)


def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys):
    masked = ["--loss.parameter_mask", "true", "--loss.mask_critics", "true"]
    masked += ["--network.critic_action_layer", "last"]
    HYBRID.assert_resumes_exactly(capsys, 35, *masked)


VARIANTS = {
    "every loss option": "--loss.num_qvalue_nets 3 --loss.discrete_entropy sampled"
    " --loss.dqda_clipping 1 --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.min_alpha 0.01 --loss.max_alpha [2, null] --loss.target_entropy [0.5, -2]"
    " --loss.parameter_mask true --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
    "own units, normalization, priorities": "--env.rescale_actions false"
    " --normalization.observations true --replay.prioritized true"
    " --normalization.rewards bounded --network.critic_atoms 11",
    "shared parameters": "--env.id Moving-v0",
    "many discrete actions": "--env.id HardMove-v0 --env.kwargs {num_actuators: 5}",
}


@each_case(VARIANTS)
def test_variants_train(workplace, case):
    HYBRID.assert_trains(case)


def test_a_prior_of_a_policy_must_fit_the_parts_of_the_action(workplace, tmp_path):
    def actor(bound, num_actions):
        keys = [("action", "continuous"), ("action", "discrete")]
        return TensorDictSequential(
            tanh_gaussian_actor(9, [-bound] * 3, [bound] * 3, num_cells=[8], action_key=keys[0]),
            categorical_actor(9, num_actions, num_cells=[8], action_key=keys[1]),
        )

    env, config = make_env("Platform-v0"), PriorConfig(kind="policy", run=str(tmp_path))
    save_policy(tmp_path, actor(1.0, 3))
    assert make_prior(config, env) is not None
    targets = "--loss.target_kld_discrete 0.2 --loss.target_kld_per_dim 1"
    HYBRID.assert_trains(f"--prior.kind policy --prior.run {tmp_path} {targets}")
    for wrong, words in (
        (actor(30.0, 3), "choose env.rescale_actions"),
        (actor(1.0, 4), "4 discrete"),
    ):
        save_policy(tmp_path, wrong)
        with pytest.raises(ConfigError, match=words):
            make_prior(config, env)
