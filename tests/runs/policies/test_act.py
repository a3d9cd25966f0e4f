"""What ``act`` of a loaded policy returns is what the environment would have been given."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text, Tuple
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.envs import EnvBase, ObservationNorm
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor

from rlkit_sac.data import ActingLoop
from rlkit_sac.envs import describe_task, make_env, observation_dim
from rlkit_sac.errors import RunError
from rlkit_sac.modules import (
    GaussianHead,
    GRUMemory,
    SameActionPrior,
    TanhGaussian,
    policy_states,
    state_primer,
    tanh_gaussian_actor,
)
from rlkit_sac.runs import load_policy, save_policy
from tests.runs.policies.policies import KINDS, RECURRENT, discrete, make_policy, random_state

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
}
OF_BOXES, OF_INDICES = ["box", "matrix", "nested box"], ["discrete"]
SPACES = {
    kind: ["tuple", "dict"]
    if kind in ("hybrid", "wide critics", "masked critics", "normalized hybrid")
    else OF_BOXES
    if kind in ("tanh-Gaussian", "normalized", "gaussian behavior")
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


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    gym.register("Recorder-v0", entry_point=Recorder, max_episode_steps=50)
    Recorder.pairs.clear()
    yield
    del gym.registry["Recorder-v0"]


def recorder(observations: str = "box", actions: str = "box", **options: Any) -> EnvBase:
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


# Kinds of policies that differ in their networks alone are quick with one sort of bounds.
OWN_BOUNDS = ("tanh-Gaussian", "gaussian behavior", "hybrid")


@pytest.mark.parametrize(
    ("kind", "actions", "rescale"),
    [
        pytest.param(
            *(kind, name, rescale),
            marks=[] if rescale or kind in OWN_BOUNDS else pytest.mark.slow,
        )
        for rescale in (True, False)
        for kind, names in SPACES.items()
        for name in names
    ],
)
def test_it_acts_as_in_the_environment(
    tmp_path: Path, kind: str, actions: str, rescale: bool
) -> None:
    torch.manual_seed(0)
    env = recorder("tuple", actions, rescale_actions=rescale)
    policy = make_policy(kind, observation_dim(env))
    random_state(policy)
    mine = loaded(policy, env, tmp_path)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        env.rollout(5, policy)
        loop = ActingLoop(env, policy)
        loop.reset()
        for _ in range(5):
            loop.step()
            loop.advance()
    assert len(Recorder.pairs) == 10
    for observation, action in Recorder.pairs:
        assert_same_action(mine.act(observation), action)
        assert ACTIONS[actions].contains(action)


@pytest.mark.parametrize(("observations", "indices"), [("box", [2, 0]), ("dict", [4, 0, 3])])
def test_it_takes_whole_observations_where_the_policy_sees_some_entries(
    tmp_path: Path, observations: str, indices: list[int]
) -> None:
    torch.manual_seed(0)
    env = recorder(observations, observation_indices=indices)
    policy = make_policy("tanh-Gaussian", len(indices))
    mine = loaded(policy, env, tmp_path)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        seen = env.rollout(5, policy)["observation"]
    assert seen.shape == (5, len(indices))
    for observation, action in Recorder.pairs:
        assert_same_action(mine.act(observation), action)
    space = OBSERVATIONS[observations]
    each = [observation for observation, _ in Recorder.pairs]
    batch = concatenate(space, each, create_empty_array(space, 5))
    np.testing.assert_allclose(mine.act(batch), [action for _, action in Recorder.pairs], 1e-5)
    with pytest.raises(ValueError, match="the observation"):
        mine.act(seen[0].numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_that_of_the_environment(tmp_path: Path, kind: str) -> None:
    env = recorder("box", SPACES[kind][0])
    policy = make_policy(kind)
    mine = loaded(policy, env, tmp_path)
    step = env.reset()
    for seed in range(4):
        torch.manual_seed(seed)
        with set_exploration_type(ExplorationType.RANDOM), torch.no_grad():
            _, step = env.step_and_maybe_reset(policy(step))
        observation, action = Recorder.pairs[-1]
        torch.manual_seed(seed)
        assert_same_action(mine.act(observation, deterministic=False), action)
    assert len({str(action) for _, action in Recorder.pairs}) > 1


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
        batch = concatenate(space, each, create_empty_array(space, count))
        found = mine.act(batch)
        many = batch_space(actions, count)
        assert many.contains(found)
        for one, observation in zip(iterate(many, found), each, strict=True):
            alone = mine.act(observation)
            for left, right in zip(numbers(one), numbers(alone), strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)


def numbers(action: Any) -> list[Any]:
    """The leaves of an action."""
    if isinstance(action, tuple | dict):
        parts = [action[name] for name in sorted(action)] if isinstance(action, dict) else action
        return [number for part in parts for number in numbers(part)]
    return [np.asarray(action)]


def test_images_keep_their_shape(tmp_path: Path) -> None:
    class Mean(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image.double().mean((-3, -2, -1)).unsqueeze(-1).float() / 255

    OBSERVATIONS["image"] = Box(0, 255, (4, 5, 3), np.uint8)
    env = recorder("image")
    policy = TensorDictModule(Mean(), ["observation"], ["action"])
    save_policy(tmp_path, policy, task=describe_task(env))
    act = load_policy(tmp_path, into=policy).act
    image = np.full((4, 5, 3), 255, np.uint8)
    assert act(image).tolist() == [0.5]
    assert act(np.stack([image, 0 * image])).tolist() == [[0.5], [-0.75]]
    assert (tmp_path / "policy.json").stat().st_size < 2000
    del OBSERVATIONS["image"]


def test_it_follows_the_weights_and_copies_have_their_own(tmp_path: Path) -> None:
    env, observation = recorder(), np.ones(3, np.float32)
    mine = loaded(make_policy("tanh-Gaussian"), env, tmp_path)
    before = mine.act(observation)
    twins = copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))
    with torch.no_grad():
        for parameter in mine.parameters():
            parameter.add_(0.5)
    assert (mine.act(observation) != before).all()
    for twin in twins:
        assert (twin.act(observation) == before).all()


def test_the_random_stream_is_left_alone(tmp_path: Path) -> None:
    mine = loaded(make_policy("hybrid"), recorder("box", "tuple"), tmp_path)
    before = torch.get_rng_state()
    mine.act(np.ones(3))
    assert torch.equal(torch.get_rng_state(), before)


def test_another_shape_of_observation_is_named(tmp_path: Path) -> None:
    mine = loaded(make_policy("tanh-Gaussian"), recorder(), tmp_path)
    for wrong in (np.zeros(4), np.zeros((2, 4)), 1.0, np.zeros((2, 2, 3))):
        with pytest.raises(ValueError, match=r"has the shape .*, wanted \[3\], or N in front"):
            mine.act(wrong)


WRONG = {
    "box": [np.array([0, np.nan, 0]), np.array([0, np.inf, 0]), ["a", "b", "c"], None],
    "tuple": [
        (np.zeros((2, 2)), 3),
        (np.zeros((2, 2)), 3, np.zeros(2)),
        (np.zeros((5, 2, 2)), np.ones(5, int), np.ones(4, int)),
        (np.zeros((5, 2, 2)), np.ones(5, int), 1),
        (np.zeros((2, 2)), 3, None),
        3.0,
    ],
    "dict": [
        {"wheels": np.ones(2), "at": {"x": np.zeros(2)}},
        {"wheels": np.ones(2), "at": {"x": np.zeros(3), "y": 0.0}},
        {"wheels": np.ones(2), "at": np.zeros(3)},
        {"wheels": np.ones(2), "at": {"x": np.zeros(2), "y": np.nan}},
    ],
}


@pytest.mark.parametrize("kind", WRONG)
def test_any_part_of_an_observation_that_is_wrong_is_one_error(tmp_path: Path, kind: str) -> None:
    env = recorder(kind)
    mine = loaded(make_policy("tanh-Gaussian", observation_dim(env)), env, tmp_path)
    for wrong in WRONG[kind]:
        with pytest.raises(ValueError, match="the observation"):
            mine.act(wrong)


def test_a_policy_of_another_precision_acts(tmp_path: Path) -> None:
    policy = make_policy("tanh-Gaussian")
    save_policy(tmp_path, policy.double(), task=describe_task(recorder()))
    mine = load_policy(tmp_path)
    for observation in (np.ones(3, np.float32), np.ones((4, 3))):
        states = TensorDict(observation=torch.ones(4, 3).double(), batch_size=[4])
        wanted = policy(states)["action"]
        np.testing.assert_allclose(mine.act(observation), 1.25 * wanted[0].item() - 0.75, 1e-6)


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


@pytest.mark.parametrize("kind", RECURRENT)
def test_rows_of_a_batch_remember_and_restart_by_themselves(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    policy = make_policy(kind)
    random_state(policy)
    mine = loaded(policy, recorder("box", REMEMBERED[kind]), tmp_path)
    several = batch_space(ACTIONS[REMEMBERED[kind]], 3)
    twin = pickle.loads(pickle.dumps(mine))
    begins = np.random.default_rng(0).random((6, 3)) < 0.3
    begins[0] = True
    state, alone = None, [None] * 3
    for is_init in begins:
        observations = np.random.default_rng(1).normal(size=(3, 3))
        if state is not None:
            for value in state.values():  # of no effect where an episode begins
                value[is_init] = np.nan if value.dtype.kind == "f" else 1
        actions, state = mine.act(observations, state, is_init=is_init)
        for i, action in enumerate(iterate(several, actions)):
            before = None if is_init[i] else alone[i]
            wanted, alone[i] = twin.act(observations[i], before)
            for left, right in zip(numbers(action), numbers(wanted), strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)
            for name, value in state.items():
                np.testing.assert_allclose(value[i], alone[i][name], atol=1e-5)


def test_a_state_that_does_not_fit_is_named(tmp_path: Path) -> None:
    mine = loaded(make_policy("normalized GRU"), recorder(), tmp_path)
    one, many = np.zeros(3), np.zeros((5, 3))
    _, state = mine.act(one)
    assert {name: value.shape for name, value in state.items()} == {
        "prev_action": (1,),
        "actor_state": (1, 6),
    }
    wanted = r"wanted {'prev_action': \[5, 1\], 'actor_state': \[5, 1, 6\]}: pass what act returned"
    partial = {"actor_state": np.zeros((5, 1, 6))}
    wrong = [state, mine.act(np.zeros((4, 3)))[1], partial, mine.act(many), 3]
    for other in wrong:
        with pytest.raises(ValueError, match=wanted):
            mine.act(many, other)
    for flags in (True, np.zeros(4, bool), np.zeros((5, 1), bool), np.zeros(5), [0, 1, 2, 3, 4]):
        with pytest.raises(ValueError, match=r"is_init has the shape .*, wanted \[5\] and bool"):
            mine.act(many, is_init=flags)
    plain = loaded(make_policy("tanh-Gaussian"), recorder(), tmp_path / "plain")
    for arguments in ({"state": state}, {"is_init": True}, {"state": {}}):
        with pytest.raises(ValueError, match="the policy has no memory"):
            plain.act(one, **arguments)


def test_a_memory_of_ones_own_acts(tmp_path: Path) -> None:
    def policy(**options: Any) -> ProbabilisticActor:
        join = TensorDictModule(
            lambda *parts: torch.cat(parts, -1), ["observation", "prev_action"], ["x"]
        )
        keys = {"in_keys": ["x", ("own", "state")], "out_keys": ["y", ("next", "own", "state")]}
        head = torch.nn.Sequential(torch.nn.Linear(6, 2), GaussianHead())
        return ProbabilisticActor(
            TensorDictSequential(
                join, GRUMemory(4, 6, **keys), TensorDictModule(head, ["y"], ["loc", "scale"])
            ),
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=TanhGaussian,
        )

    env = recorder(max_episode_steps=3)
    save_policy(tmp_path, policy(), task=describe_task(env))
    mine = load_policy(tmp_path, into=policy())
    carrying = env.append_transform(state_primer(mine))
    carrying.rollout(7, mine, break_when_any_done=False)
    state = None
    for step, (observation, action) in enumerate(Recorder.pairs):
        found, state = mine.act(observation, state, is_init=step % 3 == 0)
        assert_same_action(found, action)
    assert list(state) == ["prev_action", "own.state"]


# ------------------------------------------------------------------ where it cannot act


def test_without_the_task_it_says_so(tmp_path: Path) -> None:
    save_policy(tmp_path, make_policy("tanh-Gaussian"))
    with pytest.raises(RunError, match=r"needs the task, which policy\.json does not describe"):
        load_policy(tmp_path).act(np.zeros(3))


def test_a_policy_that_reads_more_than_the_observation_says_so(tmp_path: Path) -> None:
    env = recorder("box", "discrete")

    def policy() -> TensorDictModule:
        prior = SameActionPrior(env.full_action_spec_unbatched)
        return discrete(3, prior_network=prior).policy()

    save_policy(tmp_path, policy(), task=describe_task(env))
    mine = load_policy(tmp_path, into=policy())
    with pytest.raises(RunError, match=r"the policy reads .*'prev_action', 'is_init'"):
        mine.act(np.zeros(3))


def test_a_space_that_has_no_description_leaves_the_policy_loadable(tmp_path: Path) -> None:
    OBSERVATIONS["text"] = Tuple([Text(3), Box(-1, 1, (1,))])
    env = recorder("text")
    assert describe_task(env) is None
    actor = tanh_gaussian_actor(observation_dim(env), [-1.0], [1.0])
    with pytest.raises(RunError, match="needs the task"):
        loaded(actor, env, tmp_path).act(("abc", np.zeros(1)))
    del OBSERVATIONS["text"]


def test_other_transforms_leave_the_policy_loadable() -> None:
    """Act would not apply them."""
    scaled = recorder().append_transform(ObservationNorm(0.0, 2.0, ["observation"]))
    assert describe_task(scaled) is None


@pytest.mark.parametrize("key", [("a", 1), np.int64(3)])
def test_names_that_json_does_not_have_leave_the_policy_loadable(tmp_path: Path, key: Any) -> None:
    OBSERVATIONS["named"] = Dict({key: Box(-1, 1, (3,))})
    env = recorder("named")
    assert describe_task(env) is None
    loaded(make_policy("tanh-Gaussian"), env, tmp_path)
    del OBSERVATIONS["named"]


def test_whole_numbers_as_names_survive(tmp_path: Path) -> None:
    OBSERVATIONS["named"] = Dict({2: Box(-1, 1, (1,)), 10: Box(-1, 1, (2,))})
    mine = loaded(make_policy("tanh-Gaussian"), recorder("named"), tmp_path)
    assert mine.act({2: np.zeros(1), 10: np.ones(2)}).shape == (1,)
    del OBSERVATIONS["named"]


def test_a_counter_of_any_size_is_described() -> None:
    OBSERVATIONS["counter"] = Tuple([Box(-1, 1, (2,)), Discrete(10**12)])
    assert describe_task(recorder("counter")) is not None
    del OBSERVATIONS["counter"]


@pytest.mark.parametrize("observations", OBSERVATIONS)
@pytest.mark.parametrize("actions", ACTIONS)
def test_a_task_is_described_in_json(observations: str, actions: str) -> None:
    described = describe_task(recorder(observations, actions, rescale_actions=False))
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    several = recorder(observations, actions, rescale_actions=False, num_envs=2)
    assert describe_task(several) == described
