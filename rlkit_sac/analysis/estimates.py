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
        resamples: number of resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Raises:
        ConfigError: the statistic is unknown, or scipy is needed and not installed.

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
        if self.statistic == "mean":
            return np.asarray(scores.mean(axis=-1))
        return np.asarray(scipy_stats().trim_mean(scores, 0.25, axis=-1))

    def interval(self, *strata: Floats) -> tuple[Floats, Floats]:
        """The bootstrap interval of the statistic.

        All points of a run are resampled together, and the runs of a stratum only among
        themselves.

        Args:
            strata: arrays `[*, runs]` of equal leading shape.

        Returns:
            Its lower and upper ends `[*]`, NaN if some stratum has a single run.
        """
        shape = strata[0].shape[:-1]
        if any(stratum.shape[-1] < 2 for stratum in strata):
            return np.full(shape, np.nan), np.full(shape, np.nan)
        stats = scipy_stats()
        flat = [stratum.reshape(-1, stratum.shape[-1]) for stratum in strata]
        step = max(1, CHUNK // (self.resamples * sum(rows.shape[-1] for rows in flat)))
        ends = []
        for start in range(0, len(flat[0]), step):
            result = stats.bootstrap(
                [rows[start : start + step] for rows in flat],
                lambda *resampled, axis: self.value(*resampled),
                axis=-1,
                vectorized=True,
                n_resamples=self.resamples,
                confidence_level=self.confidence,
                method="percentile",
                # The same seed in each chunk: the same runs at all points. The newer name of the
                # argument, rng, needs scipy 1.15.
                random_state=np.random.default_rng(self.seed),
            )
            ends.append(result.confidence_interval)
        low = np.concatenate([np.atleast_1d(end.low) for end in ends])
        high = np.concatenate([np.atleast_1d(end.high) for end in ends])
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


def scipy_stats() -> Any:
    """The module `scipy.stats`, or a :class:`ConfigError` that says how to install it."""
    try:
        import scipy.stats
    except ImportError as error:
        raise ConfigError(
            "intervals and statistics other than the mean need scipy, which is not installed: "
            "pip install 'rlkit_sac[plots]'"
        ) from error
    return scipy.stats
