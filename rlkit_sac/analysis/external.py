"""Logs of Stable-Baselines3, CleanRL and TorchRL, loaded as tables like those of `load_runs`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from rlkit_sac.analysis.files import Paths, all_files, as_paths, check_numbers, read_rows, read_runs
from rlkit_sac.analysis.groups import warn
from rlkit_sac.analysis.runs import check_frames, order_columns
from rlkit_sac.errors import ConfigError, RunError, as_run_error, check_installed

COLUMNS = {"evaluations": "return_mean", "episodes": "return"}
# The names of the return in the logs of each system, by table.
TAGS = {
    "evaluations": {"eval/mean_reward": "Stable-Baselines3", "eval/reward": "TorchRL"},
    "episodes": {
        "charts/episodic_return": "CleanRL",
        "rollout/ep_rew_mean": "Stable-Baselines3",
        "train/reward": "TorchRL",
    },
}
STEPS = "time/total_timesteps"  # the frames in Stable-Baselines3's progress.csv
HYPERPARAMETERS = "hyperparameters/text_summary"  # CleanRL's configuration, a Markdown table


def load_external_runs(
    paths: Paths,
    *,
    table: Literal["evaluations", "episodes"] = "evaluations",
    tag: str | None = None,
    task: str | None = None,
    recipe: str | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    r"""Read returns that other systems logged, in the form of :func:`load_runs`.

    The search goes down from each path. A directory is a run if it holds one of

    - `progress.csv` or `*monitor.csv` of Stable-Baselines3. Each monitor with a name,
      `<name>.monitor.csv`, is a run `<name>`; monitors numbered by environment are one run;
    - TensorBoard's event files, such as those of CleanRL, Stable-Baselines3 and TorchRL;
    - `scalars/`, written by TorchRL's `CSVLogger`.

    Files in the run directories of this package are left out.

    The return in logs of Stable-Baselines3 is `eval/mean_reward` for evaluations. For episodes it
    is each return in the monitors, else `rollout/ep_rew_mean`, a mean over the last 100 episodes.
    CleanRL logs only episodes, as `charts/episodic_return`. TorchRL has `eval/reward` and
    `train/reward`. Frames are the step of each entry, and in monitors the sum of the lengths. Rows
    are in the order of the file. A warning says where frames, or the time of a monitor, go back, as
    in a file that two sessions wrote.

    Args:
        paths: a directory with logs, one above several, a file, or several of either.
        table: `"evaluations"` (default) or `"episodes"`, the training episodes.
        tag: the entry that holds the return. Default: the first of the above that a run has.
        task: the task of all runs. Default: the task in the files of CleanRL and in monitors.
        recipe: the name of the algorithm. Default: the name in the files of CleanRL, else the name
            of the system.
        seed: the seed of all runs. Default: the seed in the files of CleanRL, else missing.

    Returns:
        The columns `run`, `recipe`, `task`, `seed`, `system`, `frames` and `return_mean`, or for
        episodes `return`; monitors add `length`. Rows without a return, or with nan, are left out.
        Runs that cannot be read are left out with a warning.

    Raises:
        ConfigError: no logs are found, `table` is unknown, or tensorboard is needed and not
            installed.
        RunError: no run can be read: a file is damaged, holds no return, or the task is not known.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> text = "time/total_timesteps,eval/mean_reward\n500,-1376.5\n1000,-1210.0\n"
        >>> _ = (folder / "progress.csv").write_text(text)
        >>> data = load_external_runs(folder, task="Pendulum-v1", recipe="sac (SB3)", seed=0)
        >>> data[["recipe", "task", "frames", "return_mean"]]
              recipe         task  frames  return_mean
        0  sac (SB3)  Pendulum-v1     500      -1376.5
        1  sac (SB3)  Pendulum-v1    1000      -1210.0
    """
    if table not in COLUMNS:
        raise ConfigError(f"table is {table!r}; choose 'evaluations' or 'episodes'")
    runs = find_external_runs(paths)
    if not runs:
        raise ConfigError(
            f"no logs found under {', '.join(map(str, as_paths(paths)))}: give progress.csv, "
            "*monitor.csv, *.tfevents.* or scalars/*.csv"
        )
    overrides = {"recipe": recipe, "task": task, "seed": seed}

    def read(run: Path) -> pd.DataFrame:
        system, metadata, rows = _read_run(run, runs[run], table, tag)
        metadata = {"recipe": system, "task": None, "seed": None} | metadata
        metadata |= {name: value for name, value in overrides.items() if value is not None}
        if metadata["task"] is None:
            raise RunError(f"the files of {run} do not tell its task: give it with task='...'")
        head = pd.DataFrame({"run": str(run), **metadata, "system": system}, index=rows.index)
        return pd.concat([head.astype({"seed": "Int64"}), rows], axis=1)

    data = pd.concat(read_runs(list(runs), read).values(), ignore_index=True)
    return order_columns(data, "frames", COLUMNS[table])


def find_external_runs(paths: Paths) -> dict[Path, list[Path]]:
    """Return the files of each run of another system at or below some paths.

    Args:
        paths: a directory, a file, or several of either.
    """
    roots = [Path(os.path.realpath(path)) for path in as_paths(paths)]  # a link may lead to itself
    files = dict.fromkeys(file for root in roots for file in [root, *all_files(root)])
    own_runs = {file.parent for file in files if file.name == "run.json"}
    runs: dict[Path, list[Path]] = {}
    for file in files:
        run = _find_run(file)
        if run is not None and file.is_file() and own_runs.isdisjoint(file.parents):
            runs.setdefault(run, []).append(file)
    for run, run_files in list(runs.items()):
        # A named monitor beside a log is of the same run, if there is only one.
        monitors = [name for name in runs if name.parent == run and runs[name][0].parent == run]
        if len(monitors) == 1 and not all(map(_is_monitor, run_files)):
            runs[run] += runs.pop(monitors[0])
    return runs


def _is_monitor(file: Path) -> bool:
    return file.name.endswith("monitor.csv")


def _find_run(file: Path) -> Path | None:
    """Return the run that a file belongs to, or None if the file is no log."""
    if file.name == "progress.csv" or ".tfevents." in file.name:
        return file.parent
    if _is_monitor(file):
        name = file.name.removesuffix("monitor.csv").rstrip(".")
        if name.startswith("eval"):  # the episodes of evaluations
            return None
        return file.parent / name if name and not name.isdigit() else file.parent
    if file.suffix == ".csv":
        return next((parent.parent for parent in file.parents if parent.name == "scalars"), None)
    return None


def _read_run(
    run: Path, files: Sequence[Path], table: str, tag: str | None
) -> tuple[str, dict[str, Any], pd.DataFrame]:
    """Return the system, the metadata of the run, and a table of frames and returns."""
    monitors = [file for file in files if _is_monitor(file)]
    others = [file for file in files if file not in monitors]
    metadata: dict[str, Any] = {}
    if monitors:
        metadata, episodes = _read_monitors(monitors)
        if table == "episodes" and tag is None:
            return "Stable-Baselines3", metadata, episodes
    if not others:
        raise RunError(f"{run} has monitors alone: table='episodes' reads them")
    other_tags: list[str] = []
    for system, file, entries, hyperparameters in _read_logs(run, others):
        tags = TAGS[table] if tag is None else {tag: system}
        if name := next((name for name in tags if name in entries), None):
            check_numbers(file, entries[name], list(entries[name].columns))
            rows = entries[name].set_axis(["frames", COLUMNS[table]], axis=1).dropna()
            check_frames(file, rows["frames"], strictly=table == "evaluations")
            return tags[name], metadata | hyperparameters, rows.astype({"frames": "int64"})
        other_tags += entries
    raise RunError(
        f"{run} has no {tag or ' or '.join(TAGS[table])}; it has "
        f"{', '.join(other_tags) or 'nothing'}: choose with tag=, or read the other table="
    )


def _read_logs(
    run: Path, files: Sequence[Path]
) -> Iterator[tuple[str, Path, dict[str, pd.DataFrame], dict[str, Any]]]:
    """Yield system, a file, entries and metadata of each kind of log among the files."""
    for file in files:
        if file.name == "progress.csv":
            progress = read_rows(file, [STEPS])
            entries = {name: progress[[STEPS, name]].dropna() for name in progress.columns}
            yield "Stable-Baselines3", file, entries, {}
    header, entries = ["frames", "value"], {}
    for file in files:
        if file.suffix == ".csv" and file.name != "progress.csv":
            name = file.relative_to(run / "scalars").with_suffix("").as_posix()
            entries[name] = read_rows(file, header, header=header)
    if entries:
        yield "TorchRL", file, entries, {}
    events = [file for file in files if file.suffix != ".csv"]
    if events:
        yield "TensorBoard", events[0], *_read_events(run)


def _read_monitors(files: Sequence[Path]) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the task, and a table of the episodes of a run in the order in which they ended."""
    parts, tasks = [], set()
    for file in files:
        line = file.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        text = f"{file}, line 1: # and a JSON object with env_id and t_start are expected"
        with as_run_error(text, ValueError, TypeError, KeyError):
            header = json.loads(line.removeprefix("#"))
            task, start = header["env_id"], float(header["t_start"])
        rows = read_rows(file, ["r", "l", "t"], skip=1)
        starts = rows.index[rows["t"].diff() < 0]
        if len(starts):
            warn(
                f"{file}, line {starts[0]}: the time goes back, as where another session begins; "
                "its episodes are counted on"
            )
        session = rows.index.isin(starts).cumsum()
        parts.append(rows.assign(t=rows["t"] + start, session=session))
        tasks.add(task)
    rows = pd.concat(parts, ignore_index=True).sort_values(["session", "t"], kind="stable")
    table = {"frames": rows["l"].cumsum(), "return": rows["r"], "length": rows["l"]}
    tasks -= {None, "None"}  # the environment has no registered name
    return {"task": task} if tasks == {task} else {}, pd.DataFrame(table)


def _read_events(run: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Return the scalars in TensorBoard's files by tag, and the metadata that CleanRL logs."""
    check_installed("tensorboard", extra="tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})  # 0: all of them
    tags = events.Reload().Tags()
    metadata = {}
    if HYPERPARAMETERS in tags["tensors"]:
        text = events.Tensors(HYPERPARAMETERS)[0].tensor_proto.string_val[0].decode()
        values = dict(re.findall(r"^\|(\w+)\|(.*)\|$", text, re.MULTILINE))
        names = {"recipe": "exp_name", "task": "env_id", "seed": "seed"}
        metadata = {name: values[k] for name, k in names.items() if values.get(k, "None") != "None"}
    scalars = {tag: [(x.step, x.value) for x in events.Scalars(tag)] for tag in tags["scalars"]}
    return {tag: pd.DataFrame(rows) for tag, rows in scalars.items()}, metadata
