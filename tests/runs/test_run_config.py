"""What every recipe's configuration says of its task, and the environments it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torchrl.envs import EnvBase

from rlkit_sac.config import CollectorConfig, EnvConfig, ReplayConfig
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.envs import continuous_action_bounds
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig, make_envs, run_recipe

OPEN: list[gym.Env] = []


class Drift(gym.Env):
    """A number that drifts by the action; some tasks are pictures, or fail in their constructor."""

    made = 0

    def __init__(self, shape=(2,), bound=2.0, second_fails=False) -> None:
        Drift.made += 1
        if second_fails and len(OPEN) == 1:
            raise RuntimeError("only one at a time")
        self.observation_space = Box(-10, 10, shape)
        self.action_space = Box(-bound, bound, (1,))
        OPEN.append(self)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, self.observation_space.shape)
        return self.state.astype(np.float32), {}

    def step(self, action):
        self.state = self.state + action[0]
        return self.state.astype(np.float32), float(action[0]), False, False, {}

    def close(self) -> None:
        OPEN.remove(self)


@pytest.fixture(autouse=True)
def _drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    gym.register("Drift-v0", entry_point=Drift, max_episode_steps=100)
    OPEN.clear()
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    del gym.registry["Drift-v0"]


def config(*, seed: int = 0, num_threads: int = 1, **env: object) -> RunConfig:
    return RunConfig(
        env=EnvConfig(**{"id": "Drift-v0", **env}),
        replay=ReplayConfig(capacity=1000),
        device="cpu",
        seed=seed,
        num_threads=num_threads,
    )


# ------------------------------------------------------------------ what it demands


def test_two_configurations_share_no_section() -> None:
    first, second = RunConfig(), RunConfig()
    first.env.id = "Other-v0"
    first.network.num_cells.append(7)
    assert second.env.id == "Pendulum-v1"
    assert 7 not in second.network.num_cells


def test_a_task_that_fits_has_no_errors_and_stays_closed() -> None:
    assert config_errors(config()) == []
    assert OPEN == []


def test_a_task_whose_observations_are_pictures_is_refused() -> None:
    found = config_errors(config(kwargs={"shape": (4, 4, 3)}))
    assert [key for key, _ in found] == ["env.id"]
    assert "[4, 4, 3]" in found[0][1]
    assert OPEN == []


@dataclass
class Layers:
    """Options of a user's own networks, which may have a memory."""

    width: int = 8


def test_networks_that_may_have_a_memory_take_rows_and_a_burn_in() -> None:
    own = config()
    own.network = Layers()
    own.replay.slice_length, own.replay.burn_in, own.replay.store_state = 8, 2, True
    assert config_errors(own) == []
    assert own.compile_choice() == "auto"
    own.replay.burn_in = 8
    assert [key for key, _ in config_errors(own)] == ["replay.burn_in"]


@dataclass
class Picky(RunConfig):
    """A recipe with demands of its own."""

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="Drift-v0"))

    def task_checks(self) -> list[Callable[[EnvBase], object]]:
        def refuse(env: EnvBase) -> None:
            raise ConfigError(f"not with actions {continuous_action_bounds(env)}")

        return [refuse, *super().task_checks()]


def test_the_demands_of_a_recipe_and_of_all_are_heard_in_one_go(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    picky = Picky(device="abacus", resume=None)
    picky.env.kwargs = {"shape": (4, 4, 3)}
    picky.logging.dir = "file"
    picky.warm_start.run = "nowhere"
    found = dict[str, list[str]]()
    for key, text in config_errors(picky):
        found.setdefault(key, []).append(text)
    assert set(found) == {"device", "logging.dir", "env.id", "warm_start.run"}
    assert found["env.id"][0] == "not with actions ([-1.0], [1.0])"
    assert "[4, 4, 3]" in found["env.id"][1]
    assert "nowhere does not exist" in found["warm_start.run"][0]


def test_a_run_that_goes_on_answers_for_its_checkpoint_not_for_a_warm_start() -> None:
    going_on = config()
    going_on.resume, going_on.warm_start.run = "gone", "nowhere"
    ((key, text),) = config_errors(going_on)
    assert key == "resume"
    assert text.startswith("gone does not exist")


# ------------------------------------------------------------------ what it opens


def test_both_environments_have_the_options_and_close_with_the_block() -> None:
    options = config(max_episode_steps=3, rescale_actions=False, kwargs={"bound": 5.0})
    with make_envs(options) as (env, eval_env):
        assert len(OPEN) == 2
        for each in (env, eval_env):
            assert continuous_action_bounds(each) == ([-5.0], [5.0])
            rollout = each.rollout(10, break_when_any_done=True)
            assert len(rollout) == 3
            assert rollout["next", "truncated"][-1]
    assert OPEN == []


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_task_is_made_once_for_checks_and_training_and_once_for_evaluation(
    num_envs: int,
) -> None:
    def main(config: DriftConfig) -> Path:
        with make_envs(config):
            return Path()

    before = Drift.made
    run_recipe(main, DriftConfig, ["--env.num_envs", str(num_envs)])
    assert Drift.made - before == 2  # of several, one is made before the first step
    assert OPEN == []


@dataclass
class DriftConfig(RunConfig):
    """A run of the task that counts how often it is made."""

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="Drift-v0"))
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1000))
    device: str = "cpu"


def test_errors_of_machine_and_task_name_where_an_option_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(config: DriftConfig) -> Path:
        with make_envs(config):
            pytest.fail("the run began")

    (tmp_path / "options.yaml").write_text("device: abacus\n")
    argv = ["--config", "options.yaml", "--env.id", "Drift-v1", "--env.num_envs", "2"]
    with pytest.raises(SystemExit) as ended:
        run_recipe(main, DriftConfig, argv)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: options.yaml: device: device 'abacus' is not available")
    assert lines[1].startswith("error: --env.id: ")
    assert len(lines) == 2


def test_training_may_have_several_environments_judging_has_one() -> None:
    with make_envs(config(num_envs=3)) as (env, eval_env):
        assert (env.batch_size, eval_env.batch_size) == (torch.Size([3]), torch.Size([]))
        starts = env.reset()["observation"]
        assert len({tuple(row) for row in starts.tolist()}) == 3
    assert OPEN == []


def test_the_seed_decides_initial_states_and_random_numbers() -> None:
    seen = []
    for seed in (1, 1, 2):
        torch.rand(3), np.random.rand(3)  # what came before does not count
        with make_envs(config(seed=seed)) as (env, _):
            numbers = [torch.rand(()).item(), np.random.rand()]
            seen.append([*env.reset()["observation"].tolist(), *numbers])
    assert seen[0] == seen[1]
    assert not set(seen[0]) & set(seen[2])


def test_the_threads_are_those_of_the_configuration() -> None:
    for number in (2, 1):
        with make_envs(config(num_threads=number)):
            assert torch.get_num_threads() == number


def test_an_error_in_the_block_closes_both_and_comes_out() -> None:
    error = ZeroDivisionError("in the loop")
    with pytest.raises(ZeroDivisionError) as raised, make_envs(config()):
        raise error
    assert raised.value is error
    assert OPEN == []


def test_where_the_second_cannot_be_opened_the_first_is_closed() -> None:
    with pytest.raises(Exception, match="only one at a time"):
        make_envs(config(kwargs={"second_fails": True})).__enter__()
    assert OPEN == []


def test_nothing_is_opened_or_seeded_for_a_configuration_with_errors() -> None:
    wrong = config(num_threads=2)
    wrong.seed, wrong.env.num_envs = -1, 0
    state, made = torch.get_rng_state(), Drift.made
    with pytest.raises(ConfigError) as refused:
        make_envs(wrong).__enter__()
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["env.num_envs", "seed"]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 1
    assert Drift.made == made


# ------------------------------------------------------------------ what it warns of


def test_a_task_without_a_time_limit_gets_one_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gym.register("Endless-v0", entry_point=Drift)
    try:
        for limit, given in ((10_000, None), (7, 7)):
            options = config(id="Endless-v0", max_episode_steps=given)
            with make_envs(options) as envs:
                for env in envs:
                    assert env.base_env.gym_env().get_wrapper_attr("_max_episode_steps") == limit
            assert options.env.max_episode_steps == limit
            warned = capsys.readouterr().err
            assert warned == (
                ""
                if given
                else "warning: Endless-v0 declares no time limit: its episodes end after 10000 "
                "frames at the latest (env.max_episode_steps)\n"
            )
        with make_envs(config()):
            assert capsys.readouterr().err == ""
    finally:
        del gym.registry["Endless-v0"]


def test_a_run_without_any_update_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    options = config(num_envs=4)
    for starts, warned in (
        (503, "warning: no update in 500 frames: collector.learning_starts is 503\n"),
        (500, "warning: no update in 500 frames: collector.learning_starts is 500\n"),
        (499, ""),
    ):
        options.collector = CollectorConfig(total_frames=498, learning_starts=starts)
        with make_envs(options):
            assert capsys.readouterr().err == warned


# ------------------------------------------------------------------ what it names
