"""Runs that begin with the transitions of another run."""

import shutil
from pathlib import Path

import pytest
import torch
from tensordict import NonTensorData, TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.replay import read_prior_data
from tests.reliability.runs import SHORT, assert_same_run, newest, replay_of, run, train

FRAMES = "--collector.total_frames"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    return train(folder, *SHORT, "--env.id", "Pendulum-v1", FRAMES, "130", "--seed", "8")


def test_a_run_and_a_saved_tensordict_are_read(tmp_path: Path, source: Path) -> None:
    data = read_prior_data(source)
    assert data.shape == (130,)
    stored = replay_of(source, newest(source))
    assert (data["next", "reward"] == stored['["next", "reward"]']).all()
    data.reshape(2, 65).save(tmp_path / "saved")
    again = read_prior_data(tmp_path / "saved")
    assert again.shape == (2, 65)
    assert (again.reshape(-1) == data).all()


def test_rows_without_a_step_are_left_out(tmp_path: Path) -> None:
    data = TensorDict(observation=torch.rand(6, 3), batch_size=[6])
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10))
    buffer.extend(data)
    buffer.dumps(tmp_path)
    assert (read_prior_data(tmp_path / "storage")["observation"] == data["observation"]).all()
    valid = torch.tensor([[True, True, False], [True, False, False]])
    for n, key in enumerate([("collector", "mask"), "mask"]):
        data.reshape(2, 3).set(key, valid).save(tmp_path / str(n))
        found = read_prior_data(tmp_path / str(n))["observation"]
        assert (found == data["observation"][[0, 1, 3]]).all()


def test_sums_of_rewards_keep_their_steps_and_need_their_discount(tmp_path: Path) -> None:
    run = train(tmp_path, *SHORT, "--env.id", "Pendulum-v1", FRAMES, "70", "--replay.n_steps", "3")
    assert read_prior_data(run, gamma=0.99)["steps_to_next_obs"].tolist() == [3] * 68
    with pytest.raises(ConfigError, match=r"rewards of several steps, summed with gamma 0\.99"):
        read_prior_data(run, gamma=0.9)


@pytest.mark.parametrize(
    "share",
    [["--replay.prior_share", "0.5"], pytest.param([], marks=pytest.mark.slow)],
    ids=["half", "whole"],
)
def test_half_the_frames_and_then_the_rest_equal_all_at_once(
    tmp_path: Path, source: Path, share: list[str]
) -> None:
    folder = shutil.copytree(source, tmp_path / "source")
    options = [*SHORT, "--env.id", "Pendulum-v1", "--env.num_envs", "2", *share]
    options += ["--normalization.observations", "true", "--replay.prior_data", str(folder)]
    whole = train(tmp_path / "whole", *options, FRAMES, "186")
    parts = train(tmp_path / "parts", *options, FRAMES, "94")
    moved = folder.rename(tmp_path / "moved")
    again = ["--replay.prior_data", str(moved)] if share else []  # else the checkpoint has it
    done = run(tmp_path, "--resume", str(parts), FRAMES, "186", *again)
    assert done.returncode == 0, done.stderr
    assert "not exactly" not in done.stdout
    assert_same_run(whole, parts, capacity=250)
    stored = replay_of(parts, newest(parts))['"observation"']
    assert len(stored) == 186 + (0 if share else 130)


def test_what_was_overwritten_is_not_read(tmp_path: Path) -> None:
    options = [*SHORT, "--env.id", "Pendulum-v1", "--replay.capacity", "70"]
    data = read_prior_data(train(tmp_path, *options, FRAMES, "130"))
    assert data.shape == (70,)


def test_damaged_and_pickled_data_are_refused(tmp_path: Path, source: Path) -> None:
    folder = shutil.copytree(source, tmp_path / "source")
    file = next((folder / "replay").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=file.name):
        read_prior_data(folder)
    TensorDict(note=NonTensorData(object()), batch_size=[2]).save(tmp_path / "pickled")
    with pytest.raises(ConfigError, match="pickle"):
        read_prior_data(tmp_path / "pickled")


def test_data_of_other_actions_are_refused_before_anything_is_made(
    tmp_path: Path, source: Path
) -> None:
    data = read_prior_data(source).clone()
    data["action"] *= 2
    data.save(tmp_path / "data")
    options = ["--env.id", "Pendulum-v1", "--replay.prior_data", str(tmp_path / "data")]
    done = run(tmp_path, *SHORT, *options, "--replay.prior_share", "0.5")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--replay.prior_data: 'action' of the prior data goes from" in line
    assert not (tmp_path / "runs").exists()


def test_folders_without_transitions_are_named(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("{}")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=str(folder)):
            read_prior_data(folder)
    TensorDict(batch_size=[2]).save(tmp_path)
    assert read_prior_data(tmp_path).shape == (2,)
