import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.analysis import (
    final_performance,
    learning_curves,
    load_external_runs,
    load_runs,
    plot_learning_curves,
)
from rlkit_sac.errors import ConfigError, RunError

DATA = Path(__file__).parent / "data"  # its README says how the files were made
SB3, CLEANRL, TORCHRL = DATA / "stable_baselines3", DATA / "cleanrl", DATA / "torchrl"


@pytest.fixture
def logs(tmp_path):
    """A copy of the files that may be damaged."""
    return shutil.copytree(DATA, tmp_path / "logs")


def test_evaluations_of_stable_baselines3():
    with pytest.warns(UserWarning, match=r"2 of 3 runs left out: .*ppo_cartpole"):
        data = load_external_runs(SB3)
    names = ["run", "recipe", "task", "seed", "system", "frames", "return_mean"]
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


def test_a_monitor_with_a_name_is_a_run_of_its_own(logs):
    (logs / "seed2.monitor.csv").write_bytes((SB3 / "sac_pendulum.monitor.csv").read_bytes())
    (logs / "seed3.monitor.csv").write_bytes((SB3 / "sac_pendulum.monitor.csv").read_bytes())
    data = load_external_runs(logs.glob("*.monitor.csv"), table="episodes")
    assert [Path(run).name for run in data["run"].unique()] == ["seed2", "seed3"]
    assert data["frames"].tolist() == 2 * [200 * k for k in range(1, 11)]


def test_progress_without_a_monitor_gives_the_mean_of_the_last_episodes():
    data = load_external_runs(SB3 / "sac_pendulum", table="episodes", task="Pendulum-v1", seed=1)
    assert data["frames"].tolist() == [400, 800, 1200, 1600, 2000]
    assert data["return"].iloc[0] == -1163.380141
    assert data["seed"].tolist() == [1] * 5


def test_tensorboard_files_of_stable_baselines3():
    folder = SB3 / "ppo_cartpole" / "tensorboard"
    data = load_external_runs(folder, table="episodes", task="CartPole-v1", recipe="ppo")
    assert set(data["system"]) == {"Stable-Baselines3"}
    assert data["frames"].tolist() == [512, 1024, 1536]
    other = load_external_runs(folder, tag="train/learning_rate", task="CartPole-v1")
    assert other["return_mean"].tolist() == pytest.approx([3e-4] * 2)
    assert set(other["system"]) == {"TensorBoard"}


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


def test_they_are_compared_with_runs_of_recipes(make_run, tmp_path):
    rows = "".join(f"{200 * k},-1000.0\n" for k in range(1, 11))
    for seed in (1, 2):
        make_run(f"seed{seed}", seed=seed, episodes=f"frames,return\n{rows}")
    ours = load_runs(tmp_path, table="episodes")
    others = load_external_runs([CLEANRL, SB3 / "sac_pendulum.monitor.csv"], table="episodes")
    data = pd.concat([ours, others], ignore_index=True)
    assert str(data["seed"].dtype) == "Int64"
    curves = learning_curves(data, column="return")
    assert curves.groupby("recipe")["runs"].first().to_dict() == {
        "Stable-Baselines3": 1,
        "sac": 2,
        "sac_continuous_action": 2,
    }
    assert final_performance(data, column="return")["runs"].tolist() == [1, 2, 2]
    labels = [
        text.get_text()
        for text in plot_learning_curves(
            data.assign(system=data["system"].fillna("rlkit_sac")), column="return", by="system"
        )
        .legends[0]
        .get_texts()
    ]
    assert labels == ["CleanRL (2 runs)", "Stable-Baselines3 (1 run)", "rlkit_sac (2 runs)"]


def test_what_a_log_lacks_is_named(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"no logs found under .*progress\.csv"):
        load_external_runs(tmp_path)
    with pytest.raises(ConfigError, match=r"no logs found under .*nowhere"):
        load_external_runs(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r"no logs found under .*loop"):
        load_external_runs(tmp_path / "loop")
    with pytest.raises(ConfigError, match="table is 'metrics'; choose 'evaluations' or 'episodes'"):
        load_external_runs(SB3, table="metrics")
    with pytest.raises(RunError, match="has monitors alone: table='episodes' reads them"):
        load_external_runs(SB3 / "sac_pendulum.monitor.csv")
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(ConfigError, match=r"pip install 'rlkit_sac\[tensorboard\]'"):
        load_external_runs(CLEANRL, table="episodes")


def test_the_log_that_holds_the_return_is_read_of_several(logs, monkeypatch):
    run = logs / "stable_baselines3" / "sac_pendulum"
    (events,) = (CLEANRL / "Pendulum-v1__sac_continuous_action__1__1795353368").iterdir()
    shutil.copy(events, run)
    evaluations = load_external_runs(run, task="Pendulum-v1")
    assert set(evaluations["system"]) == {"Stable-Baselines3"}
    loss = load_external_runs(run, tag="losses/qf_loss")
    assert set(loss["system"]) == {"TensorBoard"}
    assert set(loss["seed"]) == {1}
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    assert load_external_runs(run, task="Pendulum-v1").equals(evaluations)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("sac_pendulum/progress.csv", b"-1376.1470635", b"many", "line 3: eval/mean_reward should"),
        ("sac_pendulum/progress.csv", b"time/total_timesteps", b"steps", "no column time/total_"),
        ("sac_pendulum/progress.csv", b"1000,", b"\xff\xfe,", "cannot be read as a table"),
        ("sac_pendulum.monitor.csv", b"#{", b"{{", "line 1: # and a JSON object"),
        ("sac_pendulum.monitor.csv", b"-1093.527432", b"-1093.5-274", "line 5: r should be a num"),
    ],
)
def test_a_damaged_log_is_named_with_its_line(logs, file, old, new, message):
    path = logs / "stable_baselines3" / file
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    table = "evaluations" if "progress" in file else "episodes"
    with pytest.raises(RunError, match=rf"{path.name}(, | has | ){message}"):
        load_external_runs(path, table=table, task="Pendulum-v1")


def test_a_log_without_rows_adds_none(logs):
    monitor = logs / "stable_baselines3" / "sac_pendulum.monitor.csv"
    for lines in (2, 1):
        monitor.write_bytes(b"".join(monitor.read_bytes().splitlines(keepends=True)[:lines]))
        assert load_external_runs(monitor, table="episodes").empty
    (logs / "torchrl/random_policy/scalars/eval/reward.csv").write_text("29,2")
    assert load_external_runs(logs / "torchrl", task="CartPole-v1").empty
