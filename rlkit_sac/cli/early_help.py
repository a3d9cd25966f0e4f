"""Answers ``--help`` of the script that imports it, which does so before it imports PyTorch."""

import sys
from contextlib import suppress
from pathlib import Path

from rlkit_sac.cli.recipe_files import print_help

with suppress(OSError, AttributeError, TypeError, UnicodeError):
    # Not of a script that imports a recipe.
    if f"import {__name__}" in (script := Path(sys.modules["__main__"].__file__ or "")).read_text():
        print_help(script, sys.argv[1:])
