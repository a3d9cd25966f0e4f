"""NaN and infinity that appear in evaluations alone."""

import pytest

from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs.evaluation import evaluate
from tests.data.collect import test_frame  # noqa: F401 (registers the task)


@pytest.mark.parametrize(("what", "number"), [("reward", "nan"), ("observation", "inf")])
def test_the_frame_of_the_episode_is_named(what: str, number: str) -> None:
    """The eighth step is the third of the second episode of each environment."""
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    env = make_env("Spoiled-v0", num_envs=2, kwargs={"spoil": what})
    wanted = rf"in an evaluation: \('next', '{what}'\) is {number} at frame 3 .* in environment 0"
    with pytest.raises(RunError, match=wanted):
        evaluate(policy, env, episodes=4, seed=0)
