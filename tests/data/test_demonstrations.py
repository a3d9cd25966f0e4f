"""Recorded episodes as transitions: what an environment itself gives for the same actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from tensordict import TensorDictBase

from rlkit_sac.data import demonstrations
from rlkit_sac.envs import make_env
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.errors import ConfigError

Episode = dict[str, Any]
TASKS = {
    "Pendulum-v1": {"max_episode_steps": 11},
    "CartPole-v1": {"max_episode_steps": 9},
    "tests.envs.goals:reach": {},
    "rlkit_sac/Platform-v0": {},
    "rlkit_sac/HardMove-v0": {"max_episode_steps": 7},
}


def record(name: str, *, episodes: int = 3) -> tuple[list[Episode], list[TensorDictBase], Any]:
    """Episodes as lists of what Gymnasium gives, and the frames of our environment."""
    env = make_env(name, seed=3, **TASKS[name])
    inside = gym_envs(env)[0]
    recorded: list[Episode] = []
    step, reset = inside._seeded.step, inside._seeded.reset

    def note_step(action: Any) -> Any:
        found = step(action)
        for key, value in zip(("observations", "rewards"), found, strict=False):
            recorded[-1][key].append(value)
        recorded[-1]["actions"].append(action)
        recorded[-1]["terminations"].append(found[2])
        recorded[-1]["truncations"].append(found[3])
        return found

    def note_reset(**options: Any) -> Any:
        found = reset(**options)
        keys = ("actions", "rewards", "terminations", "truncations")
        recorded.append({key: [] for key in keys} | {"observations": [found[0]]})
        return found

    inside._seeded.step, inside._seeded.reset = note_step, note_reset
    torch.manual_seed(0)
    frames = [env.rollout(100) for _ in range(episodes)]
    return recorded[:episodes], frames, env


def stacked(values: list[Any]) -> Any:
    """A list of steps as arrays in their structure."""
    if isinstance(values[0], dict):
        return {key: stacked([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(map(stacked, zip(*values, strict=True)))
    return np.stack(values)


@pytest.mark.parametrize("as_arrays", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_they_are_the_frames_of_the_environment(name: str, as_arrays: bool) -> None:
    episodes, frames, env = record(name)
    if as_arrays:
        episodes = [{key: stacked(list(v)) for key, v in episode.items()} for episode in episodes]
    found = demonstrations(episodes, env)
    expected = torch.cat(frames).select(*found.keys(True, True), strict=False)
    assert found["collector", "traj_ids"].tolist() == [
        number for number, rows in enumerate(frames) for _ in rows
    ]
    for key, value in expected.items(True, True):
        assert value.dtype == found[key].dtype
        torch.testing.assert_close(found[key], value, rtol=1e-6, atol=1e-6)
    read = {*env.observation_keys, *env.action_keys, ("next", "reward"), ("next", "terminated")}
    assert read - {"success", "episode_reward", "step_count"} <= {*expected.keys(True, True)}


def test_files_of_numpy_and_h5py_are_read_as_they_are(tmp_path: Path) -> None:
    episodes, _, env = record("tests.envs.goals:reach")
    expected = demonstrations(episodes, env)
    with h5py.File(tmp_path / "episodes.h5", "w") as file:
        for number, episode in enumerate(episodes):
            for key, values in episode.items():
                arrays = stacked(values)
                parts = arrays if isinstance(arrays, dict) else {"": arrays}
                for part, array in parts.items():
                    file[f"{number}/{key}/{part}".rstrip("/")] = array
    with h5py.File(tmp_path / "episodes.h5") as file:
        found = demonstrations([file[str(number)] for number in range(len(episodes))], env)
    assert (found == expected).all()

    episodes, _, env = record("Pendulum-v1")
    for number, episode in enumerate(episodes):
        np.savez(tmp_path / f"{number}.npz", **{k: np.array(v) for k, v in episode.items()})
    loaded = [np.load(file) for file in sorted(tmp_path.glob("*.npz"))]
    assert (demonstrations(loaded, env) == demonstrations(episodes, env)).all()


def change(key: str, function: Callable[[Any], Any]) -> Callable[[Episode], Any]:
    return lambda episode: episode | {key: function(episode[key])}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            change("observations", lambda x: x[:-1]),
            "it has 11 observations, 11 actions, 11 rewards",
        ),
        (change("rewards", lambda x: x[1:]), "10 rewards"),
        (change("actions", lambda x: [5.0 * y for y in x]), "the action is array([-"),
        (change("observations", lambda x: [y[:2] for y in x]), "has the shape [2], wanted [3]"),
        (change("actions", lambda x: [np.tile(y, 2) for y in x]), "cannot reshape array of size 2"),
        (change("terminations", lambda x: [True] * len(x)), "it ends before its last step"),
        (lambda episode: {"actions": episode["actions"]}, "KeyError: 'observations'"),
    ],
)
def test_an_episode_of_another_form_is_refused_by_its_number(
    changed: Callable[[Episode], Any], words: str
) -> None:
    episodes, _, env = record("Pendulum-v1")
    episodes[1] = changed(episodes[1])
    with pytest.raises(ConfigError) as caught:
        demonstrations(episodes, env)
    assert str(caught.value).startswith("episode 1: ")
    assert words in str(caught.value)
