"""Several runs of one command: a process for each seed, and a joint table and figure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from rlkit_sac.analysis import final_performance, load_runs, plot_learning_curves
from rlkit_sac.analysis.tables import markdown_table, write_table
from rlkit_sac.config.run import SeedsConfig
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.output import summary_table
from rlkit_sac.runs.files import make_new_folder
from rlkit_sac.runs.stop import ONE_OF_SEVERAL, TIME_LIMIT_CODE, acknowledge
from rlkit_sac.signals import handle_signals


class Ended(NamedTuple):
    """The end of a process.

    Attributes:
        code: the exit code; below 0 for the signal that killed it.
        path: the run directory, if the run has finished.
        error: the error message, if the run has failed.
    """

    code: int
    path: str = ""
    error: str = ""


class SeedProcesses:
    """Runs the command of this process once for each seed, in separate processes.

    Each signal is passed on to them as SIGTERM: they save and end. They also do so if this process
    is killed.

    Args:
        config: the options of the recipe.
        argv: the arguments of this process.
        shows: if true, they print here, with a progress bar; otherwise to a file.

    Attributes:
        received: the first signal; 0 before it.
    """

    def __init__(self, config: Any, argv: Sequence[str], *, shows: bool) -> None:
        one_run = vars(SeedsConfig()).items()
        words = [f"--{name}={'null' if value is None else value}" for name, value in one_run]
        if not shows and hasattr(config, "logging"):
            words.append("--logging.progress=false")
        self._command = [sys.executable, sys.argv[0], *argv, "--", *words]
        self._shows = shows
        self._running: list[subprocess.Popen[bytes]] = []
        self.received = 0

    def receive(self, number: int) -> None:
        """Pass a signal on to the processes."""
        if not self.received:
            acknowledge("each seed after its step")
            self.received = number
        for process in self._running:
            process.terminate()

    def run(self, seed: int) -> tuple[Ended, str]:
        """Run one seed; return how it has ended, and the output that it printed to a file."""
        with tempfile.TemporaryDirectory(prefix="rlkit_sac-") as folder:
            answer, log = Path(folder, "answer.json"), Path(folder, "output.log")
            with nullcontext(None) if self._shows else log.open("wb") as file:
                process = subprocess.Popen(
                    [*self._command, f"--seed={seed}"],
                    stdin=subprocess.PIPE,  # its end tells the child that this process has ended
                    stdout=file,
                    stderr=file,
                    start_new_session=True,  # only this process receives Ctrl-C
                    env={
                        **os.environ,
                        ONE_OF_SEVERAL: str(answer),
                        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
                    },
                )
            self._running.append(process)
            if self.received:
                process.terminate()
            try:
                process.wait()
            finally:
                self._running.remove(process)
                process.communicate()  # closes its input, so that it ends
            output = log.read_text("utf-8", "replace").rstrip() if log.exists() else ""
            if answer.exists():
                return Ended(process.returncode, **json.loads(answer.read_text())), output
        text = f"its process ended early, with exit code {process.returncode}"
        if process.returncode < 0:
            text = f"killed by {signal.Signals(-process.returncode).name}"
        return Ended(process.returncode, error=text), output


def answer_parent(**answer: str) -> bool:
    """Tell the parent process, if it runs several seeds, how this run has ended.

    Args:
        answer: the fields of `Ended`.

    Returns:
        Whether there is one.
    """
    if (file := os.environ.get(ONE_OF_SEVERAL)) is None:
        return False
    Path(file).write_text(json.dumps(answer))
    return True


def follow_parent() -> None:
    """Let the end of a parent process that runs several seeds act as SIGTERM here."""

    def follow() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    if ONE_OF_SEVERAL in os.environ:
        threading.Thread(target=follow, daemon=True).start()


def run_seeds(config: Any, options: SeedsConfig, argv: Sequence[str]) -> int:
    """Run the same command once for each seed, then compare the runs that finished.

    A seed that fails does not stop the others; only after a `ConfigError` no further seed is
    started, as it would be refused too. A signal ends all of them, and the report covers those that
    had finished, if any. With several jobs, the output of each is shown when it ends.

    Args:
        config: the checked options of the recipe.
        options: the seeds, and the number of jobs at a time.
        argv: the arguments of this process.

    Returns:
        The exit code: 0 if all finished, 128 plus the signal that ended them, 2 if all failed by
        a `ConfigError`, 75 if some reached their ``time_limit`` and the others finished, else 1.
    """
    started = datetime.now().astimezone()
    seeds = options.seed_list()
    processes = SeedProcesses(config, argv, shows=options.jobs == 1)
    runs: dict[int, Ended] = {}

    def run(seed: int) -> None:
        if processes.received or any(ended.code == 2 for ended in runs.values()):
            return
        print(f"seed {seed}: started ({seeds.index(seed) + 1} of {len(seeds)})", flush=True)
        runs[seed], output = processes.run(seed)
        print(f"\nseed {seed}: {_ending(runs[seed])}\n{output}", flush=True)

    with handle_signals(processes.receive), ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, seeds))
    if finished := [Path(runs[seed].path) for seed in seeds if seed in runs and runs[seed].path]:
        name = f"{started:%Y-%m-%d_%H-%M-%S}-seeds{(options.seeds or '')[:100]}"
        print(f"\n{report_seeds(finished, name)}", flush=True)
    lines = [line for seed in seeds if seed in runs for line in _problems(seed, runs[seed])]
    for line in dict.fromkeys(lines):
        print(line, file=sys.stderr)
    codes = {run.code for run in runs.values()}
    if (left := [seed for seed in seeds if seed not in runs]) and codes != {2}:
        print(f"not started: {', '.join(map(str, left))}", file=sys.stderr)
    if processes.received:
        return 128 + processes.received
    return max(codes) if codes <= {0, TIME_LIMIT_CODE} or codes == {2} else 1


def _ending(run: Ended) -> str:
    if run.code > 128 or run.code == TIME_LIMIT_CODE:
        return "interrupted"
    return "failed" if run.code else "finished"


def _problems(seed: int, run: Ended) -> list[str]:
    """Return lines about a run that has not finished."""
    if _ending(run) == "interrupted":
        return [f"seed {seed}: interrupted"]
    lines = run.error.splitlines()
    if run.code == 2:  # an error in the options is the same for all seeds
        return [f"error: {line}" for line in lines]
    return [f"error: seed {seed}: {'; '.join(lines)}"] if lines else []


def report_seeds(runs: Sequence[Path], name: str) -> str:
    """Compare runs that differ in their seed, and write the tables to a folder beside them.

    The folder gets ``seeds.csv`` with the last evaluation of each run, ``final_performance.csv``
    and ``.md`` with the statistics over the runs, and ``learning_curve.png``. Without the extra
    ``plots`` the latter are left out, and the description says how to get them.

    Args:
        runs: directories of finished runs.
        name: name of the folder; a number is added if it exists.

    Returns:
        The text to print.
    """
    text, places = list[str](), dict[str, str]()
    try:
        data = load_runs(runs)
        folder = make_new_folder(runs[0].parent, name)
        seeds = data.sort_values("frames").groupby("run").tail(1).sort_values("seed")
        columns = ["seed", "frames", "return_mean", "return_std", "success_rate", "run"]
        seeds = seeds[[name for name in columns if name in seeds]]
        write_table(seeds, folder / "seeds.csv")
        text.append(markdown_table(seeds.drop(columns="run")))
        places["seeds"] = str(folder / "seeds.csv")
        table = final_performance(data)
        for suffix in (".csv", ".md"):
            write_table(table, folder / f"final_performance{suffix}")
        text.append(markdown_table(table.drop(columns=["task", "recipe", "configuration"])))
        places["final performance"] = str(folder / "final_performance.md")
        plot_learning_curves(data, path=folder / "learning_curve.png")
        places["learning curve"] = str(folder / "learning_curve.png")
    except (RlkitSacError, OSError) as error:
        text.append(str(error))
    return "\n".join([*text, summary_table(places)] if places else text)
