"""The recipe of discrete SAC as a user runs it, on CartPole-v1."""

import pytest

from rlkit_sac.modules import BoltzmannPolicy
from tests.recipes.running import DISCRETE, each_case


def test_a_run_without_actor_has_no_loss_and_no_step_of_one(workplace):
    columns = ["loss_qvalue", "loss_alpha", "alpha", "entropy", "grad_norm_alpha"]
    left = DISCRETE.assert_leaves(workplace, "CartPole-v1", columns)
    assert not [name for name in left["columns"] if "actor" in name]
    # p (log(K - 1) - log p) - (1 - p) log(1 - p) of K = 2 actions and p = 0.05
    assert left["target_entropy"] == pytest.approx(0.198515, abs=1e-6)
    assert isinstance(left["policy"], BoltzmannPolicy)


def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys):
    DISCRETE.assert_resumes_exactly(capsys, 35)


VARIANTS = {
    "steps in turn": "--update.order [alpha,qvalue,target] --update.periods {alpha: 2}",
    "steps in turn with an actor": "--actor true --update.order [qvalue,actor,alpha,target]"
    " --update.recompute true",
    "every loss option": "--loss.num_qvalue_nets 3 --loss.discrete_entropy sampled"
    " --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.target_entropy 0.5 --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
    "normalization, priorities": "--normalization.observations true --replay.prioritized true"
    " --normalization.rewards bounded --network.critic_atoms 11",
    "more actions": "--env.id Acrobot-v1 --evaluation.episodes 1 --env.max_episode_steps 100",
}


@each_case(VARIANTS, slow=["steps in turn"])
def test_variants_train(workplace, case):
    DISCRETE.assert_trains(case)
