"""What every recipe's configuration says of its task, and the environments it opens."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlkit_sac.config import CollectorConfig, EnvConfig, ReplayConfig
from rlkit_sac.data import example_transition
from rlkit_sac.envs import continuous_action_bounds
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import (
    RunConfig,
    Session,
    first_compiled_update,
    make_envs,
    make_replay,
    run_recipe,
)

OPEN: list[gym.Env] = []


class Drift(gym.Env):
    """A number that drifts by the action, in a task that may be odd in several ways."""

    made = 0

    def __init__(self, bound=2.0, reward=None, integers=False) -> None:
        Drift.made += 1
        self.observation_space = Box(-10, 10, (2,))
        self.action_space = Box(-bound, bound, (1,))
        if integers:
            self.action_space = Box(-1, 1, (1,), dtype=np.int64)
        if reward is not None:
            self.reward_space = Box(0, 1, reward)
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
    assert OPEN == []
    torch.set_num_threads(threads)
    del gym.registry["Drift-v0"]


def test_few_updates_and_long_rows_of_a_memory_are_not_compiled() -> None:
    run = RunConfig(collector=CollectorConfig(total_frames=4_000))
    first = partial(first_compiled_update, run, torch.device("cpu"))
    assert (run.planned_updates(), first()) == (3_000, 1_001)
    run.update.utd_ratio = 0.9
    assert (run.planned_updates(), first()) == (2_700, None)
    run.update.utd_ratio, run.network.memory, run.replay.slice_length = 1.0, "gru", 17
    assert first() is None
    run.compile = True
    assert first() == 1
    run.compile = False
    assert first() is None


def config(*, seed: int = 0, num_threads: int = 1, **env: object) -> RunConfig:
    return RunConfig(
        env=EnvConfig(**{"id": "Drift-v0", **env}),
        replay=ReplayConfig(capacity=1000),
        device="cpu",
        seed=seed,
        num_threads=num_threads,
    )


# ------------------------------------------------------------------ what it opens


def build(config: RunConfig) -> None:
    with make_envs(config) as (env, _, _):
        continuous_action_bounds(env)
        make_replay(config, env, example_transition(env, ["observation", "action"]))


def odd(**kwargs) -> RunConfig:
    return RunConfig(env=EnvConfig(id="Drift-v0", kwargs=kwargs))


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        (RunConfig(device="cuda:99"), "device", "device 'cuda:99' is not available here"),
        (RunConfig(env=EnvConfig(id="Pendulun-v1")), "env.id", "Did you mean: `Pendulum`"),
        (
            RunConfig(env=EnvConfig(kwargs={"wind": 1})),
            "env.id",
            "unexpected keyword argument 'wind'",
        ),
        (RunConfig(env=EnvConfig(id="CartPole-v1")), "env.id", "acts in continuous spaces"),
        (odd(bound=float("inf")), "env.id", "action dimension [0] has the bounds [-inf"),
        (odd(integers=True), "env.id", "the actions are Discrete(3)"),
        (
            RunConfig(replay=ReplayConfig(capacity=10**12)),
            "replay.capacity",
            "free: a capacity of",
        ),
        (
            RunConfig(env=EnvConfig(num_envs=2), collector=CollectorConfig(frames_per_batch=3)),
            "collector.frames_per_batch",
            "must be a multiple of the 2 environments, got 3: choose 2 or 4",
        ),
    ],
)
def test_each_shortcoming_is_one_line(config, key, part):
    config.device = "cpu" if config.device == "auto" else config.device
    with pytest.raises(ConfigError) as refused:
        build(config)
    found_key, _, message = str(refused.value).partition(": ")
    assert found_key == key
    assert part in message
    assert "\n" not in message


def test_both_environments_have_the_options_and_close_with_the_block() -> None:
    options = config(max_episode_steps=3, rescale_actions=False, kwargs={"bound": 5.0})
    with make_envs(options) as (env, eval_env, _):
        assert len(OPEN) == 2
        for each in (env, eval_env):
            assert continuous_action_bounds(each) == ([-5.0], [5.0])
            rollout = each.rollout(10, break_when_any_done=True)
            assert len(rollout) == 3
            assert rollout["next", "truncated"][-1]


@dataclass
class DriftConfig(RunConfig):
    """A run of the task that counts how often it is made."""

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="Drift-v0"))
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1000))
    device: str = "cpu"


def test_errors_of_machine_and_task_name_where_an_option_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(config: DriftConfig, session: Session) -> Path:
        with make_envs(config, session):
            pytest.fail("the run began")

    (tmp_path / "options.yaml").write_text("device: abacus\n")
    argv = ["--config", "options.yaml", "--env.id", "Drift-v1", "--env.num_envs", "2"]
    with pytest.raises(SystemExit) as ended:
        run_recipe(main, DriftConfig, argv)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: options.yaml: device: device 'abacus' is not available")
    with pytest.raises(SystemExit):
        run_recipe(main, DriftConfig, [*argv, "--device", "cpu"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --env.id: unknown environment 'Drift-v1'")


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
