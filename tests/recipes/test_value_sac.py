"""The recipe with a value network as a user runs it: real environments and real files."""

from tests.recipes.running import VALUE, each_case


def test_a_run_logs_the_value_network(workplace):
    columns = ["loss_value", "v_mean", "v_min", "v_max", "grad_norm_value"]
    VALUE.assert_leaves(workplace, "Pendulum-v1", columns, "--network.tanh_loc", "true")


def test_a_run_that_stops_and_goes_on_is_the_run_that_never_stopped(workplace, capsys):
    order = ["--update.order", "[alpha,actor,target,qvalue,value]"]
    order += ["--update.periods", "{actor: 2, target: 2}", "--update.recompute", "[actor]"]
    schedules = ["--update.schedules", "{lr_value: {30: 0.001, 66: 0}}"]
    schedules += ["--loss.schedules", "{reward_scale: {20: 1, 55: 0.1}}"]
    VALUE.assert_resumes_exactly(capsys, 33, *order, *schedules)


VARIANTS = {
    "normalization, priorities, dropout": "--normalization.observations true"
    " --normalization.rewards true --replay.prioritized true --network.critic_dropout 0.1"
    " --network.critic_layer_norm true --loss.policy_reduction mean",
    "the notebook's order and networks": "--update.order [alpha,actor,target,qvalue,value]"
    " --update.periods {actor: 2, target: 2} --update.recompute [actor] --logging.interval 1"
    " --network.log_std_mode tanh --network.tanh_loc true"
    " --network.output_init 0.003",
    "every loss option": "--loss.num_qvalue_nets 3 --loss.dqda_clipping 1"
    " --loss.normalize_entropy_reward true --loss.policy_loss_steps next"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.target_entropy -0.5 --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
}


@each_case(VARIANTS)
def test_variants_train(workplace, case):
    VALUE.assert_trains(case)
