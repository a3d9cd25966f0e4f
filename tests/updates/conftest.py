"""Fixtures of the tests of updates."""

import pytest

from rlkit_sac.updates import compiled


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run recorded graphs as they are."""
    monkeypatch.setattr(compiled, "compile_graph", lambda graph, inputs: graph)
