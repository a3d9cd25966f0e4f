"""CITATION.cff is what its schema requires, and of this version."""

from __future__ import annotations

import yaml

import rlkit_sac
from tests.docs.pages import ROOT


def test_the_citation_is_of_this_package() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)  # required by the schema
    assert cited["version"] == rlkit_sac.__version__
    assert cited["license"] == "MIT"
    assert cited["authors"] == [{"name": "rlkit_sac contributors"}]
