"""Scripts as processes of their own that need not import PyTorch again.

``Process(script, *arguments, cwd=..., env=...)`` is ``python script arguments`` in a process group
of its own: a process with its own standard streams, environment, signals and exit code. It is
forked from a server, which has imported what every recipe does, so that it starts in milliseconds.
What is about imports, or about variables that are read at import, needs a new interpreter instead.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

TIMEOUT = 300


class Process:
    """A running script, with those parts of ``subprocess.Popen`` that tests use.

    Output goes to files, so that no pipe is ever full, or to pipes, which may be closed.
    """

    def __init__(
        self,
        script: Path,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str] = os.environ,
        pipes: bool = False,
    ) -> None:
        self.args = [str(script), *arguments]
        self.returncode: int | None = None
        standard_input, write = os.pipe()
        (read_output, output), (read_errors, errors) = (
            os.pipe() if pipes else _temporary_file() for _ in range(2)
        )
        self.stdin = open(write, "w")  # noqa: SIM115
        self.stdout, self.stderr = open(read_output), open(read_errors)  # noqa: SIM115
        self._reports, reports = socket.socketpair()
        files = [reports.detach(), standard_input, output, errors]
        socket.send_fds(_server(), [b"fork"], files)
        for file in files:
            os.close(file)
        request = {"argv": self.args, "cwd": str(cwd), "env": dict(env)}
        self._reports.sendall(json.dumps(request).encode() + b"\n")
        self.pid = self._report()

    def wait(self, timeout: float = TIMEOUT) -> int:
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = self._report()
        return self.returncode

    def _report(self) -> int:
        report = self._reports.recv(8)
        if not report:
            raise RuntimeError("the server of processes has ended")
        return int.from_bytes(report, "big", signed=True)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def readline(self) -> str:
        """The next line of its standard output; what is left of one where it has ended."""
        line = ""
        while not line.endswith("\n"):
            ended = self.poll() is not None
            line += self.stdout.readline()
            if ended:
                break
            time.sleep(0.01)
        return line

    def communicate(self, timeout: float = TIMEOUT) -> tuple[str, str]:
        self.stdin.close()
        self.wait(timeout)
        return self.stdout.read(), self.stderr.read()

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        with self:
            output, errors = self.communicate()
        return subprocess.CompletedProcess(self.args, self.returncode, output, errors)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.stdin.close()
        self.wait()
        for file in (self.stdout, self.stderr, self._reports):
            file.close()


def _temporary_file() -> tuple[int, int]:
    """One to read and one to write, which no folder holds."""
    write, path = tempfile.mkstemp()
    read = os.open(path, os.O_RDONLY)
    os.unlink(path)
    return read, write


def run(script: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; the options are those of ``Process``."""
    return Process(script, *arguments, **options).finish()


@functools.cache
def _server() -> socket.socket:
    """The socket of the server, which ends when this process does."""
    ours, theirs = socket.socketpair()
    root = str(Path(__file__).parents[1])
    subprocess.Popen(
        [sys.executable, __file__],
        stdin=theirs,
        env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        cwd=root,
        start_new_session=True,
    )
    theirs.close()
    return ours


def _serve() -> dict[str, Any]:
    """Fork a process for each message; what it shall run, in that process."""
    requests = socket.socket(fileno=os.dup(0))
    while True:
        message, files, *_ = socket.recv_fds(requests, 16, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that waited for scripts which have ended
                pass
        if not message:
            sys.exit()
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    requests.close()
    reports = socket.socket(fileno=files[0])
    request: dict[str, Any] = json.loads(reports.makefile().readline())
    script = os.fork()
    if script:
        os.setpgid(script, script)
        reports.sendall(script.to_bytes(8, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(script, 0)[1])
        reports.sendall(code.to_bytes(8, "big", signed=True))
        os._exit(0)
    reports.close()
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
        os.close(file)
    return request


def _become(request: Mapping[str, Any]) -> None:
    """Be the process that was asked for."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    extra = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(sys.argv[0]).resolve().parent), *filter(None, extra)]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    import matplotlib.backends.backend_agg
    import matplotlib.figure  # noqa: F401 - each run draws one at its end

    import rlkit_sac.objectives
    import rlkit_sac.runs  # noqa: F401

    gc.collect()
    gc.freeze()  # what is there does not change, and need not be copied to be looked at
    _become(_serve())
