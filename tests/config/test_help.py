from __future__ import annotations

import shlex
import sys

import pytest

from rlkit_sac.config import CheckpointConfig, NetworkConfig
from rlkit_sac.config.flat import options_of
from rlkit_sac.config.help import format_help

RECIPE = """Train an agent.

    rlkit-sac train long_name_of_a_recipe
    rlkit-sac train long_name_of_a_recipe --config my_configs/of_a_task/halfcheetah.yaml --seed 1

All else is in the docs.
"""
COMMANDS = [line.strip() for line in RECIPE.splitlines() if "rlkit-sac" in line]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_the_terminal_and_ends_with_the_examples(columns, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.modules[CheckpointConfig.__module__], "__doc__", RECIPE)
    text = format_help(
        CheckpointConfig, options_of(CheckpointConfig()) | options_of(NetworkConfig())
    )
    assert max(map(len, text.splitlines())) < columns
    examples = text.partition("\nexamples:\n")[2].replace("\\\n", " ").splitlines()
    assert list(map(shlex.split, examples)) == list(map(shlex.split, COMMANDS))
