"""The directory of one run: its configuration, facts and tables, and the lock on them."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from rlkit_sac._version import __version__
from rlkit_sac.analysis.files import read_rows
from rlkit_sac.analysis.runs import read_description
from rlkit_sac.config.read import to_yaml
from rlkit_sac.errors import ConfigError, RunError, as_run_error, prefix_errors
from rlkit_sac.runs.files import CSVLog, make_new_folder, write_atomically
from rlkit_sac.runs.stop import interrupt_behind

FORMAT_VERSION = 1
# The facts of one session of a run, from its start to its end.
_SESSION = (
    *("command", "script", "host", "pid", "started", "finished", "status", "error"),
    *("frames", "updates", "device", "versions", "git_revision", "resumed_at", "exact"),
)
_PACKAGES = ("torch", "torchrl", "tensordict", "gymnasium", "numpy")


class RunDirectory:
    """One run on disk, locked against other processes while the ``with`` block lasts.

    :meth:`begin` writes the status ``running`` to ``run.json``. The end of the block writes
    ``finished``, ``interrupted`` (by a signal) or ``failed`` with the error. A process that is
    killed leaves ``running`` and no lock: the system drops the lock with the process.

    Args:
        path: a directory made by `RunDirectory.create`, by this process or an earlier one.
        followed: if true, another process of the run writes the files, and this one writes nothing.

    Attributes:
        path: the directory.
        tables: the CSV files, by name.
        info: the content of ``run.json``.

    Raises:
        ConfigError: if ``run.json`` is missing or does not describe a run.

    >>> import tempfile
    >>> from rlkit_sac.config import EnvConfig
    >>> root = Path(tempfile.mkdtemp())
    >>> with RunDirectory.create(EnvConfig(), recipe="sac", task="Ant", seed=3, root=root) as run:
    ...     run.begin(target_entropy=-1.6)
    ...     run.write("metrics", {"frames": 1, "alpha": 0.5})
    >>> sorted(file.name for file in run.path.iterdir() if file.suffix)
    ['config.yaml', 'metrics.csv', 'run.json']
    >>> run.info["status"], run.info["target_entropy"]
    ('finished', -1.6)
    """

    def __init__(self, path: Path | str, *, followed: bool = False) -> None:
        self.path, self._followed = Path(path), followed
        self.info = {} if followed else _read_info(self.path / "run.json")
        names = () if followed else ("metrics", "episodes", "evaluations")
        self.tables = {name: CSVLog(self.path / f"{name}.csv") for name in names}
        self._begun = False
        self._lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)

    @classmethod
    def create(
        cls, config: Any, *, recipe: str, task: str, seed: int, root: Path | str
    ) -> RunDirectory:
        """Make ``root/recipe/task/time-seedN`` with ``config.yaml`` and ``run.json``.

        Args:
            config: a configuration dataclass; ``config.yaml`` holds all its values.
            recipe: name of the recipe.
            task: id of the environment; characters unfit for a file name become ``-``.
            seed: seed of the run.
            root: folder of all runs; made where missing.

        Raises:
            ConfigError: if the directory cannot be made.
            RunError: if a file in it cannot be written.
        """
        started = datetime.now().astimezone()
        parent = Path(root) / file_name(recipe) / file_name(task)
        with prefix_errors(f"cannot create a run directory in {parent}"):
            parent.mkdir(parents=True, exist_ok=True)
            path = make_new_folder(parent, f"{started:%Y-%m-%d_%H-%M-%S}-seed{seed}")
        facts = {"recipe": recipe, "task": task, "seed": seed, "status": "created"}
        facts["configuration"] = getattr(config, "configuration", "default")
        facts["config_sha256"] = write_config(path, config)
        info = {"format_version": FORMAT_VERSION, **facts, **_machine_facts()}
        _write_info(path / "run.json", info)
        return cls(path)

    def update_info(self, **facts: Any) -> None:
        """Add facts to ``run.json``, or change them.

        Args:
            facts: JSON values, such as ``frames``, ``updates``, ``device``, ``target_entropy``.

        Raises:
            RunError: if the file cannot be written.
        """
        self.info |= facts
        _write_info(self.path / "run.json", self.info)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of each table."""
        return {name: log.state_dict() for name, log in self.tables.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to a state; :meth:`begin` removes the rows after it.

        Raises:
            RunError: if a table has lost rows.
        """
        for name, log in self.tables.items():
            log.load_state_dict(state[name])

    def begin(self, **facts: Any) -> None:
        """Go on with the tables, and write the status ``running`` to ``run.json``.

        The facts of an earlier session in ``run.json`` move to its list ``sessions``.

        Args:
            facts: JSON values to add, as in :meth:`update_info`.

        Raises:
            RunError: if a file cannot be written.
        """
        for log in self.tables.values():
            log.cut()
        for leftover in self.path.glob(".*.partial"):  # a killed process left them
            leftover.unlink()
        if self.info["status"] != "created":
            last = {name: self.info.get(name) for name in _SESSION}
            self.info["sessions"] = [*self.info.get("sessions", []), last]
            self.info |= _machine_facts()
        self._begun = True
        self.update_info(
            status="running", error=None, pid=os.getpid(), started=_now(), finished=None, **facts
        )

    def write(self, table: str, row: Mapping[str, Any]) -> None:
        """Append a row to a table.

        Args:
            table: ``"metrics"``, ``"episodes"`` or ``"evaluations"``.
            row: the row, as :meth:`CSVLog.write` takes it.

        Raises:
            RunError: as :meth:`CSVLog.write`.
        """
        if not self._followed:
            self.tables[table].write(row)

    def __enter__(self) -> RunDirectory:
        if self._followed:
            return self
        with as_run_error(f"cannot lock {self.path}"):
            try:
                self._lock.acquire()
            except Timeout:
                raise ConfigError(
                    f"{self.path} is in use by another process; wait for its end or start a new run"
                ) from None
        self.info = _read_info(self.path / "run.json")  # its last holder may have changed it
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._followed:
            return
        if error is not None and self._begun:
            error.run_path = self.path  # type: ignore[attr-defined]  # for a launcher to name
        facts: dict[str, Any] = {"status": "finished", "finished": _now()}
        if interrupt_behind(error) is not None:
            facts["status"] = "interrupted"
        elif error is not None:
            message = (str(error).splitlines() or [""])[0]
            facts |= {"status": "failed", "error": f"{type(error).__name__}: {message}"}
        try:
            for log in self.tables.values():
                log.close()
            if self._begun:
                self.update_info(**facts)
        except RunError:
            if error is None:
                raise  # otherwise the first error, often of the same full disk, is reported
        finally:
            self._lock.release()


def write_config(path: Path, config: Any) -> str:
    """Write or replace the ``config.yaml`` of a run directory, and return its checksum.

    Args:
        path: the run directory.
        config: a configuration dataclass.
    """
    return write_atomically(path / "config.yaml", to_yaml(dataclasses.asdict(config)).encode())


def read_evaluations(run_path: Path) -> pd.DataFrame:
    r"""Return the complete rows of ``evaluations.csv``; none without this file.

    Args:
        run_path: the run directory.

    Raises:
        RunError: as :func:`~rlkit_sac.analysis.files.read_rows`.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1")
    >>> read_evaluations(run)["frames"].tolist()
    [100]
    """
    return read_rows(run_path / "evaluations.csv", ("frames", "return_mean"))


def best_frames(evaluations: pd.DataFrame, *, among: Collection[int]) -> int | None:
    """Return the frames of the best evaluation, by ``return_mean``; the last of equal ones.

    Args:
        evaluations: rows of ``evaluations.csv``.
        among: frames to choose from.

    Returns:
        ``None`` where none of them was evaluated.

    >>> table = pd.DataFrame({"frames": [100, 200], "return_mean": [2.0, 1.0]})
    >>> best_frames(table, among=[100, 200]), best_frames(table, among=[300])
    (100, None)
    """
    rows = evaluations[evaluations["frames"].isin(list(among))]
    rows = rows.sort_values(["return_mean", "frames"])
    return None if rows.empty else int(rows["frames"].iloc[-1])


def file_name(text: str) -> str:
    """Return a text as a file name: unfit characters become ``-``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:100] or "unnamed"


def _write_info(path: Path, info: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(info, indent=2, default=float) + "\n").encode())


def _read_info(path: Path) -> dict[str, Any]:
    with prefix_errors(f"cannot use {path.parent}"):
        info = read_description(path)
        if info.get("format_version") != FORMAT_VERSION or not isinstance(info.get("script"), str):
            raise RunError(f"{path} is not the run.json of a run (format version {FORMAT_VERSION})")
    return info


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _machine_facts() -> dict[str, Any]:
    return {
        "command": shlex.join([sys.executable, *sys.argv]),
        "script": str(Path(sys.argv[0]).resolve()),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {"rlkit_sac": __version__}
        | {name: importlib.metadata.version(name) for name in _PACKAGES},
        "git_revision": _git_revision(),
    }


def _git_revision() -> str | None:
    """Return the commit of this package's checkout, with ``-dirty`` if files were changed."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # An installed package may lie inside an unrelated repository.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
