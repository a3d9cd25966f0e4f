"""Statistics over runs, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError

Statistic = Literal["mean", "iqm"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimator:
    r"""A statistic over runs, with a percentile bootstrap interval.

    `"mean"` is the arithmetic mean. `"iqm"` is the interquartile mean: the
    :math:`\lfloor n/4 \rfloor` lowest and the :math:`\lfloor n/4 \rfloor` highest of :math:`n`
    values are dropped, the others are averaged with equal weight, as
    `scipy.stats.trim_mean(values, 0.25)` does. That is exactly the middle half only if 4 divides
    :math:`n`: 5 values keep 3, 7 values keep 5. Fewer than 4 values keep all, and the interquartile
    mean is the mean. Subclasses that override `value` are other statistics.

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
        ConfigError: the statistic is unknown, or the level is out of its range.

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
        if not (isinstance(self.confidence, float | np.number) and 0 < self.confidence < 1):
            raise ConfigError(f"confidence is {self.confidence!r}; give a number between 0 and 1")

    def value(self, *strata: Floats) -> Floats:
        """Return the statistic over all runs.

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
        """Return the bootstrap interval of the statistic.

        All points of a run are resampled together, and runs are resampled within their stratum.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            The lower and the upper end, `[*]` each: NaN without resamples, and if a stratum has a
            single run.
        """
        shape = strata[0].shape[:-1]
        sizes = [stratum.shape[-1] for stratum in strata]
        if not self.resamples or min(sizes) < 2:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        random = np.random.default_rng(self.seed)
        indices = [random.integers(0, n, (self.resamples, n)) for n in sizes]
        levels = np.array([(1 - self.confidence) / 2, (1 + self.confidence) / 2])
        ends = np.empty((*shape, 2))
        for point in np.ndindex(shape):
            values = self.value(*(x[point][i] for x, i in zip(strata, indices, strict=True)))
            ends[point] = np.quantile(values, levels, method=self._quantile)
        return ends[..., 0], ends[..., 1]

    def columns(self, *strata: Floats) -> dict[str, Any]:
        """Return the statistic and the interval as columns of a table.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            `value`, `low` and `high`: arrays `[*]`, or scalars if the strata are `[runs]`.
        """
        low, high = self.interval(*strata)
        return {"value": self.value(*strata)[()], "low": low[()], "high": high[()]}


class Median(Estimator):
    """The median over all runs, for values that may be infinite.

    The ends of the interval are medians of resamples; they are not interpolated between two.

    >>> float(Median().value(np.array([5.0, np.inf, 3.0])))
    5.0
    """

    _quantile = "inverted_cdf"

    def value(self, *strata: Floats) -> Floats:
        """Return the median over all runs, as :meth:`Estimator.value`."""
        return np.asarray(np.median(np.concatenate(strata, axis=-1), axis=-1))
