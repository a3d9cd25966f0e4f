"""What goes on beside a recipe's loop, method by method, on a task whose best return is known."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.config import (
    CheckpointConfig,
    CollectorConfig,
    EnvConfig,
    EvaluationConfig,
    LoggingConfig,
    ReplayConfig,
)
from rlkit_sac.data import example_transition, make_collector, make_replay_buffer
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import (
    Parts,
    RunConfig,
    Session,
    TrainingRun,
    load_policy,
    make_envs,
    training_run,
)
from rlkit_sac.runs.stop import Interrupted, results_so_far
from tests.envs.conftest import Still
from tests.runs.recipe_updates import make_update

STEPS = 5


class Press(Still):
    """The reward is the action; after five steps an episode is over."""

    def reset(self, **options):
        self.steps = 0
        return super().reset(**options)

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float(action[0]), self.steps == STEPS, False, {}


gym.register("Press-v0", entry_point=Press)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@dataclass
class Loop:
    """A run and its parts, and the steps of a recipe's loop."""

    run: TrainingRun
    loss_module: ContinuousSACLoss
    batches: Iterator[TensorDictBase]
    replay: Any
    update: Callable[[TensorDictBase], dict[str, Tensor]]

    def collect(self, batches: int = 1) -> None:
        for _ in range(batches):
            batch = next(self.batches)
            self.replay.extend(batch.select(*self.loss_module.in_keys).reshape(-1))
            self.run.collected(batch)

    def press(self, action: float) -> None:
        """Let the greedy policy always take this action."""
        parameters = self.loss_module.actor_network_params
        with torch.no_grad():
            for parameter in parameters.parameters():
                parameter.zero_()
            (bias,) = (p for p in parameters.parameters() if p.shape == (2,))  # mean and log-std
            bias[0] = torch.tensor(action).atanh()


def config(
    *,
    task: str = "Press-v0",
    frames: int = 40,
    batch: int = 2,
    logging: int = 1000,
    evaluation: int = 1000,
    checkpoint: int = 1000,
    **options: Any,
) -> RunConfig:
    return RunConfig(
        env=EnvConfig(id=task),
        collector=CollectorConfig(total_frames=frames, frames_per_batch=batch),
        replay=ReplayConfig(capacity=100, batch_size=4),
        evaluation=EvaluationConfig(interval=evaluation, episodes=2),
        logging=LoggingConfig(interval=logging, progress=False),
        checkpoint=CheckpointConfig(interval=checkpoint, keep=100),
        device="cpu",
        **options,
    )


@contextmanager
def begun(
    config: RunConfig,
    *,
    compile_from: int | None = None,
    session: Session | None = None,
    **facts: Any,
) -> Iterator[Loop]:
    with make_envs(config, session) as (env, eval_env, session):
        sizes = {"observation_dim": 2, "action_low": [-1.0], "action_high": [1.0]}
        sizes["num_cells"] = [4]
        loss_module = ContinuousSACLoss(
            tanh_gaussian_actor(**sizes), state_action_critic(2, 1, num_cells=[4])
        )
        update = make_update(loss_module, config.update, compile_from=compile_from)
        replay = make_replay_buffer(
            example_transition(env, loss_module.in_keys),
            capacity=config.replay.capacity,
            batch_size=config.replay.batch_size,
        )
        collector = make_collector(
            env,
            loss_module.policy(),
            total_frames=config.collector.total_frames,
            frames_per_batch=config.collector.batch_frames(1),
        )
        with training_run(
            config,
            session,
            Parts(loss_module, update, replay, collector),
            recipe="test",
            eval_env=eval_env,
            **facts,
        ) as run:
            yield Loop(run, loss_module, iter(collector), replay, update)


def table(run: TrainingRun, name: str) -> pd.DataFrame:
    return pd.read_csv(run.path / f"{name}.csv")


def info(run: TrainingRun) -> dict[str, Any]:
    return json.loads((run.path / "run.json").read_text())


def saved_at(run: TrainingRun) -> list[int]:
    names = [path.name for path in (run.path / "checkpoints").glob("step_*")]
    return sorted(int(name.removeprefix("step_")) for name in names)


# ------------------------------------------------------------------ beginning and end


def test_a_run_begins_with_its_facts_and_ends_finished(capsys: pytest.CaptureFixture[str]) -> None:
    with begun(config(seed=3), target_entropy=-1.5) as loop:
        assert loop.run.path.parent == Path("runs/test/Press-v0")
        assert loop.run.path.name.endswith("-seed3")
        said = info(loop.run)
        assert (said["status"], said["target_entropy"]) == ("running", -1.5)
        assert (said["device"], said["num_threads"]) == ("cpu", 1)
        # Actor 2-4-2, two critics 3-4-1, the temperature; no targets.
        assert said["parameters"] == (2 * 4 + 4 + 4 * 2 + 2) + 2 * (3 * 4 + 4 + 4 + 1) + 1
        loop.collect(3)
    said = info(loop.run)
    assert (said["status"], said["frames"], said["updates"]) == ("finished", 6, 0)
    assert saved_at(loop.run) == [6]
    assert str(loop.run.path) in capsys.readouterr().out


# ------------------------------------------------------------------ evaluation


def test_an_evaluation_is_due_at_multiples_and_tells_whether_it_is_the_best() -> None:
    with begun(config(evaluation=4)) as loop:
        best = []
        for action in (0.1, 0.5, 0.2, -0.5, 0.3, 0.9, 0.4, 0.9):
            loop.press(action)
            loop.collect()
            best.append(loop.run.evaluate_if_due())
    # At 2, 6, 10 and 14 frames nothing is due; an equal is as good.
    assert best == [False, True, False, False, False, True, False, True]
    evaluations = table(loop.run, "evaluations")
    assert list(evaluations["frames"]) == [4, 8, 12, 16]
    wanted = STEPS * np.array([0.5, -0.5, 0.9, 0.9])
    assert evaluations["return_mean"].to_numpy() == pytest.approx(wanted, abs=1e-4)
    assert (evaluations["episodes"] == 2).all()


# ------------------------------------------------------------------ saving


def test_checkpoints_come_at_the_interval_for_the_best_and_at_the_end() -> None:
    with begun(config(checkpoint=8)) as loop:
        for i in range(7):
            loop.collect()
            loop.run.save_if_due(best=i == 1)
    # The best at 4 counts as well: the next are those at the multiples.
    assert saved_at(loop.run) == [4, 8, 14]


@pytest.mark.parametrize(
    ("compile_from", "updates", "saved"),
    [
        (4, 1, [6]),  # after three updates
        (4, 2, [2]),  # the fourth is the last of the second step
        (1, 1, [6]),  # the first update, after 4 frames, is not compiled
    ],
)
def test_a_checkpoint_comes_before_the_step_that_compiles(
    monkeypatch: pytest.MonkeyPatch, compile_from: int, updates: int, saved: list[int]
) -> None:
    monkeypatch.setattr("rlkit_sac.updates.compiled.compile_graph", lambda graph, inputs: graph)
    found: list[list[int]] = []
    options = config()
    options.collector.learning_starts = 4 if compile_from == 1 else 0
    with begun(options, compile_from=compile_from) as loop:

        @contextmanager
        def compiling() -> Iterator[None]:
            found.append(saved_at(loop.run))
            yield

        loop.update.announce_compiling(compiling)
        for _ in range(8):
            loop.collect()
            for _ in range(updates if loop.run.frames > options.collector.learning_starts else 0):
                loop.run.updated(loop.update(loop.replay.sample()))
            loop.run.save_if_due(best=False)
    assert found == [saved]


def test_a_checkpoint_before_compiling_is_not_repeated_until_there_is_an_update() -> None:
    with begun(config(), compile_from=2) as loop:
        for index in range(4):
            loop.collect()
            if index == 0:
                loop.run.updated(loop.update(loop.replay.sample()))
            loop.run.save_if_due(best=False)
            assert saved_at(loop.run) == [2]


def test_a_checkpoint_holds_the_policy_of_its_moment() -> None:
    with begun(config()) as loop:
        for action in (0.25, 0.75):
            loop.press(action)
            loop.collect()
            loop.run.save_if_due(best=True)
    states = loop.replay[:1].select("observation")
    for frames, action in ((2, 0.25), (4, 0.75)):
        policy = load_policy(loop.run.path / "checkpoints" / f"step_{frames}")
        assert policy(states.clone())["action"].item() == pytest.approx(action, abs=1e-5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_step_end_saves_and_stops(number: int) -> None:
    steps: list[str] = []

    def loop_until_stopped() -> None:
        with begun(config(evaluation=4)) as loop:
            runs.append(loop.run)
            loop.collect()
            loop.run.save_if_due(best=False)
            signal.raise_signal(number)
            steps.append("after the signal")
            loop.collect()
            loop.run.evaluate_if_due()
            steps.append("end of the step")
            loop.run.save_if_due(best=False)
            steps.append("next step")

    runs: list[TrainingRun] = []
    # In a shell's background job Ctrl-C is ignored, and stays so; here it must not be.
    outside, before = signal.getsignal(number), signal.default_int_handler
    signal.signal(number, before)
    try:
        with pytest.raises(Interrupted) as stopped:
            loop_until_stopped()
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, outside)
    assert stopped.value.exit_code == 128 + number
    assert results_so_far(stopped.value)[0] == f"results so far: {runs[0].path}"
    assert steps == ["after the signal", "end of the step"]
    assert saved_at(runs[0]) == [4]
    assert info(runs[0])["status"] == "interrupted"
    assert list(table(runs[0], "evaluations")["frames"]) == [4]


# ------------------------------------------------------------------ going on


def test_a_run_goes_on_at_its_newest_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"logging": 4, "evaluation": 6, "checkpoint": 4}
    with begun(config(frames=10, **options)) as first:
        for _ in range(5):
            first.collect()
            first.run.updated(first.update(first.replay.sample()))
            first.run.write_metrics_if_due()
            first.run.save_if_due(best=first.run.evaluate_if_due())
    weights = {name: w.clone() for name, w in first.loss_module.state_dict().items()}
    capsys.readouterr()
    with begun(config(frames=20, resume=str(first.run.path), **options)) as second:
        assert "at frame 10" in capsys.readouterr().out
        assert (second.run.frames, second.run.updates) == (10, 5)
        assert len(second.replay) == 10
        assert all(
            torch.equal(second.loss_module.state_dict()[name], w) for name, w in weights.items()
        )
        second.collect()
        second.run.write_metrics_if_due()
        second.run.evaluate_if_due()
    assert second.run.path == first.run.path
    said = info(second.run)
    assert (said["frames"], said["resumed_at"], len(said["sessions"])) == (12, 10, 1)
    # The first end's own rows, at 10, are gone: a longer run would not have had them.
    assert list(table(second.run, "metrics")["frames"]) == [4, 8, 12]
    assert list(table(second.run, "evaluations")["frames"]) == [6, 12]
    assert list(table(second.run, "episodes")["frames"]) == [5, 10]


def test_what_another_process_has_added_meanwhile_is_not_discarded() -> None:
    with begun(config(frames=4)) as first:
        first.collect(2)
    late = config(frames=20, resume=str(first.run.path))
    session = Session()
    session.find_start(late.resume)
    assert session.start.frames == 4
    with begun(config(frames=8, resume=str(first.run.path))) as second:
        second.collect(2)
    with (
        pytest.raises(ConfigError, match="went on in another process"),
        begun(late, session=session),
    ):
        pytest.fail("it began")
    assert saved_at(first.run) == [4, 8]
    assert info(first.run)["frames"] == 8


def test_a_run_that_compiles_otherwise_is_not_exact(capsys: pytest.CaptureFixture[str]) -> None:
    with begun(config(frames=10), compile_from=3) as loop:
        for _ in range(2):
            loop.collect()
            loop.run.updated(loop.update(loop.replay.sample()))
    path, since = str(loop.run.path), "compiled from update 2 on"
    for options, first, reason in (
        ({}, 3, None),
        ({}, None, None),  # no update before the checkpoint would have been compiled
        ({}, 2, f"not compiled, and are {since} now"),
        ({"compile": False}, None, f"{since}, and are not compiled now"),
        ({"compile": "auto"}, None, None),  # neither before nor after
    ):
        frames = loop.run.frames
        with begun(config(resume=path, **options), compile_from=first) as loop:
            loop.collect()
        printed, said = capsys.readouterr().out, info(loop.run)
        assert (said["resumed_at"], said["exact"]) == (frames, reason is None)
        assert (
            f"not exactly the run that never stopped: updates were {reason}" in printed
        ) == bool(reason)
