"""Medians, percentiles and paired ratios with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.99
LEAST_PAIRS = 8
"""Pairs below which no interval is given."""
_RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """How many times as large A is as B, from pairs that were measured side by side."""

    value: float
    """Median of the pairs' ratios."""
    low: float | None
    high: float | None
    """Ends of the 99 % bootstrap interval of the median; None with fewer than ``LEAST_PAIRS`` pairs."""
    pairs: int

    @property
    def covers_one(self) -> bool | None:
        """Whether A and B may be equal; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 1.0 <= self.high


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """The ratio of ``a`` to ``b``, value by value.

    The interval is the percentile bootstrap of the median (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, chapter 13), from a fixed seed.
    Errors: ValueError unless both have as many values, at least one.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"a paired ratio needs as many values on both sides: {len(a)} and {len(b)}")
    ratios = np.asarray(a, float) / np.asarray(b, float)
    value = float(np.median(ratios))
    if len(ratios) < LEAST_PAIRS:
        return Ratio(value=value, low=None, high=None, pairs=len(ratios))
    low, high = median_interval(ratios.tolist())
    return Ratio(value=value, low=low, high=high, pairs=len(ratios))


def ratio_of_rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> Ratio:
    """The paired ratio of two cells' rates, over the rounds that both have."""
    ours, theirs = a["images_per_s_rounds"], b["images_per_s_rounds"]
    rounds = min(len(ours), len(theirs))
    return paired_ratio(ours[:rounds], theirs[:rounds])


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the 99 % bootstrap interval of the median of ``values``."""
    sample = np.asarray(values, float)
    draws = np.random.default_rng(0).integers(0, len(sample), (_RESAMPLES, len(sample)))
    medians = np.median(sample[draws], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)


def median(values: Sequence[float]) -> float:
    return float(np.median(np.asarray(values, float)))


def percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(np.asarray(values, float), percent))
