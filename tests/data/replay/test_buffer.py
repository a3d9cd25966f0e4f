from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import make_replay_buffer
from rlkit_sac.data.replay import buffer
from rlkit_sac.data.replay.buffer import free_device_memory


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


def storage_options(storage: str, tmp_path: Path) -> dict[str, Any]:
    return {"storage": storage, "directory": tmp_path / "replay" if storage == "memmap" else None}


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
