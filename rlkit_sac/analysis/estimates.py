"""Statistics over runs, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError

Statistic = Literal["mean", "iqm"]
Floats = NDArray[np.float64]

CHUNK = 2**22  # numbers held at once while resampling: 32 MiB


@dataclass(frozen=True)
class Estimator:
    r"""A statistic over runs, and its percentile bootstrap interval.

    `"mean"` is the arithmetic mean. `"iqm"` is the interquartile mean: of :math:`n` sorted values
    the :math:`\lfloor n/4 \rfloor` lowest and as many highest are dropped, the others are averaged
    with equal weight, as `scipy.stats.trim_mean(values, 0.25)` does. Only if 4 divides :math:`n`
    is that exactly the middle half: 5 values keep 3, 7 values keep 5, fewer than 4 values keep
    all, and the interquartile mean is the mean. A function is any other statistic.

    The interval spans the middle `confidence` of the statistic's distribution over resamples of
    the runs, drawn with replacement; each stratum keeps its number of runs. See Agarwal et al.,
    "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021,
    https://arxiv.org/abs/2108.13264.

    Args:
        statistic: `"mean"` or `"iqm"` of all runs together, or a function of the strata, arrays
            `[*, runs]`, that returns `[*]`. Default `"mean"`.
        confidence: level of the interval, between 0 and 1. Default 0.95.
        resamples: number of resamples; 0 for no intervals. Default 9999.
        seed: seed of the resamples. Default 0.

    Raises:
        ConfigError: the statistic is unknown.

    Example:
        >>> estimator = Estimator("iqm")
        >>> float(estimator.value(np.array([0.0, 1.0, 2.0, 90.0])))
        1.5
        >>> low, high = estimator.interval(np.array([0.0, 1.0, 2.0, 90.0]))
        >>> bool(low < 1.5 < high)
        True
    """

    statistic: Statistic | Callable[..., Floats] = "mean"
    confidence: float = 0.95
    resamples: int = 9999
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.statistic) and self.statistic not in ("mean", "iqm"):
            raise ConfigError(f"statistic is {self.statistic!r}; choose 'mean' or 'iqm'")

    def value(self, *strata: Floats) -> Floats:
        """The statistic.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            An array `[*]`.
        """
        if callable(self.statistic):
            return self.statistic(*strata)
        scores = np.concatenate(strata, axis=-1)
        if self.statistic == "iqm":
            cut = scores.shape[-1] // 4
            scores = np.sort(scores, axis=-1)[..., cut : scores.shape[-1] - cut]
        return np.asarray(scores.mean(axis=-1))

    def interval(self, *strata: Floats) -> tuple[Floats, Floats]:
        """The bootstrap interval of the statistic.

        All points of a run are resampled together, and the runs of a stratum only among
        themselves.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            Its lower and upper ends `[*]`, NaN without resamples, and if some
            stratum has a single run.
        """
        shape = strata[0].shape[:-1]
        if not self.resamples or any(stratum.shape[-1] < 2 for stratum in strata):
            return np.full(shape, np.nan), np.full(shape, np.nan)
        random = np.random.default_rng(self.seed)
        sizes = [stratum.shape[-1] for stratum in strata]
        drawn = [random.integers(0, n, (self.resamples, n)) for n in sizes]
        flat = [stratum.reshape(-1, n) for stratum, n in zip(strata, sizes, strict=True)]
        step = max(1, CHUNK // (self.resamples * sum(sizes)))
        tail = (1 - self.confidence) / 2
        ends = []
        for start in range(0, len(flat[0]), step):
            chunk = (
                rows[start : start + step, runs] for rows, runs in zip(flat, drawn, strict=True)
            )
            ends.append(np.quantile(self.value(*chunk), [tail, 1 - tail], axis=-1))
        low, high = np.concatenate(ends, axis=-1)
        return low.reshape(shape), high.reshape(shape)

    def columns(self, *strata: Floats) -> dict[str, Any]:
        """The statistic and its interval as columns of a table.

        Args:
            strata: as for :meth:`interval`.

        Returns:
            `value`, `low` and `high`: arrays `[*]`, or scalars if the strata are `[runs]`.
        """
        low, high = self.interval(*strata)
        return {"value": self.value(*strata)[()], "low": low[()], "high": high[()]}
