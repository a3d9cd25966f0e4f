from typing import Any

import pytest

from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.envs.seeding import episode_seed
from rlkit_sac.errors import EnvironmentFault


def fault(**options: Any) -> Exception:
    with (
        closing_env(make_env("tests.envs.faulty:Faulty-v0", seed=3, **options)) as env,
        pytest.raises(EnvironmentFault) as info,
    ):
        env.rollout(20, break_when_any_done=False)
    return info.value


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize(
    ("how", "what", "where", "cause"),
    [
        ("raise", "ZeroDivisionError: division by zero", "step 3", ZeroDivisionError),
        ("reset", "OSError: lost connection", "the reset", OSError),
    ],
)
def test_an_exception_is_told_with_environment_step_episode_and_seed(
    how: str, what: str, where: str, cause: type[Exception], num_envs: int
) -> None:
    error = fault(num_envs=num_envs, kwargs={"how": how, "step": 3})
    text = str(error)
    assert text.startswith(f"environment 0 raised {what}")
    assert text.endswith(f" in {where} of its episode 1 (reset seed {episode_seed(3, 0, 1)})")
    assert "\n" not in text
    assert isinstance(error.__cause__, cause)


@pytest.mark.parametrize("options", [{}, {"num_envs": 2}])
def test_an_observation_of_another_size_than_its_space_is_a_fault(options: dict[str, Any]) -> None:
    error = fault(kwargs={"how": "shape", "step": 3}, **options)
    assert str(error) == (
        "environment 0 raised ValueError: the observation has the shape [2], wanted [3] in step 3 "
        f"of its episode 1 (reset seed {episode_seed(3, 0, 1)})"
    )
