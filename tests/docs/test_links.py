"""Every relative link of the documentation leads to a file, and to a heading of it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

FILES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
FILES += sorted(ROOT.glob("docs/**/*.ipynb"))
_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[\w-]+\]: (\S+)$", re.MULTILINE)
_REFERENCE = re.compile(r"\]\[([\w-]+)\]")
_OBJECT = re.compile(r"rlkit_sac(\.\w+)+")


@cache
def text(file: Path) -> str:
    """A page without its code; of a notebook its text."""
    whole = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(whole)["cells"]
        whole = "\n\n".join("".join(x["source"]) for x in cells if x["cell_type"] == "markdown")
    return _CODE.sub(lambda match: "`x`" if match[0][0] == "`" else "", whole)


@cache
def anchors(file: Path) -> set[str]:
    """The ids of the headings, as MkDocs makes them."""
    found: set[str] = set()
    in_code = False
    for line in file.read_text(encoding="utf-8").splitlines():
        in_code ^= line.lstrip().startswith("```")
        heading = re.match(r"#+ (.+)", line)
        if heading and not in_code:
            words = re.sub(r"[^\w\s-]", "", heading[1].replace("`", "")).strip().lower()
            words = words.encode("ascii", "ignore").decode()
            found.add(re.sub(r"[-\s]+", "-", words).strip("-"))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    links = [one or other for one, other in _LINK.findall(text(file))]
    dead = []
    for link in links:
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (file.parent / path).resolve() if path else file
        known = target.is_file() and target.is_relative_to(ROOT)
        if known and anchor and not _OBJECT.fullmatch(anchor):  # those are of mkdocstrings
            known = anchor in anchors(target)
        if not known:
            dead.append(link)
    assert not dead


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_named_links_are_defined_and_used(file: Path) -> None:
    defined = re.findall(r"^\[([\w-]+)\]: \S+$", text(file), re.MULTILINE)
    assert set(_REFERENCE.findall(text(file))) == set(defined)


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(x.relative_to(ROOT / "docs")) for x in FILES if x.is_relative_to(ROOT / "docs")}
    listed = re.findall(
        r"^ +- .+: ([\w/]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.M
    )
    assert sorted(listed) == sorted(pages)
