import pytest
import torch

from rlkit_sac.errors import ConfigError
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


@pytest.mark.parametrize(
    ("name", "gpus", "choices"),
    [
        ("cuda", 0, "auto, cpu"),
        ("cuda:2", 2, "auto, cpu, cuda, cuda:0, cuda:1"),
        ("mps", 0, "auto, cpu"),
        ("gpu", 0, "auto, cpu"),
        ("cuda:-1", 1, "auto, cpu, cuda, cuda:0"),
    ],
)
def test_a_missing_device_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, name: str, gpus: int, choices: str
) -> None:
    pretend_gpus(monkeypatch, gpus)
    with pytest.raises(ConfigError, match=f"'{name}' is not available here; .* {choices}$"):
        resolve_device(name)
