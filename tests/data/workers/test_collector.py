"""Workers on Ray: what they collect, and what happens when they fail."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import NStepTransform, WorkerCollector, make_collector
from rlkit_sac.envs import make_env
from rlkit_sac.errors import EnvironmentFault, WorkersLost
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs.stop import describe_failure
from tests.data.collect.test_light_collector import TASKS, assert_same, move
from tests.data.replay.test_n_steps import GAMMA, N, enumerated, lines
from tests.data.workers.conftest import CPUS
from tests.data.workers.tasks import create

pytestmark = pytest.mark.usefixtures("cluster")


@contextmanager
def collecting(
    create_env: Callable[..., Any], policy: Any = None, **options: Any
) -> Iterator[WorkerCollector]:
    options = {"workers": 2, "num_envs": 1, "total_frames": 200, "frames_per_batch": 10} | options
    options = {"updates": lambda: 0, "cpus": CPUS} | options
    policy = policy or tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    collector = WorkerCollector(create_env, policy, **options)
    try:
        yield collector
    finally:
        collector.shutdown()


def pendulum(**options: Any) -> Callable[..., Any]:
    return partial(make_env, "Pendulum-v1", seed=1, **{"max_episode_steps": 7, **options})


def assert_whole_episodes(batches: list[TensorDict]) -> dict[int, torch.Tensor]:
    """No frame of a trajectory is missing, and it begins with an episode; their steps by number."""
    steps: dict[int, list[torch.Tensor]] = {}
    for batch in batches:
        numbers = batch["collector", "traj_ids"]
        for number in numbers.unique().tolist():
            own = batch[numbers == number]
            steps.setdefault(number, []).append(own["step_count"].flatten())
    joined = {number: torch.cat(parts) for number, parts in steps.items()}
    for found in joined.values():
        assert torch.equal(found, torch.arange(len(found)))
    return joined


def first_observations(batches: list[TensorDict]) -> torch.Tensor:
    frames = torch.cat(batches)
    return frames["observation"][frames["is_init"].squeeze(-1)]


def take_until_a_fault(collector: Any, policy: Any) -> tuple[list[TensorDict], EnvironmentFault]:
    torch.manual_seed(1)
    batches: list[TensorDict] = []
    try:
        for batch in collector:
            batches.append(batch.clone())
            move(policy)
    except EnvironmentFault as fault:
        return batches, fault
    raise AssertionError("no environment has failed")


def test_synchronous_workers_are_one_process_also_where_an_environment_fails() -> None:
    options = {"total_frames": 80, "frames_per_batch": 20, "init_random_frames": 20}
    make_policy = TASKS["time limit"][2]
    torch.manual_seed(0)
    policy = make_policy()
    env = create(0, num_envs=4, how="raise")
    wanted, expected_fault = take_until_a_fault(make_collector(env, policy, **options), policy)
    torch.manual_seed(0)
    policy = make_policy()
    envs = partial(create, num_envs=2, faulty=3, how="raise")
    with collecting(envs, policy, num_envs=2, **options) as collector:
        found, fault = take_until_a_fault(collector, policy)
        assert collector.frames == collector.state_dict()["frames"] == 40
    assert len(found) == len(wanted) == 2
    for batch, expected in zip(found, wanted, strict=True):
        assert_same(batch, expected)
    *trace, line = describe_failure(fault).splitlines()
    assert re.match(
        r"error: worker 1 \(pid \d+ on \S+\): at the frames 41 to 60 of the run: environment 2 "
        r"raised ZeroDivisionError: division by zero in step 5 of its episode 1 \(",
        line,
    )
    assert "faulty.py" in trace[1]
    assert trace == describe_failure(expected_fault).splitlines()[:-1]


@pytest.mark.slow
def test_asynchronous_workers_lose_nothing_and_are_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    batches: list[TensorDict] = []
    # Whichever worker comes to its second episode first.
    envs = partial(create, how="kill", once=str(tmp_path / "dead"))
    made = {"updates": lambda: len(batches), "publish_interval": 3}
    with collecting(envs, policy, mode="async", **made) as collector:
        for batch in collector:
            batches.append(batch.clone())
            if len(batches) == 3:
                time.sleep(0.5)  # the learner is busy, and the workers have to wait
            with torch.no_grad():  # all actions become 1
                [*policy.parameters()][-1][0] = 100.0
            if len(batches) == 18:
                state = collector.state_dict()
        assert collector.frames == sum(map(len, batches)) == 200
    assert (tmp_path / "dead").exists()
    warned = r"warning: worker \d \(pid \d+ on \S+\) died \(ActorDiedError\): restart 1 of 10"
    assert re.search(warned, capsys.readouterr().err)
    assert_whole_episodes(batches)
    transform = NStepTransform(N, GAMMA)
    rows = [each for batch in batches if (each := transform.inv(batch)) is not None]
    torch.testing.assert_close(lines(torch.cat(rows)), enumerated(torch.cat(batches)))
    firsts = first_observations(batches)
    assert len(firsts.unique(dim=0)) == len(firsts) >= 200 // 7
    assert (torch.cat(batches[-4:])["action"] > 0.99).all()
    assert state["frames"] == 180


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [1, None])
def test_workers_that_keep_dying(faulty: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    envs = partial(create, faulty=faulty, how="kill")
    with collecting(envs, mode="async", restarts=0, total_frames=10**6) as collector:
        if faulty is None:
            with pytest.raises(WorkersLost, match=r"died .* after 0 restarts"):
                list(collector)
            assert collector.state_dict()["workers"] == [None, None]
            return
        batches = iter(collector)
        while len(collector._actors) == 2:  # until the other one is dead
            next(batches)
        assert collector.state_dict()["workers"][1] is None
        assert sum(len(next(batches)) for _ in range(5)) == 50
    warned = r"worker 1 \(.*\) died \(ActorDiedError\) after 0 restarts \(workers.restarts\)"
    assert re.search(warned, capsys.readouterr().err)


@pytest.mark.slow  # synchronous ones: tests/recipes/test_workers.py
def test_a_state_goes_on_in_other_asynchronous_workers() -> None:
    with collecting(pendulum(), mode="async") as first:
        batches = iter(first)
        seen = torch.cat([next(batches).clone() for _ in range(5)])
        state = first.state_dict()
    with collecting(pendulum(), mode="async") as second:
        second.load_state_dict(state)
        found = torch.cat([batch.clone() for batch in second])
        assert second.frames == 200
        assert second.inexact_reasons
    assert len(found) == 150
    assert found["collector", "traj_ids"].min() > seen["collector", "traj_ids"].max()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_that_hangs_is_named_and_one_that_starts_does_not_hang(mode: Any) -> None:
    envs = partial(create, faulty=1, how="hang")
    hangs = r"^no answer from worker 1 \(pid \d+ on \S+\) in 2 s \(workers.patience\)$"
    with collecting(envs, mode=mode, patience=2.0) as collector:  # imports take longer
        batches = iter(collector)
        if mode == "async":  # the other one goes on
            assert sum(len(next(batches)) for _ in range(10)) == 100
            assert [state is None for state in collector.state_dict()["workers"]] == [False, True]
        with pytest.raises(WorkersLost, match=hangs):
            list(batches)
        assert collector.state_dict()["workers"] == [None, None]


@pytest.mark.slow
def test_a_worker_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlkit_sac.data.workers.collector._SECONDS_TO_START", 0.1)
    starts = r"from worker 0 \(starting\) and worker 1 \(starting\) in 0.1 s"
    with pytest.raises(WorkersLost, match=starts), collecting(pendulum(), patience=0.1):
        pass
