"""What comes of another run, or of the run before, has the units and the spaces of the task."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

import rlkit_sac
from rlkit_sac.envs import describe_task, make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.units import check_units
from tests.envs.conftest import Still

QUICK = {
    **{"collector.init_random_frames": 30, "collector.learning_starts": 30},
    **{"replay.batch_size": 8, "network.num_cells": [8], "collector.total_frames": 40},
    **{"evaluation.interval": 40, "evaluation.episodes": 1, "logging.progress": False},
}


class Echo(Still):
    """Observes the last action."""

    action: ClassVar[Any] = Box(-1, 1, (1,))
    observed: ClassVar[Any] = Box(-9, 9, (1,))

    def __init__(self) -> None:
        self.action_space, self.observation_space = self.action, self.observed

    def step(self, action: Any) -> Any:
        return np.array(action, np.float32), 1.0, False, False, {}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[rlkit_sac.Run, str]]:
    """A run, and the path of one in the task's own units; both are read alone."""
    gym.register("Echo-v0", Echo, max_episode_steps=20)
    options = {"logging.dir": str(tmp_path_factory.mktemp("trained"))}
    yield train(**options), str(train(**options, **{"env.rescale_actions": False}).path)
    gym.registry.pop("Echo-v0", None)


@pytest.fixture
def spaces(trained: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)

    def of(limit: int | None = 20, **spaces: Any) -> None:
        gym.registry.pop("Echo-v0", None)
        gym.register("Echo-v0", Echo, max_episode_steps=limit)
        for name, space in spaces.items():
            monkeypatch.setattr(Echo, name, space)

    of()
    yield of
    del gym.registry["Echo-v0"]


def train(recipe: str = "sac", **options: Any) -> rlkit_sac.Run:
    return rlkit_sac.train(recipe, env="Echo-v0", **QUICK, **options)


@pytest.mark.parametrize(
    ("recipe", "option"),
    [
        ("sac", "replay.prior_data"),
        ("sac", "warm_start.run"),
        ("kl_prior_sac", "prior.run"),
    ],
)
def test_actions_of_other_units_are_refused(
    spaces: Any, trained: Any, recipe: str, option: str
) -> None:
    given = {option: str(trained[0].path)}
    if recipe == "kl_prior_sac":
        given |= {"prior.kind": "policy"}
    train(recipe, **given)
    train(recipe, **given, **{"env.rescale_actions": False})  # of the same bounds
    spaces(action=Box(-1, 2, (1,)))
    with pytest.raises(ConfigError, match=rf"{option}: in .* upper bounds .* \[1\.0\], and is \[2"):
        train(recipe, **given)
    given[option] = trained[1]
    with pytest.raises(ConfigError, match=rf"{option}: in .* env\.rescale_actions was False"):
        train(recipe, **given)


def test_other_parts_of_the_observation_are_refused(spaces: Any) -> None:
    spaces(observed=Dict(near=Box(-9, 9, (1,)), far=Box(-9, 9, (1,))))
    near, far = (make_env("Echo-v0", observation_keys=[key]) for key in ("near", "far"))
    check_units(describe_task(near), near, "runs/a")
    with pytest.raises(ConfigError, match=r"parts of the observation was .*'near'"):
        check_units(describe_task(near), far, "runs/a")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Dict(a=Box(0, 1, (2,)), b=Box(0, 1, (1,))), Dict(a=Box(0, 1, (1,)), b=Box(0, 1, (2,)))),
        (Discrete(100), Discrete(200)),  # counters, of which one is divided by 200
        (Discrete(5), Discrete(5, start=1)),
        (MultiDiscrete([2, 3]), MultiDiscrete([3, 2])),
        (Box(0, 255, (8, 8), np.uint8), Box(0, 1, (8, 8), np.uint8)),
    ],
)
def test_parts_of_other_kinds_are_refused(spaces: Any, before: Any, now: Any) -> None:
    spaces(observed=before)
    stored = describe_task(make_env("Echo-v0"))
    check_units(stored, make_env("Echo-v0"), "runs/a")
    spaces(observed=now)
    with pytest.raises(ConfigError, match="parts of the observation was"):
        check_units(stored, make_env("Echo-v0"), "runs/a")


def test_a_policy_is_not_evaluated_in_other_units(spaces: Any, trained: Any) -> None:
    run, _ = trained
    run.evaluate(episodes=1)
    spaces(action=Box(-3, 3, (1,)))
    with pytest.raises(ConfigError, match=r"does not fit: of the task action_space was"):
        run.evaluate(episodes=1)


@pytest.mark.parametrize(
    "changed",
    [
        {"action": Box(-1, 2, (1,))},
        {"observed": Box(-9, 8, (1,))},
        {"observed": Box(-9, 9, (1,), np.float64)},
    ],
)
def test_a_task_with_other_spaces_does_not_go_on(spaces: Any, trained: Any, changed: Any) -> None:
    run, _ = trained
    before = (run.path / "run.json").read_bytes()
    spaces(**changed)
    with pytest.raises(ConfigError, match=r"resume: .*_space was .* and is"):
        run.resume(**{"collector.total_frames": 50})
    assert (run.path / "run.json").read_bytes() == before


def test_another_time_limit_is_told(spaces: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = train()
    run.resume(**{"collector.total_frames": 50})
    assert json.loads((run.path / "run.json").read_text())["exact"] is True
    spaces(limit=15)
    run.resume(**{"collector.total_frames": 60})
    assert json.loads((run.path / "run.json").read_text())["exact"] is False
    assert "max_episode_steps of the task was 20 and is 15 now" in "".join(capsys.readouterr())


def test_prior_data_beyond_the_capacity_are_refused(spaces: Any, trained: Any) -> None:
    source = {"replay.prior_data": str(trained[0].path)}
    train(**source, **{"replay.capacity": 40})
    with pytest.raises(ConfigError, match=r"replay\.capacity: .* are 40 .* more than the 39"):
        train(**source, **{"replay.capacity": 39})


def test_runs_whose_environments_have_transforms_are_not_taken_for_others(
    spaces: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("rlkit_sac.runs.run.describe_task", lambda env: None)  # as of such
        run = train()
    with pytest.raises(ConfigError, match="environment with transforms of its own"):
        run.evaluate()
    with pytest.warns(UserWarning, match="is not known: one of the environments has transforms"):
        train(**{"replay.prior_data": str(run.path)})
