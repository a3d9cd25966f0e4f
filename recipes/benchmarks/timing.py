"""What the benchmarks share: options, turns under one load, medians of ratios, what is printed."""

from __future__ import annotations

import os
import platform
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from tensordict import TensorDict
from torch import Tensor

from rlkit_sac.config import PositiveInt


@dataclass
class TimingConfig:
    """How often is measured, with how many threads, and where the times go."""

    rounds: PositiveInt = 60
    """Rounds, in which each contestant has one turn."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


@dataclass
class UpdateTimingConfig(TimingConfig):
    """How often updates are timed."""

    updates: PositiveInt = 5
    """Updates of a turn."""
    warm_up: PositiveInt = 10
    """Updates of each contestant before the first turn."""

    def take_turns(self, contestants: Mapping[str, Callable[[], object]]) -> pd.DataFrame:
        """Time functions in turns, as :func:`take_turns` does."""
        return take_turns(contestants, rounds=self.rounds, calls=self.updates, warm_up=self.warm_up)


def run_benchmark(
    config: TimingConfig,
    measure: Callable[[], pd.DataFrame],
    summary: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    """Measure, print a table, and write the rounds if asked to.

    Args:
        config: options.
        measure: returns the times of each round.
        summary: makes the table of them.
    """
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    # An update that cannot be compiled must not be timed in place of a compiled one.
    warnings.filterwarnings("error", message="(?s).*run uncompiled")
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    rounds = measure()
    print(summary(rounds).to_string(index=False, float_format="{:.2f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def run_cases(
    config: TimingConfig,
    cases: Sequence[Mapping[str, Any]],
    measure: Callable[..., pd.DataFrame],
    *,
    ratios: Mapping[str, tuple[str, str]],
) -> None:
    """Run a benchmark of several cases, which both tables tell apart by their first columns.

    Args:
        config: options, also an argument of ``measure``.
        cases: its other arguments, by name.
        measure: returns the times of each round of a case.
        ratios: as of :func:`medians`.
    """

    def measure_all() -> pd.DataFrame:
        tables = []
        for case in cases:
            rounds = measure(**case, config=config)
            tables.append(rounds.assign(**case)[[*case, *rounds]])
        return pd.concat(tables, ignore_index=True)

    run_benchmark(config, measure_all, partial(medians, by=list(cases[0]), ratios=ratios))


class Median(NamedTuple):
    """A median and the ends of its 95 % percentile bootstrap interval.

    Attributes:
        value: the median.
        low: lower end, NaN for a single value.
        high: upper end, NaN for a single value.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def take_turns(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    calls: int,
    warm_up: int = 0,
    before: Callable[[], object] | None = None,
) -> pd.DataFrame:
    """Time functions in turns, so that all of them meet the same load of the machine.

    Args:
        contestants: what to call, by name.
        rounds: each contestant has one turn in each.
        calls: of a turn.
        warm_up: calls of each contestant before the first turn.
        before: what to call before each call, without counting its time.

    Returns:
        One row for each round: ``round``, and for each contestant its milliseconds a call.
    """
    for contestant in contestants.values():
        for _ in range(warm_up):
            contestant()
    rows = []
    for index in range(rounds):
        row: dict[str, float] = {"round": index}
        # Who goes first may find colder caches: the direction alternates.
        for name in list(contestants)[:: -1 if index % 2 else 1]:
            seconds = 0.0
            for _ in range(calls if before else 1):
                if before is not None:
                    before()
                start = time.perf_counter()
                for _ in range(1 if before else calls):
                    contestants[name]()
                seconds += time.perf_counter() - start
            row[name] = 1e3 * seconds / calls
        rows.append(row)
    return pd.DataFrame(rows, columns=["round", *contestants])


def median(values: ArrayLike, *, resamples: int = 9999) -> Median:
    """The median of one value for each round, with its bootstrap interval.

    Args:
        values: ``[rounds]``; for a ratio that of each round, so that a load of the machine that
            lasts for a round leaves it as it is.
        resamples: of the rounds, with replacement.
    """
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return Median(float(np.median(array)), float("nan"), float("nan"))
    picks = np.random.default_rng(0).integers(len(array), size=(resamples, len(array)))
    low, high = np.quantile(np.median(array[picks], axis=1), [0.025, 0.975])
    return Median(float(np.median(array)), float(low), float(high))


def medians(
    rounds: pd.DataFrame, *, by: Sequence[str], ratios: Mapping[str, tuple[str, str]]
) -> pd.DataFrame:
    """A row for each case: the medians of its times, and of their ratios with their intervals.

    Args:
        rounds: a row for each round of a case; the columns of times end in their unit.
        by: columns that tell cases apart.
        ratios: of two columns each, by name; without those whose columns are not there.
    """
    times = [name for name in rounds if name.endswith(("_ms", "_us"))]
    rows = []
    for case, group in rounds.groupby(list(by), sort=False):
        found = {
            name: str(median(group[above] / group[below]))
            for name, (above, below) in ratios.items()
            if {above, below} <= set(times)
        }
        rows.append({**dict(zip(by, case, strict=True)), **group[times].median(), **found})
    return pd.DataFrame(rows)


def after_a_step(observation: Tensor, ends: Tensor) -> TensorDict:
    """What random steps return.

    Args:
        observation: the following ones.
        ends: whether episodes end there ``[*, 1]``.
    """
    return TensorDict(
        observation=observation,
        reward=torch.randn(ends.shape),
        done=ends,
        terminated=ends.clone(),
        batch_size=ends.shape[:-1],
    )


def describe_machine(num_threads: int) -> str:
    """Processor, cores, versions and threads, in one line.

    Args:
        num_threads: that the benchmark uses.
    """
    machine = f"{processor()}, {os.cpu_count()} CPU cores"
    versions = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    return f"{machine}; {versions}; threads: {num_threads}"


def processor() -> str:
    """The name of the processor; of its architecture where Linux does not tell."""
    file = Path("/proc/cpuinfo")
    names = re.findall("model name.*: (.*)", file.read_text()) if file.exists() else []
    return names[0] if names else platform.machine()


def load_averages() -> str:
    """Processes that ran or waited over the last 1, 5 and 15 minutes, as in /proc/loadavg."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())
