import pytest
import torch

from rlkit_sac.runs.devices import resolve_device


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda"),
        ("cpu", 2, "cpu"),
        ("cuda", 1, "cuda"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_device(monkeypatch: pytest.MonkeyPatch, name: str, gpus: int, expected: str) -> None:
    pretend_gpus(monkeypatch, gpus)
    assert resolve_device(name) == torch.device(expected)
