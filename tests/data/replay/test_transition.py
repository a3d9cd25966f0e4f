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
def test_policies_add_what_they_write_and_draw_nothing(num_envs: int) -> None:
    env = make_env("Pendulum-v1", num_envs=num_envs)
    behavior = ["action", ("behavior", "loc"), ("behavior", "scale")]
    before = torch.get_rng_state()
    for keys, shapes, policies in (
        (behavior, [(1,)] * 3, {"random_policy": RandomBehavior(env.action_spec_unbatched)}),
        (["actor_state", "loc"], [(1, 8), (1,)], {"policy": recurrent_gaussian("gru")}),
    ):
        torch.set_rng_state(before)
        example = example_transition(env, keys, **policies)
        assert torch.equal(torch.get_rng_state(), before)
        assert [example[key].shape for key in keys] == shapes
    assert not example["actor_state"].any()
