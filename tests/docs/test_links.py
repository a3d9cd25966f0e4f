"""Links between the pages lead somewhere, on GitHub and in the built documentation alike."""

import re
import unicodedata
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?)(?: #+)?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s#]*)#?([^()\s]*)[^()]*\)")
MARKUP = re.compile(r"!?\[([^]]*)\]\([^)]*\)|[`*]")


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Those of its headings that are the same on GitHub and from Python-Markdown, as in MkDocs."""
    found = set()
    for heading in HEADING.findall(prose(page)):
        text = MARKUP.sub(r"\1", heading).strip().lower()
        github = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        if github == re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()):
            found.add(github)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_to_headings_with_one_anchor_on_both_sites(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if ":" not in link[0]]
    targets = {(page.parent / file if file else page, anchor) for file, anchor in links}
    assert {file for file, _ in targets if not file.exists()} == set()
    targets = {
        (file, a) for file, a in targets if a and not a.startswith("rlkit_sac.")
    }  # the API's
    assert {(file.name, anchor) for file, anchor in targets if anchor not in anchors(file)} == set()


def test_headings_whose_anchors_differ_have_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A, `b_c` and [d](e.md)\n```\n# code\n```\n## Für x\n## A & b\n")
    assert anchors(page) == {"a-b_c-and-d"}
