"""docs/api.md lists the public names of every package, and errors."""

import importlib
import inspect
import pkgutil
import re
import sys

import pytest

import rlkit_sac
from tests.docs.pages import ROOT

SECTION = re.compile(r"^::: ([\w.]+)\n((?: .*\n)*)", re.MULTILINE)
MEMBERS = re.compile(r"members:(?: \[(.*)\]\n|\n((?: +- \w+\n)+))")


def listed() -> dict[str, set[str]]:
    """The names under each heading of the page."""
    found = {}
    for name, options in SECTION.findall((ROOT / "docs" / "api.md").read_text(encoding="utf-8")):
        members = MEMBERS.search(options)
        found[name] = set(re.findall(r"\w+", members[1] or members[2])) if members else set()
    return found


def resolve(path: str) -> object:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


# What these packages export is public; what is below them is theirs.
PACKAGES = [
    f"rlkit_sac.{module.name}"
    for module in pkgutil.iter_modules(rlkit_sac.__path__)
    if module.ispkg and module.name != "cli"
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_the_page(package: str) -> None:
    page = listed()
    shown = [
        getattr(resolve(path), name)
        for path, names in page.items()
        for name in names
        # mkdocstrings shows the file instead where a function has the name of its file.
        if not inspect.ismodule(sys.modules.get(f"{path}.{name}"))
    ]
    shown += [resolve(path) for path, names in page.items() if not names]
    module = importlib.import_module(package)
    public = {
        name: value
        for name, value in vars(module).items()
        if not (name.startswith("_") or inspect.ismodule(value))
    }
    assert not [name for name, value in public.items() if not any(value is x for x in shown)]


def test_every_name_on_the_page_exists() -> None:
    for path, names in listed().items():
        assert all(hasattr(resolve(path), name) for name in names), path


def test_errors_are_on_the_page() -> None:
    assert "rlkit_sac.errors" in listed()
