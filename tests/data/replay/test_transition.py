import pytest
import torch

from rlkit_sac.data import example_transition
from rlkit_sac.envs import make_env
from rlkit_sac.modules import RandomBehavior
from tests.recurrent_policies import recurrent_gaussian

KEYS = ["observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done")]


@pytest.mark.parametrize("num_envs", [1, 3])
def test_it_is_one_frame_of_what_the_environment_gives(num_envs: int) -> None:
    env = make_env("Pendulum-v1", num_envs=num_envs)
    example = example_transition(env, KEYS)
    frame = env.rand_step(env.reset())
    env.close()
    if num_envs > 1:
        frame = frame[0]
    assert example.batch_size == torch.Size([])
    assert set(example.keys(True, True)) == set(KEYS)
    for key in KEYS:
        assert example[key].shape == frame[key].shape
        assert example[key].dtype == frame[key].dtype
        assert not example[key].any()


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_policy_adds_what_it_writes_and_draws_nothing(num_envs: int) -> None:
    env = make_env("Pendulum-v1", num_envs=num_envs)
    keys = ["action", ("behavior", "loc"), ("behavior", "scale")]
    policy = RandomBehavior(env.full_action_spec_unbatched["action"])
    before = torch.get_rng_state()
    example = example_transition(env, keys, random_policy=policy)
    assert torch.equal(torch.get_rng_state(), before)
    assert {key: example[key].shape for key in keys} == dict.fromkeys(keys, torch.Size([1]))


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_state_of_a_policy_is_an_entry_of_zeros(num_envs: int) -> None:
    env = make_env("Pendulum-v1", num_envs=num_envs)
    policy = recurrent_gaussian("gru")
    before = torch.get_rng_state()
    example = example_transition(env, ["actor_state", "loc"], policy=policy)
    assert torch.equal(torch.get_rng_state(), before)
    assert set(example.keys()) == {"actor_state", "loc"}
    assert example["actor_state"].shape == (1, 8)
    assert not example["actor_state"].any()
    assert example["loc"].shape == (1,)
