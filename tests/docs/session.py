"""Following a page: its files are written, its commands and blocks are run in order."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.docs.pages import ROOT, Block
from tests.docs.use import use_all

# What is left out of commands, and why.
LEFT_OUT = {
    r"(pip|\.venv/bin/pip|python -m venv|\. \.venv/bin/activate)\b": "installs packages",
    r"rlkit-sac train \w+ --config minatar": "needs a package under the GPL",
    r"rlkit-sac train sac .*(fetch_|PointMaze)": "needs the extra robotics, with an older MuJoCo",
    r"python recipes/benchmarks/gpu.py": "needs a GPU",
}
# What a page's commands need that the page does not make, and numbers that would take too long.
REPLACED = {
    "<run>": "*-seed0",
    "RECIPE --config NAME --env.id TASK": "sac --config pendulum",
    # In a copy of the documentation, whose tables stay as they are.
    "python recipes/benchmarks/learning.py": f"cp -r {ROOT}/docs . && python \
recipes/benchmarks/learning.py && diff docs/benchmarks.md {ROOT}/docs/benchmarks.md",
    "--frames 10000": "",
    "benchmarks/speed.py": "benchmarks/speed.py --systems [rlkit_sac] --rounds 1 --warmup 600 \
--frames 600",
    "benchmarks/parameterized.py": "benchmarks/parameterized.py --episodes 2",
    "--workers.address auto": "",
    **dict.fromkeys((f"--workers.number {n}" for n in (8, 32, 60)), "--workers.number 1"),
    "--trials 40": "--trials 2 --options.collector.total_frames 250",
    "--seeds 0,1,2,3,4": "--seeds 0,1",
    "--seeds 0,1,2": "--seeds 0,1",
    "--seeds 1-5": "--seeds 1,2",
    "PYTHONPATH=. ": "",  # the folder is on the path, and so is this package
    # Ten seconds suffice on an idle machine, but not on a busy one.
    "timeout --preserve-status --signal TERM 10": """set +e; bash -c '"$@" & until [ -e \
stopped/sac/*/*/metrics.csv ]; do sleep 0.1; done; kill -TERM $!; wait $!' -""",
}
_LONG = 5_000  # frames; longer training is shortened
_FRAMES = re.compile(r"--collector\.total_frames (\d+)")
_TRAINING = re.compile(
    r"((?:python|torchrun [\w -]+) recipes/\w+\.py"
    r"|rlkit-sac train (?!clone|sweep)[\w-]+(?![\w-])|rlkit-sac resume)"
    r"(?! --help)((?:\\\n|[^\n#&;])*)"
)
_OWN_CONFIG = re.compile(r"--config (?!recipes/)\S+\.yaml")  # of the page, and short
_SHORT = (
    " --collector.total_frames 500 --evaluation.interval 250 --evaluation.episodes 1"
    " --compile false --logging.progress false"
)
_LATE = " --collector.init_random_frames 400 --collector.learning_starts 400"


class Session:
    """One page in one folder.

    Args:
        folder: an empty one.
        monkeypatch: of the test.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.made: list[tuple[Block, str, Any]] = []
        (folder / "recipes").symlink_to(ROOT / "recipes")
        (folder / ".bin").mkdir()
        command = folder / ".bin" / "rlkit-sac"  # of this package, whatever is installed
        command.write_text('#!/bin/sh\nexec python -m rlkit_sac "$@"\n')
        command.chmod(0o755)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(folder)
        for name in [name for name in sys.modules if name.startswith("my_")]:
            monkeypatch.delitem(sys.modules, name)  # of another page
        path = [str(folder / ".bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = os.environ | {
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
            "OMP_NUM_THREADS": "1",
        }

    def follow_page(self, blocks: Iterable[Block]) -> None:
        """Follow all blocks of a page, and use what they made."""
        for block in blocks:
            self.follow(block)
        use_all(self.made)

    def follow(self, block: Block) -> None:
        """Write or run a block, and compare what it prints with what the page shows."""
        if block.language == "diff":
            self.apply(block.code)
        elif block.file:
            (self.folder / block.file).write_text(block.code, encoding="utf-8")
        else:
            printed = self.run_python(block) if block.language == "python" else self.shell(block)
            if block.output is not None:
                assert printed.strip() == block.output.strip(), f"{block} prints {printed!r}"
            if block.like is not None:
                begin = re.split(r"\d", block.like.splitlines()[0])[0].strip()
                assert begin in printed, f"{block} prints {printed!r}"

    def run_python(self, block: Block) -> str:
        # As many empty lines as there are before it: errors then name the line of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(block.page), "exec")
        before = dict(self.names)
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        for name, value in self.names.items():
            if before.get(name) is not value:
                self.made.append((block, name, value))
        return printed.getvalue()

    def shell(self, block: Block) -> str:
        fails = "error: " in (block.output or block.like or "")
        code = shortened(block.code)
        if block.language == "command":  # the page's other commands do not expect its run
            code = code.replace(_SHORT, f"{_SHORT} --logging.dir aside")
        if code.startswith("python my_sac.py"):  # which need not import PyTorch again
            script, *words = self.run(f"printf '%s\\n' {code[7:]}").stdout.splitlines()
            where = {"cwd": self.folder, "env": self.environment}
            done = processes.run(self.folder / script, *words, **where)
        else:
            done = self.run(block.code if fails else code)
        assert fails == (done.returncode != 0), f"{block}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", code],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def apply(self, diff: str) -> None:
        """Write the file that a diff makes of another one."""
        header, *hunks = re.split(r"^@@\n", diff, flags=re.MULTILINE)
        old, new = re.findall(r"^(?:---|\+\+\+) (\S+)$", header, re.MULTILINE)
        text = (ROOT / old).read_text(encoding="utf-8")
        for hunk in hunks:
            before, after = (
                "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] in kept)
                for kept in (" -", " +")
            )
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        (self.folder / new).write_text(text, encoding="utf-8")


def shortened(code: str) -> str:
    """A block of commands without what is left out, with short training."""
    if command := re.fullmatch(r"(rlkit-sac [\w-]+)( .*(RUN|module:function).*)?", code):
        return command[1] + " --help"  # without its arguments
    kept = re.split(r"(?<!\\)\n", code)
    kept = [each for each in kept if not any(re.match(left, each) for left in LEFT_OUT)]
    code = "\n".join(kept).replace(".venv/bin/", "")
    for old, new in REPLACED.items():
        code = code.replace(old, new)
    code = re.sub("^make ", f"make --dry-run --directory {ROOT} ", code, flags=re.MULTILINE)
    return _TRAINING.sub(_shorten, code)


def _shorten(match: re.Match[str]) -> str:
    command, options = match.groups()
    frames = _FRAMES.search(options)
    if (frames and int(frames[1]) <= _LONG) or _OWN_CONFIG.search(options):
        return match[0]
    if "resume" in match[0]:
        return f"{command}{_FRAMES.sub('', options)} --collector.total_frames 700"
    short = _SHORT + ("" if "acer" in command else _LATE)
    return f"{command}{short} --{_FRAMES.sub('', options)}"  # which may override
