from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import check_replay_fits, make_replay_buffer
from rlkit_sac.data.replay import buffer
from rlkit_sac.data.replay.buffer import free_device_memory, free_disk_space
from rlkit_sac.errors import ConfigError


def transitions(first: int, number: int) -> TensorDict:
    values = torch.arange(first, first + number, dtype=torch.float32).unsqueeze(-1)
    return TensorDict(
        {
            "observation": values.expand(number, 3),
            "next": {"reward": values, "done": torch.zeros(number, 1, dtype=torch.bool)},
        },
        batch_size=[number],
    )


EXAMPLE = transitions(0, 1)[0]
BYTES = 3 * 4 + 4 + 1 + 7  # observation, reward, done, up to a multiple of 8
FILE_BYTES = 3 * 4 + 4 + 1 + 8  # and the index that TorchRL's buffer adds


def storage_options(storage: str, tmp_path: Path) -> dict[str, Any]:
    return {"storage": storage, "directory": tmp_path / "replay" if storage == "memmap" else None}


@pytest.mark.parametrize("storage", ["tensor", "memmap"])
def test_the_oldest_transitions_give_way(storage: str, tmp_path: Path) -> None:
    buffer = make_replay_buffer(
        EXAMPLE, capacity=10, batch_size=4, **storage_options(storage, tmp_path)
    )
    for first in range(0, 24, 4):
        buffer.extend(transitions(first, 4))
    assert len(buffer) == 10
    assert sorted(buffer[:]["next", "reward"].flatten().tolist()) == list(range(14, 24))


@pytest.mark.parametrize("storage", ["tensor", "memmap"])
def test_sampling_is_uniform_over_what_is_stored_and_follows_the_global_seed(
    storage: str, tmp_path: Path
) -> None:
    buffer = make_replay_buffer(
        EXAMPLE, capacity=100_000, batch_size=20_000, **storage_options(storage, tmp_path)
    )
    buffer.extend(transitions(0, 5))
    torch.manual_seed(0)
    sample = buffer.sample()
    counts = sample["next", "reward"].flatten().long().bincount()
    # 4000 expected for each of the five, standard deviation 57.
    assert counts.sub(4000).abs().max() < 250
    torch.manual_seed(0)
    assert torch.equal(buffer.sample()["observation"], sample["observation"])


def test_the_bytes_counted_are_those_of_the_storage() -> None:
    buffer = make_replay_buffer(EXAMPLE, capacity=8, batch_size=2)
    buffer.extend(transitions(0, 2))
    rows = buffer.storage[:]["observation"].untyped_storage()
    assert rows.nbytes() == 8 * BYTES


def test_memory_mapped_files_lie_in_the_directory(tmp_path: Path) -> None:
    buffer = make_replay_buffer(
        EXAMPLE, capacity=8, batch_size=2, storage="memmap", directory=tmp_path / "replay"
    )
    buffer.extend(transitions(0, 2))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.memmap")) == 8 * FILE_BYTES


def test_a_buffer_fits_up_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "free_device_memory", lambda device: 1000 * BYTES + BYTES - 1)
    check_replay_fits(EXAMPLE, capacity=1000)
    with pytest.raises(ConfigError) as error:
        check_replay_fits(EXAMPLE, capacity=1001)
    for word in (f"{1001 * BYTES} bytes", f"{1001 * BYTES - 1} bytes", "that fits is 1000", "cpu"):
        assert word in str(error.value)


def test_a_buffer_larger_than_the_disk_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(buffer, "free_disk_space", lambda directory: 10 * FILE_BYTES)
    monkeypatch.setattr(buffer, "free_device_memory", lambda device: 0)
    check_replay_fits(EXAMPLE, capacity=10, storage="memmap", directory=tmp_path)
    with pytest.raises(ConfigError, match=rf"disk of {tmp_path} .* that fits is 10"):
        check_replay_fits(EXAMPLE, capacity=11, storage="memmap", directory=tmp_path)


def test_more_than_the_real_machine_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="largest capacity that fits"):
        make_replay_buffer(EXAMPLE, capacity=10**15, batch_size=1)
    with pytest.raises(ConfigError, match="largest capacity that fits"):
        make_replay_buffer(
            EXAMPLE, capacity=10**15, batch_size=1, storage="memmap", directory=tmp_path / "new"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 11}, "batch_size is 11; it must be between 1 and the replay capacity 10"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"capacity": 0}, "capacity is 0; it must be at least 1"),
        ({"storage": "disk"}, "'disk'; it must be 'tensor' or 'memmap'"),
        ({"directory": Path("somewhere")}, "somewhere needs storage 'memmap'"),
        ({"example": transitions(0, 2)}, r"batch size \[2\]"),
    ],
)
def test_arguments_that_cannot_work_are_named(options: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"example": EXAMPLE, "capacity": 10, "batch_size": 2, **options}
    with pytest.raises(ConfigError, match=words):
        make_replay_buffer(arguments.pop("example"), **arguments)


def test_files_of_another_buffer_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "reward.memmap").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path} is not empty"):
        check_replay_fits(EXAMPLE, capacity=1, storage="memmap", directory=tmp_path)


def test_a_container_limit_below_the_free_memory_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n")
    limit.write_text("max\n")
    monkeypatch.setattr(buffer, "_MEMINFO", meminfo)
    monkeypatch.setattr(buffer, "_CONTAINER_LIMIT", limit)
    assert free_device_memory("cpu") == 3000 * 1024
    limit.write_text("2000000\n")
    assert free_device_memory("cpu") == 2_000_000
    meminfo.unlink()
    assert free_device_memory("cpu") is None


def test_the_disk_of_a_directory_that_does_not_exist_is_that_of_its_parent(tmp_path: Path) -> None:
    assert free_disk_space(tmp_path / "a" / "b") == pytest.approx(
        free_disk_space(tmp_path), rel=0.1
    )
