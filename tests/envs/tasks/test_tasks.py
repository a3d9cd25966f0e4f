"""What all tasks have in common: registration, the interface of environments, pictures, saving."""

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rlkit_sac.envs.tasks import NAMESPACE

NAMES = ("Platform-v0", "Moving-v0", "Sliding-v0", "HardMove-v0", "HardMove-v1", "Goal-v0")
TASKS = [f"{NAMESPACE}/{name}" for name in NAMES]


@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*infinity:UserWarning")
@pytest.mark.parametrize("task", [*TASKS, f"{NAMESPACE}/PendulumImages-v0"])
def test_gymnasium_finds_nothing_to_complain_about(task: str) -> None:
    mode = "rgb_array" if task in TASKS else None
    check_env(gym.make(task, render_mode=mode).unwrapped, skip_render_check=mode is None)
