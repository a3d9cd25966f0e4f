"""What the benchmarks share: turns under one load, medians of ratios, the state of the machine."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike


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
    before: Callable[[], object] | None = None,
) -> pd.DataFrame:
    """Time functions in turns, so that all of them meet the same load of the machine.

    Args:
        contestants: what to call, by name.
        rounds: each contestant has one turn in each.
        calls: of a turn.
        before: what to call before each call, without counting its time.

    Returns:
        One row for each round: ``round``, and for each contestant its milliseconds a call.
    """
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


def refuse_fallback() -> None:
    """Let an update that cannot be compiled fail: it would be timed in place of a compiled one."""
    warnings.filterwarnings("error", message="(?s).*run uncompiled")


def describe_machine(num_threads: int) -> str:
    """Processor, cores, versions and threads, in one line.

    Args:
        num_threads: that the benchmark uses.
    """
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores"
    versions = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    return f"{machine}; {versions}; threads: {num_threads}"


def load_averages() -> str:
    """Processes that ran or waited over the last 1, 5 and 15 minutes, as in /proc/loadavg."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())
