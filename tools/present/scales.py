"""From values to places in a plot, and from long series to as many points as it has pixels.

Places are shares of the plot's width and height, from 0 to 1, with y upwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOG_ABOVE = 20.0
"""A largest value that is this many times the median would flatten everything else on a linear scale."""

_LEAST = 1e-12
"""Below it, everything is 0 in a plot."""

Points = list[tuple[int, float]]
"""Index and value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A linear or logarithmic scale from ``low`` to ``high``."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where ``value`` lies, from 0 to 1; what lies outside is put on the edge."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            share = (math.log(max(value, self.low)) - low) / (high - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self, count: int = 4) -> list[float]:
        """Round values in the scale, about ``count`` of them."""
        if self.log:
            return _log_ticks(self.low, self.high)
        step = nice_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def nice_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, the next above ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def from_zero(values: Iterable[float]) -> Scale:
    """A linear scale from 0 to a little above the largest value."""
    most = max((value for value in values), default=0.0)
    return Scale(low=0.0, high=1.04 * most) if most >= _LEAST else Scale(low=0.0, high=1.0)


def for_times(values: Sequence[float]) -> Scale:
    """From zero, or logarithmic where the largest value would flatten all others."""
    positive = sorted(value for value in values if value >= _LEAST)
    if not positive:
        return Scale(low=0.0, high=1.0)
    median = positive[len(positive) // 2]
    if positive[-1] < LOG_ABOVE * median:
        return from_zero(positive)
    # Single steps may take next to no time (a batch that lay ready): they are drawn on the edge.
    return Scale(low=max(positive[0], median / 100) / 1.2, high=positive[-1] * 1.3, log=True)


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(ticks) >= 2:
        return ticks
    every = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in every if low <= tick <= high]


def decimate(values: Sequence[float], columns: int) -> Points:
    """(index, value) of the smallest and the largest value of each of ``columns`` equal parts, in their
    order, so that no spike is lost; every value where there are no more than two for a column."""
    if len(values) <= 2 * columns:
        return list(enumerate(values))
    points: Points = []
    for column in range(columns):
        first, last = column * len(values) // columns, (column + 1) * len(values) // columns
        part = range(first, last)
        ends = {min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
        points += [(index, values[index]) for index in sorted(ends)]
    return points


def line_path(points: Sequence[tuple[float, float]]) -> str:
    """An SVG path through places, in a view box of 1000 x 1000 with y downwards."""
    return "".join(
        f"{'L' if number else 'M'}{_grid(x)} {_grid(1 - y)}" for number, (x, y) in enumerate(points)
    )


def area_path(
    upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]] | None = None
) -> str:
    """An SVG path around what lies between two lines of places, or below one."""
    if not upper:
        return ""
    under = lower if lower is not None else [(upper[0][0], 0.0), (upper[-1][0], 0.0)]
    return f"{line_path([*upper, *reversed(under)])}Z"


def _grid(share: float) -> int:
    return round(1000 * share)
