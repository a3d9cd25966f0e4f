"""The environments of MO-Gymnasium, by way of `make_env`."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import mo_gymnasium
import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError

CHEETAH, TREASURE = "mo-halfcheetah-v5", "mo_gymnasium:deep-sea-treasure-v0"


def follow(env: EnvBase, actions: torch.Tensor) -> TensorDict:
    """What comes of actions ``[T, *]``, resets included."""
    state, steps = env.reset(), []
    for action in actions:
        step, state = env.step_and_maybe_reset(state.set("action", action))
        steps.append(step)
    return torch.stack(steps)


def test_weighted_rewards_of_the_cheetah_are_those_of_the_scalar_task() -> None:
    actions = 2 * torch.rand(150, 6, generator=torch.Generator().manual_seed(0)) - 1
    vector, scalar = (
        follow(make_env(env_id, seed=3, max_episode_steps=60), actions)
        for env_id in (CHEETAH, "HalfCheetah-v5")
    )
    assert torch.equal(vector["next", "observation"], scalar["next", "observation"])
    assert vector["next", "truncated"].sum() == 2
    for key in ("done", "terminated", "truncated"):
        assert torch.equal(vector["next", key], scalar["next", key])
    weighted = vector["next", "reward"] @ torch.tensor([1.0, 0.1])
    torch.testing.assert_close(weighted, scalar["next", "reward"].squeeze(-1), rtol=0, atol=1e-6)
    sums = vector["next", "episode_reward"] @ torch.tensor([1.0, 0.1])
    wanted = scalar["next", "episode_reward"].squeeze(-1)
    torch.testing.assert_close(sums, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("env_id", "dims"), [(CHEETAH, 2), (TREASURE, 2), ("mo-mountaincar-v0", 3)]
)
def test_rewards_are_vectors_that_are_summed_by_dimension(env_id: str, dims: int) -> None:
    torch.manual_seed(0)
    env = make_env(env_id, max_episode_steps=20)
    check_env_specs(env)
    steps = make_env(env_id, max_episode_steps=20).rollout(20)
    rewards = steps["next", "reward"]
    assert (rewards.dtype, rewards.shape) == (torch.float32, (len(steps), dims))
    torch.testing.assert_close(steps["next", "episode_reward"], rewards.cumsum(0))
    assert steps["next", "done"].shape == (len(steps), 1)
    assert steps["next", "done"][-1]


def test_the_treasure_ends_the_episode_with_what_it_is_worth() -> None:
    down = torch.ones(1, dtype=torch.int64)
    steps = follow(make_env(TREASURE), down)
    np.testing.assert_allclose(steps["next", "reward"], [[0.7, -1.0]], rtol=1e-6)
    assert steps["next", "terminated"].item()


def test_several_environments_give_what_each_gives_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    actions = 2 * torch.rand(30, 2, 6, generator=generator) - 1
    both = follow(make_env(CHEETAH, num_envs=2, seed=5, max_episode_steps=12), actions)
    assert both["next", "reward"].shape == (30, 2, 2)
    # The first of them is the environment that is alone.
    alone = follow(make_env(CHEETAH, seed=5, max_episode_steps=12), actions[:, 0])
    for key in ("reward", "episode_reward", "observation", "done"):
        assert torch.equal(both["next", key][:, 0], alone["next", key])
    assert not torch.equal(both["next", "reward"][:, 0], both["next", "reward"][:, 1])


def test_an_id_with_the_prefix_needs_no_module() -> None:
    """In a process of its own, where nothing has registered the environments yet."""
    code = (
        "import gymnasium, warnings; warnings.simplefilter('error', UserWarning);"
        "from rlkit_sac.envs import make_env;"
        f"assert {CHEETAH!r} not in gymnasium.registry;"
        f"assert make_env({CHEETAH!r}).reward_spec.shape == (2,)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("env_id", [CHEETAH, f"mo_gymnasium:{CHEETAH}", TREASURE])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, env_id: str
) -> None:
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)  # type: ignore[arg-type]
    monkeypatch.delitem(gym.registry, CHEETAH, raising=False)
    with pytest.raises(ConfigError) as error:
        make_env(env_id)
    assert str(error.value) == f"{env_id} needs a missing package: pip install 'rlkit_sac[mo]'"


def test_a_missing_simulator_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("gymnasium.envs.mujoco", "mo_gymnasium.envs.mujoco.", "mujoco.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)  # type: ignore[arg-type]
    assert mo_gymnasium.__name__ in sys.modules
    with pytest.raises(
        ConfigError, match=r"halfcheetah-v5 needs .*: pip .* 'rlkit_sac\[mujoco\]'$"
    ):
        make_env(CHEETAH)


def test_an_unknown_name_is_compared_with_those_of_the_package() -> None:
    with pytest.raises(ConfigError, match="Did you mean: `mo-halfcheetah`"):
        make_env("mo-halfcheeta-v5")
    with pytest.raises(ConfigError, match=r"versioned environments: \[ `v4`, `v5` \]"):
        make_env("mo-halfcheetah-v9")
