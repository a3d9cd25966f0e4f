"""Every recipe with a memory: exact resume in the middle of episodes, and what is refused."""

import shlex

import pandas as pd
import torch

from rlkit_sac.envs import make_env
from rlkit_sac.modules import policy_states, state_primer
from rlkit_sac.runs import load_policy
from tests.recipes.running import ACER, DISCRETE, HYBRID, PRIOR, SAC, VALUE, each_case

ROWS = "--replay.slice_length 6 --replay.burn_in 2 --replay.store_state true --replay.batch_size 4"
GRU, LSTM = f"--network.memory gru {ROWS}", f"--network.memory lstm {ROWS}"


CASES = {
    "sac": (SAC, 36, f"{GRU} --env.observation_indices [0,1]"),
    "sac, two": (SAC, 36, f"{LSTM} --env.num_envs 2 --network.memory_layers 2"),
    "discrete": (DISCRETE, 36, f"{LSTM} --env.num_envs 2 --normalization.observations true"),
    "actor": (DISCRETE, 33, f"{GRU} --actor true --update.order [actor,qvalue,alpha,target]"),
    "hybrid": (HYBRID, 33, f"{GRU} --loss.parameter_mask true --env.id Platform-v0"),
    "value": (VALUE, 33, f"{GRU} --replay.store_state false --loss.lmbda 0.7"),
    "prior": (PRIOR, 33, f"{GRU} --prior.kind same_action"),
    "acer": (
        ACER,
        40,
        "--network.memory lstm --replay.store_state true --replay.burn_in 1"
        " --network.shared_trunk true --network.critic_layer_norm false",
    ),
    "acer, continuous": (ACER, 40, "--network.memory gru --env.id Pendulum-v1"),
}


@each_case(CASES, slow=CASES.keys() - {"sac", "acer"})
def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys, case):
    recipe, half, options = case
    recipe.assert_resumes_exactly(capsys, half, *shlex.split(options))


def test_the_policy_of_a_run_carries_its_state_in_an_environment(workplace):
    run = DISCRETE.train(*shlex.split(GRU))
    policy = load_policy(run)
    assert policy_states(policy) == {"critic_state": torch.Size([2, 1, 64])}
    env = make_env("CartPole-v1").append_transform(state_primer(policy))
    rollout = env.rollout(10, policy)
    state, after = rollout["critic_state"], rollout["next", "critic_state"]
    assert (state[0] == 0).all()
    assert torch.equal(after[:-1], state[1:])
    assert (after != 0).any(-1).all()
    evaluations = pd.read_csv(run / "evaluations.csv")
    assert list(evaluations["frames"]) == [60, 120]
