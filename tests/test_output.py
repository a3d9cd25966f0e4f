"""What a program prints need not be read, nor fit on a disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRINTS = """
import sys
from rlkit_sac.output import drop_failed_output
{first}
for count in range(3):
    print("±" * 100_000)
    print("a warning", file=sys.stderr)
print("the end", end="")
"""


def shell(command: str, *options: str, first: str = "drop_failed_output()") -> int:
    python = [sys.executable, *options, "-c", PRINTS.format(first=first)]
    script = f"set -o pipefail; {command.replace('PRINT', chr(34) + '$@' + chr(34))}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(["bash", "-c", script, "bash", *python], env=environment).returncode


@pytest.mark.parametrize(
    "command",
    [
        "PRINT | true",
        "PRINT | head -c 1 > /dev/null",
        "PRINT 2>&1 > /dev/null | true",
        "PRINT > /dev/full 2> /dev/full",
        "PRINT >&- 2>&-",
    ],
)
def test_output_that_cannot_be_written_does_not_end_a_program(command: str) -> None:
    assert shell(command) == 0
    assert shell(command, "-u") == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict", "ascii:surrogateescape"])
def test_characters_that_the_terminal_lacks_are_escaped(encoding: str) -> None:
    text = (
        "print('runs/日本 1 ± 2', 'x', sep=chr(0xDCFF))"  # the last is of a path that is no UTF-8
    )
    program = f"from rlkit_sac.output import drop_failed_output; drop_failed_output(); {text}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    plus_minus = b"\xb1" if encoding.startswith("latin") else b"\\xb1"
    assert done.stdout == b"runs/\\u65e5\\u672c 1 " + plus_minus + b" 2\\udcffx\n"
