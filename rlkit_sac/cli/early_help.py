"""Answers ``--help`` of the script that imports it, which does so before it imports PyTorch."""

import sys
from pathlib import Path

from rlkit_sac.cli.recipe_files import print_help

print_help(Path(sys.argv[0]), sys.argv[1:])
