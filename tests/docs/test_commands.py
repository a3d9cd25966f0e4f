"""The commands of the documentation exist, and their options fit."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from rlkit_sac.config import parse_config
from rlkit_sac.runs.several.options import SeveralOptions
from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.recipes.loading import RECIPES, load_recipe

SHELL = [block for page in PAGES for block in blocks(page) if block.language == "bash"]
# A shell without programs, in which each command that is not its own prints its words.
ECHO = """
command_not_found_handle() { printf '%s\\x1f' "$@"; printf '\\x1e'; }
cd() { :; }; echo() { :; }; .() { :; }
"""
_EXTRAS = re.compile(r"\[([\w,]+)\]")
_TOML_EXTRA = re.compile(r"^(\w+) = \[", re.MULTILINE)
_RUN_CONFIG = re.compile(r"run_recipe\(main, (\w+)\)")


def commands(block: Block) -> list[list[str]]:
    """The words of each command: loops unrolled, variables replaced, lines joined."""
    code = block.code.replace("<run>", "RUN").replace(".venv/bin/", "")
    done = subprocess.run(
        [shutil.which("bash"), "-c", ECHO + code],
        cwd=ROOT,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    found = [each.split("\x1f")[:-1] for each in done.stdout.split("\x1e")[:-1]]
    assert found, f"{block}: {done.stderr}"
    return [words[words.index("python") :] if "timeout" in words else words for words in found]


@cache
def config_class(script: Path) -> type | None:
    """That of a recipe or benchmark; None if it reads its arguments by itself."""
    name = _RUN_CONFIG.search(script.read_text(encoding="utf-8"))
    if name is None:
        return None
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(script.parent)
        return getattr(load_recipe(str(script.relative_to(RECIPES).with_suffix(""))), name[1])


def check_options(script: Path, words: list[str]) -> None:
    """Build the configuration of a recipe, but for files and runs that are not there."""
    config = config_class(script)
    if config is None or "--help" in words:
        return
    options = []
    for name, value in zip(words[::2], words[1::2], strict=True):
        if hasattr(SeveralOptions(), name[2:]):
            continue
        elif name == "--config" and value.startswith("recipes/"):
            options += [name, str(ROOT / value)]
        elif name not in ("--config", "--resume"):
            options += [name, value]
    parse_config(config, options)


def check_command(program: str, *words: str) -> None:
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "pip":
        known = set(_TOML_EXTRA.findall((ROOT / "pyproject.toml").read_text()))
        own = [word for word in words if word.startswith((".", "rlkit_sac"))]
        for extras in _EXTRAS.findall(" ".join(own)):
            assert set(extras.split(",")) <= known
    elif program == "torchrun":
        (place,) = [at for at, word in enumerate(words) if word.startswith("recipes/")]
        check_options(ROOT / words[place], separated(words[place + 1 :]))
    elif program == "python" and words[0].startswith("recipes/"):
        check_options(ROOT / words[0], separated(words[1:]))
    elif program == "rlkit-sac" and words[0] == "train":
        if not words[1].endswith(".py"):  # a script that a page tells to write
            check_options(ROOT / "recipes" / f"{words[1]}.py", separated(words[2:]))
    elif program == "rlkit-sac" and not words[0].startswith("-"):
        command = importlib.import_module(f"rlkit_sac.cli.{words[0].replace('-', '_')}")
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        parser.parse_args(words[1:])
    elif program == "python":  # modules of Python, and scripts that a page tells to write
        assert words[0] == "-m" or re.fullmatch(r"my_\w+\.py", words[0])
    else:
        assert program in ("find", "sort", "rlkit-sac")


def separated(words: tuple[str, ...]) -> list[str]:
    """``--name=value`` as two words."""
    found: list[str] = []
    for word in words:
        found += word.split("=", 1) if word.startswith("--") else [word]
    return found


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_exist_and_take_these_options(block: Block) -> None:
    if "error:" in (block.output or block.like or ""):
        return  # shown for its error, which the slow test of the page compares
    for words in commands(block):
        check_command(*words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_are_python(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.code, str(block), "exec")
