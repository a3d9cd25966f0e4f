"""What ``act`` of a loaded policy returns is what the environment would have been given."""

import copy
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.envs import describe_task, make_env, observation_dim
from rlkit_sac.modules import policy_states, state_primer, tanh_gaussian_actor
from rlkit_sac.runs import load_policy, save_policy
from rlkit_sac.runs.acting import Act
from tests.runs.policies import KINDS, RECURRENT, make_policy, random_state

OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "box": Box(-3, 3, (3,)),
    "float64": Box(-np.inf, np.array([1.0, np.inf]), dtype=np.float64),
    "discrete": Discrete(4, start=-2),
    "tuple": Tuple([Box(-3, 3, (2, 2)), Discrete(200, start=1), Discrete(3)]),
    "dict": Dict(
        {"wheels": MultiBinary(2), "at": Dict(y=Box(-3, 3, ()), x=Box(0, 255, (2,), np.uint8))}
    ),
}
ACTIONS: dict[str, gym.Space[Any]] = {
    "box": Box(-2, 0.5, (1,)),
    "matrix": Box(-2, 0.5, (1, 1), np.float64),
    "nested box": Dict(arm=Tuple([Box(-2, 0.5, (1,))])),
    "discrete": Discrete(2, start=5),
    "tuple": Tuple([Discrete(2, start=-1), Tuple([Box(0, 30, (1,))])]),
    "dict": Dict(speed=Dict(x=Box(-1, 5, (), np.float64)), go=Discrete(2)),
    "choices": Tuple([Discrete(1, start=3), MultiBinary([1, 1])]),
    "both": Dict(z=MultiDiscrete([[1, 2]]), x=Box(0, 30, (1,)), a=Box(7, 7, (2,), np.int16)),
}
OF_BOXES, OF_INDICES = ["box", "matrix", "nested box"], ["discrete", "choices"]
SPACES = {
    kind: ["tuple", "dict", "both"]
    if kind in ("hybrid", "wide critics", "masked critics", "normalized hybrid")
    else OF_BOXES
    if kind in ("tanh-Gaussian", "normalized", "gaussian behavior", "normalized behavior")
    else OF_INDICES
    for kind in KINDS
}


class Recorder(gym.Env):
    """Draws observations at random, and keeps what it is given for them."""

    pairs: ClassVar[list[tuple[Any, Any]]] = []

    def __init__(self, observations: str = "box", actions: str = "box") -> None:
        self.observation_space = copy.deepcopy(OBSERVATIONS[observations])
        self.action_space = ACTIONS[actions]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.observation_space.seed(seed)
        self.before = self.observation_space.sample()
        return self.before, {}

    def step(self, action: Any) -> Any:
        Recorder.pairs.append((self.before, action))
        self.before = self.observation_space.sample()
        return self.before, 0.0, False, False, {}


gym.register("Recorder-v0", entry_point=Recorder, max_episode_steps=50)


def stacked(space: gym.Space[Any], each: list[Any]) -> Any:
    """Several observations as those of a vector environment."""
    return concatenate(space, each, create_empty_array(space, len(each)))


def recorder(observations: str = "box", actions: str = "box", **options: Any) -> EnvBase:
    Recorder.pairs.clear()
    kwargs = {"observations": observations, "actions": actions}
    return make_env("Recorder-v0", kwargs=kwargs, **options)


def loaded(policy: TensorDictModule, env: EnvBase, folder: Path) -> Any:
    save_policy(folder, policy, task=describe_task(env))
    return load_policy(folder)


def assert_same_action(found: Any, wanted: Any) -> None:
    """Equal in type and structure, and to the last bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            assert_same_action(*pair)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for name, part in wanted.items():
            assert_same_action(found[name], part)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert (found == wanted).all()
    else:
        assert found == wanted


@pytest.mark.parametrize("observations", OBSERVATIONS)
@pytest.mark.parametrize("kind", ["normalized", "boltzmann", "normalized hybrid"])
def test_many_observations_at_once_are_those_of_a_vector_environment(
    tmp_path: Path, kind: str, observations: str
) -> None:
    torch.manual_seed(0)
    space, actions = OBSERVATIONS[observations], ACTIONS[SPACES[kind][-1]]
    env = recorder(observations, SPACES[kind][-1])
    policy = make_policy(kind, observation_dim(env))
    random_state(policy)
    mine = loaded(policy, env, tmp_path)
    for count in (1, 6):
        each = [space.sample() for _ in range(count)]
        found = mine.act(stacked(space, each))
        many = batch_space(actions, count)
        assert many.contains(found)
        for one, observation in zip(iterate(many, found), each, strict=True):
            alone = mine.act(observation)
            for left, right in zip(numbers(one), numbers(alone), strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given", ["text", None, ["a", "b"], {"x": 1.0}, (np.zeros(3), {})])
def test_what_is_no_observation_is_refused(given: Any) -> None:
    act = Act(tanh_gaussian_actor(3, [-1.0], [1.0]), describe_task(recorder()))
    with pytest.raises(ValueError, match="the observation is not one of Box"):
        act(given)


def numbers(action: Any) -> list[Any]:
    """The leaves of an action."""
    if isinstance(action, tuple | dict):
        parts = [action[name] for name in sorted(action)] if isinstance(action, dict) else action
        return [number for part in parts for number in numbers(part)]
    return [np.asarray(action)]


# ------------------------------------------------------------------ policies with memory

REMEMBERED = {
    "normalized GRU": "box",
    "two layers of LSTM": "discrete",
    "boltzmann GRU": "discrete",
    "hybrid LSTM": "tuple",
    "masked critics, GRU": "tuple",
}
assert REMEMBERED.keys() == RECURRENT.keys()


@pytest.mark.parametrize("mode", [ExplorationType.DETERMINISTIC, ExplorationType.RANDOM])
@pytest.mark.parametrize("kind", RECURRENT)
def test_a_memory_acts_as_in_the_environment(
    tmp_path: Path, kind: str, mode: ExplorationType
) -> None:
    """Over episodes of four steps, the second of which begins anew with the state of the first."""
    torch.manual_seed(0)
    env = recorder("box", REMEMBERED[kind], max_episode_steps=4)
    policy = make_policy(kind)
    random_state(policy)
    mine = loaded(policy, env, tmp_path)
    assert policy_states(mine) == policy_states(policy)
    carrying = env.append_transform(state_primer(mine))
    torch.manual_seed(1)
    with set_exploration_type(mode), torch.no_grad():
        carrying.rollout(10, mine, break_when_any_done=False)
    torch.manual_seed(1)
    state = None
    for step, (observation, action) in enumerate(Recorder.pairs):
        options = {"is_init": step % 4 == 0} if step else {}
        found, state = mine.act(
            observation, state, deterministic=mode is ExplorationType.DETERMINISTIC, **options
        )
        assert_same_action(found, action)
    assert len(Recorder.pairs) == 10
    forgetful = [mine.act(observation)[1] for observation, _ in Recorder.pairs]
    assert any((forgetful[-1][name] != state[name]).any() for name in state)


def test_the_beginnings_of_episodes_may_be_numbers_or_a_column() -> None:
    env = make_env("Pendulum-v1")
    policy = tanh_gaussian_actor(3, [-1.0], [1.0], memory={"kind": "gru", "action_dim": 1})
    act, observation = Act(policy, describe_task(env)), np.ones((3, 3), np.float32)
    _, state = act(observation)
    begins = np.array([True, False, True])
    wanted, _ = act(observation, state, is_init=begins)
    for same in (begins.tolist(), begins.astype(int), begins[:, None], torch.tensor(begins)):
        np.testing.assert_array_equal(act(observation, state, is_init=same)[0], wanted)
    for wrong in (True, [True, False], np.zeros((3, 2))):
        with pytest.raises(ValueError, match="reshape"):
            act(observation, state, is_init=wrong)
