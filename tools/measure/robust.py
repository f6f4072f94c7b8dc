"""Robust statistics of a series of times: trend, its sureness, and where a level changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_BLOCKS = 40
"""Medians of so many neighbouring steps stand for the run: noise with a short memory averages out in them."""


def in_blocks(logs: Floats, steps: Any, percent: float) -> Floats:
    """[n, 2]: middle step and percentile of up to ``_BLOCKS`` blocks of at least two steps."""
    count = min(_BLOCKS, len(logs) // 2)
    if count == 0:
        return np.empty((0, 2))
    return np.array(
        [
            (np.mean(at), np.percentile(part, percent))
            for at, part in zip(np.array_split(steps, count), np.array_split(logs, count), strict=True)
        ]
    )


def theil_sen(points: Floats) -> float:
    """Median of the slopes between all points (Sen, J. Am. Stat. Assoc. 63, 1968): up to 29 % of them may
    lie anywhere."""
    a, b = np.triu_indices(len(points), 1)
    return float(np.median((points[b, 1] - points[a, 1]) / (points[b, 0] - points[a, 0])))


def kendall_sigmas(level: Floats) -> float:
    """Mann-Kendall test for a trend: its S over the standard deviation without one (Kendall, Rank
    Correlation Methods, 1975), ties counted."""
    n = len(level)
    a, b = np.triu_indices(n, 1)
    s = abs(float(np.sum(np.sign(level[b] - level[a]))))
    ties = np.unique(level, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    return max(0.0, s - 1) / math.sqrt(variance) if variance > 0 else 0.0


def pettitt_sigmas(level: Floats) -> float:
    """Pettitt's test for a change at an unknown place (Applied Statistics 28, 1979), its probability given
    as the distance of a normal value that is as rare."""
    n = len(level)
    signs = np.sign(level[:, None] - level[None, :])
    largest = max(abs(float(signs[:k, k:].sum())) for k in range(1, n))
    # p = 2 exp(-6 K^2 / (n^3 + n^2)), and 2 exp(-z^2 / 2) bounds the normal distribution's two tails.
    return math.sqrt(12 * largest**2 / (n**3 + n**2))


def best_split(level: Floats) -> tuple[int, Floats]:
    """Where two constant levels fit best (least absolute deviation), and those levels."""
    best: tuple[float, int, Floats] | None = None
    edge = max(2, len(level) // 8)
    for split in range(edge, len(level) - edge + 1):
        sides = np.where(np.arange(len(level)) < split, np.median(level[:split]), np.median(level[split:]))
        miss = float(np.sum(np.abs(level - sides)))
        if best is None or miss < best[0]:
            best = (miss, split, sides)
    assert best is not None
    return best[1], best[2]


def memory_of(residuals: Floats) -> float:
    """Correlation of neighbouring residuals; 0 where it may be chance, or is negative."""
    spread = float(np.sum(residuals**2))
    memory = float(np.sum(residuals[1:] * residuals[:-1])) / spread if spread > 0 else 0.0
    # 1.64 / sqrt(n) is what noise without a memory reaches in one of twenty cases.
    return min(0.95, memory) if memory > 1.64 / math.sqrt(len(residuals)) else 0.0
