from collections.abc import Callable

import pytest
import torch
from gymnasium.spaces import Box, Discrete, Tuple
from torchrl.envs.utils import check_env_specs

from rlkit_sac.envs import make_env


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_a_partial_reset_touches_only_the_environments_that_are_reset(env_id: str) -> None:
    env = make_env(env_id, num_envs=3)
    action = env.full_action_spec["action"].one()
    _, state = env.step_and_maybe_reset(env.reset().set("action", action))
    assert torch.equal(state["prev_action"], action)
    state["_reset"] = torch.tensor([[False], [True], [False]])
    previous = env.reset(state)["prev_action"]
    assert torch.equal(previous.reshape(3), torch.tensor([1, 0, 1], dtype=action.dtype))


HYBRID = Tuple([Discrete(3), Box(-1.0, 1.0, (2,))])


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_nested_action_is_mirrored_entry_by_entry(
    register: Callable[..., str], num_envs: int
) -> None:
    torch.manual_seed(0)
    env = make_env(register(HYBRID), num_envs=num_envs, max_episode_steps=7)
    check_env_specs(env)
    steps = env.rollout(30, break_when_any_done=False).reshape(num_envs, 30)
    start = steps["is_init"].squeeze(-1)
    assert start.sum() == 5 * num_envs
    for part in ("discrete", "continuous"):
        action, previous = steps["action", part], steps["prev_action", part]
        assert (previous.dtype, previous.shape) == (action.dtype, action.shape)
        assert torch.equal(steps["next", "prev_action", part], action)
        assert not previous[start].any()
        assert torch.equal(previous[:, 1:][~start[:, 1:]], action[:, :-1][~start[:, 1:]])
