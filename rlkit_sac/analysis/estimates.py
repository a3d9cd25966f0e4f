"""Statistics over runs, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError, check_integer, check_number

Statistic = Literal["mean", "iqm"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimator:
    r"""A statistic over runs, and its percentile bootstrap interval.

    `"mean"` is the arithmetic mean. `"iqm"` is the interquartile mean: of :math:`n` sorted values
    the :math:`\lfloor n/4 \rfloor` lowest and as many highest are dropped, the others are averaged
    with equal weight, as `scipy.stats.trim_mean(values, 0.25)` does. Only if 4 divides :math:`n`
    is that exactly the middle half: 5 values keep 3, 7 values keep 5, fewer than 4 values keep
    all, and the interquartile mean is the mean. Another statistic is a subclass with its `value`.

    The interval spans the middle `confidence` of the statistic's distribution over resamples of
    the runs, drawn with replacement; each stratum keeps its number of runs. See Agarwal et al.,
    "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021,
    https://arxiv.org/abs/2108.13264.

    Args:
        statistic: `"mean"` (default) or `"iqm"`, of all runs together.
        confidence: level of the interval, between 0 and 1. Default 0.95.
        resamples: number of resamples; 0 for no intervals. Default 9999.
        seed: seed of the resamples. Default 0.

    Raises:
        ConfigError: the statistic is unknown, or a number is out of its range.

    Example:
        >>> estimator = Estimator("iqm")
        >>> float(estimator.value(np.array([0.0, 1.0, 2.0, 90.0])))
        1.5
        >>> low, high = estimator.interval(np.array([0.0, 1.0, 2.0, 90.0]))
        >>> bool(low < 1.5 < high)
        True
    """

    statistic: Statistic = "mean"
    confidence: float = 0.95
    resamples: int = 9999
    seed: int = 0
    _quantile: ClassVar[Literal["linear", "inverted_cdf"]] = "linear"

    def __post_init__(self) -> None:
        if self.statistic not in ("mean", "iqm"):
            raise ConfigError(f"statistic is {self.statistic!r}; choose 'mean' or 'iqm'")
        check_number("confidence", self.confidence, above=0, below=1)
        check_integer("resamples", self.resamples, 0)
        check_integer("seed", self.seed, 0)

    def value(self, *strata: Floats) -> Floats:
        """The statistic.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            An array `[*]`.
        """
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
        sizes = [stratum.shape[-1] for stratum in strata]
        if not self.resamples or min(sizes) < 2:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        random = np.random.default_rng(self.seed)
        drawn = [random.integers(0, n, (self.resamples, n)) for n in sizes]
        levels = np.array([(1 - self.confidence) / 2, (1 + self.confidence) / 2])
        ends = np.empty((*shape, 2))
        for point in np.ndindex(shape):
            values = self.value(*(x[point][i] for x, i in zip(strata, drawn, strict=True)))
            ends[point] = np.quantile(values, levels, method=self._quantile)
        return ends[..., 0], ends[..., 1]

    def columns(self, *strata: Floats) -> dict[str, Any]:
        """The statistic and its interval as columns of a table.

        Args:
            strata: as for :meth:`interval`.

        Returns:
            `value`, `low` and `high`: arrays `[*]`, or scalars if the strata are `[runs]`.
        """
        low, high = self.interval(*strata)
        return {"value": self.value(*strata)[()], "low": low[()], "high": high[()]}


class Median(Estimator):
    """The median of all runs together, of values that may be infinite.

    The ends of its interval are medians of resamples, and not between two of them.

    >>> float(Median().value(np.array([5.0, np.inf, 3.0])))
    5.0
    """

    _quantile = "inverted_cdf"

    def value(self, *strata: Floats) -> Floats:
        """The median, as :meth:`Estimator.value`."""
        return np.asarray(np.median(np.concatenate(strata, axis=-1), axis=-1))
