import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.tensorboard import SummaryWriter

from rlkit_sac.analysis import load_external_runs
from rlkit_sac.errors import RunError

DATA = Path(__file__).parent / "data"  # its README says how the files were made
SB3, CLEANRL, TORCHRL = DATA / "stable_baselines3", DATA / "cleanrl", DATA / "torchrl"


def test_evaluations_of_stable_baselines3():
    with pytest.warns(UserWarning, match=r"2 of 3 runs left out: .*ppo_cartpole"):
        data = load_external_runs(SB3)
    names = ["seed", "frames", "return_mean", "run", "system", "recipe", "task"]
    assert list(data.columns) == names
    assert data["frames"].tolist() == [500, 1000, 1500, 2000]
    assert data["return_mean"].iloc[0] == -1376.1470635
    # The monitor beside the folder knows the task; nothing knows the seed.
    assert set(data["task"]) == {"Pendulum-v1"}
    assert set(data["recipe"]) == set(data["system"]) == {"Stable-Baselines3"}
    assert data["seed"].isna().all()


def test_monitors_of_one_run_are_its_episodes_in_the_order_of_time():
    data = load_external_runs(SB3 / "ppo_cartpole" / "0.monitor.csv", table="episodes")
    assert data[["frames", "return", "length"]].head(2).to_numpy().tolist() == [
        [29, 29, 29],
        [43, 14, 14],
    ]
    with pytest.warns(UserWarning, match=r"PPO_1 do not tell its task"):
        data = load_external_runs(SB3 / "ppo_cartpole", table="episodes")
    assert data["run"].nunique() == 1
    assert data["length"].head(3).tolist() == [14, 13, 29]
    assert data["frames"].head(3).tolist() == [14, 27, 56]
    assert len(data) == 30 + 29


def test_tensorboard_files_of_stable_baselines3():
    folder = SB3 / "ppo_cartpole" / "tensorboard"
    data = load_external_runs(folder, table="episodes", task="CartPole-v1", recipe="ppo")
    assert set(data["system"]) == {"Stable-Baselines3"}
    assert data["frames"].tolist() == [512, 1024, 1536]
    other = load_external_runs(folder, tag="train/learning_rate", task="CartPole-v1")
    assert other["return_mean"].tolist() == pytest.approx([3e-4] * 2)
    assert set(other["system"]) == {"TensorBoard"}


def test_csv_logs_of_torchrl():
    data = load_external_runs(TORCHRL, task="CartPole-v1", recipe="random")
    assert data[["frames", "return_mean"]].to_numpy().tolist() == [
        [29, 23],
        [82, 34],
        [113, 17],
        [149, 28],
    ]
    data = load_external_runs(TORCHRL, table="episodes", task="CartPole-v1")
    assert data["return"].head(2).tolist() == [16, 13]
    lengths = load_external_runs(TORCHRL, tag="train/episode_length", task="CartPole-v1")
    assert lengths["return_mean"].head(2).tolist() == [16, 13]
    assert set(lengths["system"]) == {"TorchRL"}
    with pytest.raises(RunError, match=r"random_policy do not tell its task: .*task='...'"):
        load_external_runs(TORCHRL)


def test_cleanrl_tells_task_algorithm_and_seed():
    data = load_external_runs(CLEANRL, table="episodes")
    assert set(data["task"]) == {"Pendulum-v1"}
    assert set(data["recipe"]) == {"sac_continuous_action"}
    assert set(data["system"]) == {"CleanRL"}
    assert data.groupby("seed").size().to_dict() == {1: 8, 2: 8}
    assert data["frames"].head(2).tolist() == [199, 399]
    assert data["return"].iloc[0] == pytest.approx(-876.488464)
    with pytest.raises(RunError, match=r"no eval/mean_reward or .*; it has charts/episodic_return"):
        load_external_runs(CLEANRL)


@given(sessions=st.lists(st.lists(st.floats(0.5, 9), min_size=1, max_size=4), max_size=4))
def test_sessions_in_one_monitor_stay_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[float]]
) -> None:
    folder = tmp_path_factory.mktemp("monitor")
    times = [t for steps in sessions for t in np.cumsum(steps).tolist()]
    lines = ['#{"t_start": 5.0, "env_id": "X-v0"}', "r,l,t"]
    lines += [f"{number},10,{t}" for number, t in enumerate(times)]
    (folder / "monitor.csv").write_text("\n".join(lines) + "\n")
    restarts = (np.diff(times) < 0).any()
    with pytest.warns(UserWarning, match="another session") if restarts else nullcontext():
        data = load_external_runs(folder, table="episodes")
    assert data["return"].tolist() == list(range(len(times)))
    assert data["frames"].tolist() == [10 * (number + 1) for number in range(len(times))]


def test_the_environments_of_two_sessions_are_joined_by_time(tmp_path: Path) -> None:
    for env, start, returns in (("0", 0.5, [2, 4, 6, 8]), ("1", 0.0, [1, 3, 5, 7])):
        rows = "".join(f"{r},1,{t}\n" for r, t in zip(returns, (1, 2, 1, 2), strict=True))
        text = f'#{{"t_start": {start}, "env_id": "X-v0"}}\nr,l,t\n' + rows
        (tmp_path / f"{env}.monitor.csv").write_text(text)
    with pytest.warns(UserWarning, match=r"line 5: the time goes back"):
        data = load_external_runs(tmp_path, table="episodes")
    assert data["return"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("system", ["sb3", "torchrl", "tensorboard"])
def test_frames_that_go_back_are_told(tmp_path: Path, system: str) -> None:
    rows = [(1000, 1.0), (2000, 2.0), (1000, 101.0), (2000, 102.0)]
    if system == "sb3":
        lines = ["time/total_timesteps,eval/mean_reward", *(f"{n},{v}" for n, v in rows)]
        (tmp_path / "progress.csv").write_text("\n".join(lines) + "\n")
    elif system == "torchrl":
        file = tmp_path / "scalars" / "eval" / "reward.csv"
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"{n},{v}\n" for n, v in rows))
    else:
        for session in (rows[:2], rows[2:]):
            writer = SummaryWriter(str(tmp_path))
            for frames, value in session:
                writer.add_scalar("eval/mean_reward", value, frames)
            writer.close()
            time.sleep(1.1)  # the name of a file has the second
    with pytest.warns(UserWarning, match="frames 1000 come after 2000"):
        data = load_external_runs(tmp_path, task="X")
    assert list(zip(data["frames"], data["return_mean"], strict=True)) == rows


def test_monitors_of_several_tasks_do_not_tell_the_task(tmp_path: Path) -> None:
    for number, task in enumerate(("A-v0", "B-v0")):
        text = f'#{{"t_start": 0.0, "env_id": "{task}"}}\nr,l,t\n1,10,1\n'
        (tmp_path / f"{number}.monitor.csv").write_text(text)
    with pytest.raises(RunError, match="do not tell its task"):
        load_external_runs(tmp_path, table="episodes")
    assert len(load_external_runs(tmp_path, table="episodes", task="both")) == 2


def test_the_files_of_a_run_are_one_and_those_of_our_runs_are_left_out(tmp_path: Path) -> None:
    log, ours = tmp_path / "log", tmp_path / "ours"
    log.mkdir()
    ours.mkdir()
    (log / "progress.csv").write_text("time/total_timesteps,eval/mean_reward\n10,1.0\n")
    monitor = '#{"t_start": 1.0, "env_id": "Ant-v5"}\nr,l,t\n2.0,10,0.5\n'
    (log / "train.monitor.csv").write_text(monitor)
    (ours / "run.json").touch()
    (ours / "events.out.tfevents.1").touch()
    tables = [load_external_runs(tmp_path, table=name) for name in ("evaluations", "episodes")]
    for table in tables:
        assert table[["run", "task"]].to_numpy().tolist() == [[str(log.resolve()), "Ant-v5"]]
    (log / "eval.monitor.csv").write_text(monitor)  # of other episodes
    assert load_external_runs(tmp_path, table="episodes").equals(tables[1])
    (log / "test.monitor.csv").write_text(monitor)
    assert load_external_runs(tmp_path, table="episodes")["run"].nunique() == 2
    (log / "progress.csv").unlink()
    (log / "train.monitor.csv").rename(log / "0.monitor.csv")
    assert load_external_runs(tmp_path, table="episodes")["run"].nunique() == 2


def test_a_log_without_rows_is_empty_or_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,eval/mean_reward\n")
    assert load_external_runs(tmp_path, task="X").empty
    (tmp_path / "progress.csv").write_text("")
    with pytest.raises(RunError, match=tmp_path.name):
        load_external_runs(tmp_path, task="X")


def test_an_entry_that_is_nan_is_left_out(tmp_path: Path) -> None:
    text = "time/total_timesteps,eval/mean_reward\n10,1.0\n20,\n30,nan\n"
    (tmp_path / "progress.csv").write_text(text)
    assert load_external_runs(tmp_path, task="X")["frames"].tolist() == [10]
