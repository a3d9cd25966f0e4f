"""Recipes that Python runs in its own process, and the runs that they leave."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.wrappers import TimeLimit

import rlkit_sac
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import load_policy
from tests.recipes.loading import config_class, load_recipe
from tests.reliability.runs import SHORT, assert_same_run
from tests.reliability.runs import train as train_by_command

OPTIONS = [*SHORT, "--collector.total_frames", "150", "--collector.learning_starts", "130"]
# The same in Python.
QUICK = {
    name.removeprefix("--"): yaml.safe_load(value)
    for options in (OPTIONS[: len(SHORT) - 1], OPTIONS[len(SHORT) :])
    for name, value in zip(options[::2], options[1::2], strict=True)
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pendulum() -> gym.Env:
    return gym.make("Pendulum-v1")


def test_a_run_is_that_of_the_command_and_is_read_from_python(tmp_path: Path) -> None:
    before = sys.argv.copy(), sys.path.copy()
    run = rlkit_sac.train("sac", seed=1, **QUICK, **{"update.max_grad_norm": None})
    assert (sys.argv, sys.path) == before
    assert_same_run(train_by_command(tmp_path / "command", *OPTIONS, "--seed", "1"), run.path)
    assert run.path.parent == Path("runs/sac/Pendulum-v1")
    assert list(run.evaluations["frames"]) == [110, 150]
    assert list(run.metrics["frames"]) == [70, 140, 150]
    assert run.episodes.empty
    found = run.evaluate()
    assert found.returns.mean() == run.evaluations["return_mean"].iloc[-1]
    assert len(run.evaluate("best", episodes=2, seed=5, deterministic=False).returns) == 2
    state, wanted = run.policy("best").state_dict(), load_policy(run.path, which="best")
    assert all(torch.equal(state[name], value) for name, value in wanted.state_dict().items())
    # The command goes on with it, too.
    script = json.loads((run.path / "run.json").read_text())["script"]
    assert Path(script).name == "sac.py"


def test_a_function_makes_the_environments(tmp_path: Path) -> None:
    run = rlkit_sac.train("sac", env=pendulum, name="my_task", **QUICK)
    assert "my_task" not in gym.registry
    assert run.path.parent == Path("runs/sac/my_task")
    assert set(run.evaluations["configuration"]) == {"default"}
    same = rlkit_sac.train("sac", env="Pendulum-v1", **QUICK)
    columns = ["frames", "return_mean", "length_mean"]
    assert run.evaluations[columns].equals(same.evaluations[columns])
    longer = {"collector.total_frames": 160}
    again = rlkit_sac.Run(run.path, env=pendulum)
    assert again.resume(**longer) is again
    assert list(again.evaluations["frames"]) == [110, 160]
    assert again.evaluate(episodes=3).lengths.tolist() == [200] * 3
    other = rlkit_sac.Run(run.path)
    with pytest.raises(ConfigError, match=r"use rlkit_sac\.Run\('.*my_task.*', env=function\)"):
        other.resume(**longer)
    with pytest.raises(ConfigError, match="unknown environment 'my_task'"):
        other.evaluate()


class Sized(PendulumEnv):
    """Notes what it was made of."""

    made: ClassVar[list[object]] = []

    def __init__(self, size: object = None, name: object = None) -> None:
        super().__init__()
        self.made.append((size, name))
        self.spec = None


def test_arguments_are_handed_on_as_they_are_and_those_of_evaluations_come_on_top() -> None:
    size = (2, {1: "no"})
    given = {"env.kwargs.size": size, "evaluation.kwargs": {"name": "test"}}
    gym.register("Sized-v0", Sized, max_episode_steps=20)
    try:
        run = rlkit_sac.train("sac", env="Sized-v0", **QUICK, **given)
        assert Sized.made[-2:] == [(size, None), (size, "test")]
        run.resume(**{"collector.total_frames": 170})
        assert Sized.made[-2:] == [(size, None), (size, "test")]
        run.evaluate(episodes=1)
        assert Sized.made[-1] == (size, "test")
        odd = {"env.kwargs.name": len}
        run = rlkit_sac.train("sac", env="Sized-v0", **QUICK, **odd)
        more = {"collector.total_frames": 170}
        with pytest.raises(ConfigError, match=r"env\.kwargs\.name was <built-in function len>"):
            rlkit_sac.Run(run.path).resume(**more)
        run.resume(**more)
        assert Sized.made[-1] == (None, len)
        run.evaluate(episodes=1)
        assert Sized.made[-1] == (None, len)
    finally:
        del gym.registry["Sized-v0"]


def test_a_function_needs_no_name_and_the_default_type_is_that_of_a_process() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        run = rlkit_sac.train("sac", env=pendulum, **QUICK)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert run.path.parent == Path("runs/sac/tests.runs.test_train-pendulum")
    own = rlkit_sac.train("sac", env=lambda: TimeLimit(Sized(), 20), **QUICK)
    assert own.path.parent == Path("runs/sac/Sized")
    assert own.evaluate(episodes=1).lengths.tolist() == [20]
    env = make_env(Sized, num_envs=2, kwargs={"size": 3}, max_episode_steps=20)
    assert env.rollout(30)["next", "truncated"].sum() == 2
    assert Sized.made[-2:] == [(3, None)] * 2


def test_a_function_is_asked_with_the_arguments_of_the_task() -> None:
    def make(limit: int) -> gym.Env:
        return gym.make("Pendulum-v1", max_episode_steps=limit)

    run = rlkit_sac.train("sac", env=make, **QUICK, **{"env.kwargs": {"limit": 12}})
    assert set(run.episodes["length"]) == {12}
    assert rlkit_sac.Run(run.path, env=make).evaluate(episodes=1).lengths.tolist() == [12]
    run = rlkit_sac.train("sac", env=make, **QUICK, config={"env": {"kwargs": {"limit": 13}}})
    assert set(run.episodes["length"]) == {13}
    with pytest.raises(ConfigError, match="made no environment for its name: TypeError"):
        rlkit_sac.train("sac", env=make, **QUICK)
    Path("limit.yaml").write_text("env: {kwargs: {limit: 14}}")
    of_tests = {"evaluation.kwargs": {"limit": 15}}
    run = rlkit_sac.train("sac", env=make, name="own", config="limit.yaml", **QUICK, **of_tests)
    assert set(run.metrics["configuration"]) == {"limit"}
    assert set(run.episodes["length"]) == {14}
    assert run.evaluations["length_mean"].tolist() == [15, 15]


@pytest.mark.parametrize("wrong", [3, "x", [1], [("a", 1)], len])
@pytest.mark.parametrize("env", [None, lambda: gym.make("Pendulum-v1")])
def test_sections_and_mappings_of_another_kind_are_one_error(wrong, env) -> None:
    for key, given in {
        "env": {"config": {"env": wrong}},
        "loss": {"loss": wrong},
        r"env\.kwargs": {"env.kwargs": wrong},
        r"config: env\.kwargs": {"config": {"env": {"kwargs": wrong}}},
        "config": {"config": {"config": wrong}},
    }.items():
        with pytest.raises(ConfigError, match=f"^[^\n]*{key}[^\n]*$"):
            rlkit_sac.train("sac", env=env, **given)
    with pytest.raises(ConfigError, match=r"^env: must be an instance of EnvConfig, got"):
        load_recipe("sac").main(config_class("sac")(env=wrong))


def test_options_may_be_nested_as_in_a_file() -> None:
    config = {"loss": {"gamma": 0.9, "alpha_init": 0.1}, "seed": 4}
    own = {"loss": {"gamma": 0.8}, "update.lr_actor": 1e-4, "update": {"lr_qvalue": 2e-4}}
    run = rlkit_sac.train("sac", config=config, **QUICK, **own)
    stored = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (stored["loss"]["gamma"], stored["loss"]["alpha_init"], stored["seed"]) == (0.8, 0.1, 4)
    assert (stored["update"]["lr_actor"], stored["update"]["lr_qvalue"]) == (1e-4, 2e-4)
    with pytest.raises(ConfigError, match=r"^loss: is a section; its options are loss.gamma, "):
        rlkit_sac.train("sac", loss=3)
    with pytest.raises(ConfigError) as error:
        rlkit_sac.train("sac", config={"loss": {"gama": 1}}, buffer_size=10, learning_rate=1e-3)
    assert str(error.value).split("\n") == [
        "config: loss.gama: unknown option; did you mean loss.gamma?",
        "buffer_size: unknown option; did you mean replay.capacity?",
        "learning_rate: unknown option; did you mean update.lr_actor or update.lr_qvalue or "
        "update.lr_alpha?",
    ]


def test_a_callback_ends_a_run_as_complete_and_logs() -> None:
    def watch(run: rlkit_sac.runs.TrainingRun) -> bool:
        if run.frames > 75:
            run.log(square=run.frames**2)
        return run.latest.get("evaluation", 1.0) < 0.0

    run = rlkit_sac.train("sac", callback=watch, **QUICK)
    info = json.loads((run.path / "run.json").read_text())
    assert (info["status"], info["frames"]) == ("finished", 110)
    assert list(run.evaluations["frames"]) == [110]
    squares = run.metrics.set_index("frames")["square"]
    mean = sum(frames**2 for frames in range(76, 111)) / 35
    assert squares.isna().to_list() == [True, False]
    assert squares[110] == pytest.approx(mean)
    run.resume()
    assert list(run.metrics["frames"]) == [70, 140, 150]


def test_a_callback_returns_a_truth_or_nothing() -> None:
    with pytest.raises(ConfigError, match="the callback returned 1: return true to end"):
        rlkit_sac.train("sac", callback=lambda run: run.frames, **QUICK)


def test_a_resumed_run_knows_its_last_numbers() -> None:
    run = rlkit_sac.train("sac", seed=np.int64(1), **QUICK)
    found: list[dict[str, float]] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run.resume(
            callback=lambda training: found.append(dict(training.latest)),
            **{"collector.total_frames": 151},
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert found[0]["alpha"] > 0
    assert found[0]["evaluation"] == run.evaluations["return_mean"].iloc[0]  # at frame 110


def test_ctrl_c_saves_and_raises(tmp_path: Path) -> None:
    def interrupt(run: rlkit_sac.runs.TrainingRun) -> None:
        if run.frames == 93:
            signal.raise_signal(signal.SIGINT)

    options = QUICK | {"env": pendulum, "name": "my_task", "collector.learning_starts": 60}
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            rlkit_sac.train("sac", callback=interrupt, **options)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, outside)
    path = stopped.value.run_path
    if sys.version_info >= (3, 11):
        place = path.relative_to(Path.cwd()) if path.is_absolute() else path
        go_on = f"rlkit_sac.Run('{place}', env=function).resume()"
        assert stopped.value.__notes__ == [f"results so far: {place}", f"continue with: {go_on}"]
    run = rlkit_sac.Run(path, env=pendulum).resume()
    info = json.loads((path / "run.json").read_text())
    assert (info["resumed_at"], info["exact"]) == (93, True)
    assert_same_run(rlkit_sac.train("sac", **options).path, run.path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"update.utd_rato": 2}, "update.utd_rato: unknown option; did you mean update.utd"),
        ({"env": "Pendulun-v1"}, "env.id: unknown environment 'Pendulun-v1'"),
        ({"config": "pendulom"}, "no configuration of this name; did you mean pendulum"),
        ({"config": "platform"}, "config: platform is a configuration of hybrid_sac, not of sac"),
        ({"env": 3}, "got env=3 and name=None"),
        ({"name": "my_task"}, "got env=None and name='my_task'"),
        ({"env": pendulum, "name": "Pendulum-v1"}, "'Pendulum-v1', which is an environment of"),
        (
            {"env": pendulum, "name": "my_task", "workers.number": 2},
            "workers.number: other processes cannot make the environments of a function",
        ),
        ({"env": pendulum(), "name": "my_task"}, "got env=<TimeLimit"),
        ({"seeds": "0,1", "jobs": 2}, "seeds: unknown option; did you mean seed?"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_wrong_arguments_are_one_error_before_anything_is_made(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        rlkit_sac.train("sac", **arguments)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert "my_task" not in gym.registry


def test_a_script_of_ones_own(tmp_path: Path) -> None:
    script, recipe = tmp_path / "my_sac.py", Path(rlkit_sac.__file__).parents[1] / "recipes/sac.py"
    script.write_text(recipe.read_text().replace('recipe="sac"', 'recipe="my_sac"'))
    run = rlkit_sac.train(script, **QUICK)
    assert run.path.parent == Path("runs/my_sac/Pendulum-v1")
    run.resume(**{"collector.total_frames": 155})
    assert list(run.evaluations["frames"]) == [110, 155]
    with pytest.raises(ConfigError, match=shlex.quote("my_sac.py")):
        rlkit_sac.Run(run.path).resume()
    again = rlkit_sac.Run(run.path, recipe=script)
    again.resume(**{"collector.total_frames": 157})
    assert list(again.evaluations["frames"]) == [110, 157]
    script.write_text("1 + 1\n")
    with pytest.raises(ConfigError, match=r"my_sac\.py is no recipe"):
        rlkit_sac.train(script)
