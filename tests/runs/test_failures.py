"""What the console shows of an exception."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs import make_env
from rlkit_sac.errors import EnvironmentFault
from rlkit_sac.runs.stop import describe_failure
from tests.envs.conftest import Still


class Broken(Still):
    def __init__(self, size: int) -> None:
        self.size = size

    def step(self, action: Any) -> Any:
        return self.observe(), 0.0, False, False, {}

    def observe(self) -> Any:
        return np.zeros({2: 2, 3: 3}[self.size], np.float32)


gym.register("Broken-v0", Broken, max_episode_steps=5)


def printed(size: int) -> list[str]:
    env = make_env("Broken-v0", kwargs={"size": size})
    with pytest.raises(EnvironmentFault) as raised:
        env.rollout(2)
    return describe_failure(raised.value).splitlines()


def test_the_traceback_of_an_environment_begins_in_its_own_code() -> None:
    lines = printed(4)
    files = [line.split(", ") for line in lines if line.startswith("  File ")]
    assert [(place[0][-18:-1], place[2]) for place in files] == [
        ("/test_failures.py", "in step"),
        ("/test_failures.py", "in observe"),
    ]
    assert lines[-2] == "KeyError: 4"
    assert lines[-1].startswith("error: environment 0 raised KeyError: 4 in step 1")


def test_what_an_environment_returned_comes_without_a_traceback() -> None:
    (line,) = printed(3)
    assert line.startswith(
        "error: environment 0 raised ValueError: the observation has the shape [3]"
    )
