from pathlib import Path

import pytest

from rlkit_sac.analysis import (
    load_external_runs,
)

DATA = Path(__file__).parent / "data"  # its README says how the files were made
SB3, CLEANRL, TORCHRL = DATA / "stable_baselines3", DATA / "cleanrl", DATA / "torchrl"


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


def test_tensorboard_files_of_stable_baselines3():
    folder = SB3 / "ppo_cartpole" / "tensorboard"
    data = load_external_runs(folder, table="episodes", task="CartPole-v1", recipe="ppo")
    assert set(data["system"]) == {"Stable-Baselines3"}
    assert data["frames"].tolist() == [512, 1024, 1536]
    other = load_external_runs(folder, tag="train/learning_rate", task="CartPole-v1")
    assert other["return_mean"].tolist() == pytest.approx([3e-4] * 2)
    assert set(other["system"]) == {"TensorBoard"}
