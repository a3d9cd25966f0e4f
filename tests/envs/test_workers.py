from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

SCRIPT = """
import signal, sys
from rlkit_sac.envs import closing_env, make_env, save_episodes

if __name__ == "__main__":
    noted = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: noted.append(number))
    with closing_env(make_env("Pendulum-v1", num_envs=2, parallel=True)) as env:
        print("starting", flush=True)
        state = env.reset()
        print(*(process.pid for process in env.base_env._workers), flush=True)
        while len(set(noted)) < 3 or "forever" in sys.argv:
            state = env.rand_step(state)["next"]
        env.rollout(5)
        print([saved["step"] for saved in save_episodes(env)], flush=True)
"""


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The script in a process group of its own, as a terminal would have it."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow  # the second signal of tests/reliability/test_signals.py is a quick one
def test_signals_to_the_whole_group_leave_the_processes_to_the_main_one() -> None:
    with running() as process:
        for _ in range(8):  # while the processes start
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.25)
        assert process.stdout is not None
        pids = process.stdout.readline().split()
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGHUP)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "[5, 5]\n", "")
        assert len(pids) == 2
        assert not any(is_running(int(pid)) for pid in pids)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_processes_end_when_the_main_one_is_killed() -> None:
    with running("forever") as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert all(is_running(pid) for pid in pids)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(is_running(pid) for pid in pids)
