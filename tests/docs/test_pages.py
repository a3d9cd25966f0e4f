"""All code of the documentation runs, and prints what the pages show."""

import importlib.metadata
import re
from pathlib import Path

import pytest
import torch

from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.docs.session import Session

# Whose Python blocks need no command, and take seconds.
QUICK = [
    *("continuous_sac", "discrete_sac", "hybrid_sac", "kl_prior", "prior_data"),
    *("value_sac", "spaces", "acer", "data_flow", "memory", "how_to_networks"),
]
# Shorter than on the page, whose own numbers the slow test runs.
FEWER = {"total_frames=400": "total_frames=310", "total_frames=700": "total_frames=310"}
FEWER |= {"range(500)": "range(20)"}
# tests/test_extending.py follows this one.
OTHERS = [page for page in PAGES if page.stem != "extending" and blocks(page)]
# Run before a page: what its blocks read.
BEFORE = dict.fromkeys(("README", "kl_prior", "prior_data"), "python recipes/sac.py\n")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    torch.manual_seed(0)
    return Session(tmp_path, monkeypatch)


@pytest.mark.parametrize("page", QUICK)
def test_python_blocks(page: str, session: Session) -> None:
    code = [block for block in blocks(ROOT / "docs" / f"{page}.md") if block.language == "python"]
    for block in code:
        for many, few in FEWER.items():
            block.code = block.code.replace(many, few)
    session.follow_page(code)


def test_extras_that_pages_install_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(",".join(re.findall(r"(?:rlkit_sac|\.|whl)\[([a-z,]+)\]'", text)).split(","))
    assert "plots" in named
    assert named <= set(importlib.metadata.metadata("rlkit_sac").get_all("Provides-Extra"))


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_whole_pages(page: Path, session: Session) -> None:
    if page.stem in BEFORE:
        session.follow(Block(page, 0, "bash", BEFORE[page.stem], None))
    session.follow_page(blocks(page))
