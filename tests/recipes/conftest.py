"""A folder in which recipes run."""

from pathlib import Path

import pytest


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
