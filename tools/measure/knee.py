"""Sweeps: what ``--sweep`` asks for, and from which value of a setting on more of it gains nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

SETTINGS = ("batch_size", "parallel", "prefetch", "cycle_length", "shuffle_buffer")
"""What can be swept; ``parallel`` is --parallel-calls for tfdata and --dali-threads for dali."""

LEAST_POINTS = 3
"""Two points have no knee between them."""
LEAST_GAIN = 0.10
"""A doubling would ideally double the rate, a gain of 1. Below this share of it more is not worth its memory
or cores: by Amdahl's law, 2 / (1 + s) = 1.1, four fifths (s = 0.82) of the time then no longer depend on the
setting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Knee:
    """From where on a setting gains nothing."""

    at: float
    """The smallest value that is enough."""
    still_rising: bool
    """It is the largest one that was measured: a larger one may gain more."""
    falls_after: bool
    """A larger value than ``at`` is slower by more than the noise."""
    sentence: str


def find_knee(
    x: Sequence[float], rates: Sequence[float], noise: float, *, name: str | None = None
) -> Knee | None:
    """The smallest of the values ``x`` beyond which nothing is gained; None with fewer than three.

    ``rates`` are images a second, in the order of ``x``; ``noise`` is the share by which two
    measurements of the same thing differ (0.02 is 2 %). ``name`` begins the sentence.
    A value is enough when no larger one is faster by more than ``noise`` and by more than
    ``LEAST_GAIN`` for each doubling between the two. All larger values count, not the next
    alone, so that a dip does not hide a gain behind it.
    Errors: ValueError for values that are not above 0 or come twice, for rates that are not
    above 0, and for a negative noise.
    """
    _check(x, rates, noise)
    if len(x) < LEAST_POINTS:
        return None
    points = sorted(zip(x, rates, strict=True))
    index = next(
        i for i in range(len(points)) if not any(_gains(points[i], other, noise) for other in points[i + 1 :])
    )
    (at, rate), later = points[index], points[index + 1 :]
    lowest = min((other for _, other in later), default=rate)
    falls_after = lowest < (1 - noise) * rate and lowest < rate
    words = _words(points, index, falls_after)
    return Knee(
        at=at,
        still_rising=not later,
        falls_after=falls_after,
        sentence=f"{name}: {words}" if name else words,
    )


def parse_sweep(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The values of each setting that ``batch_size=32,64 parallel=1,2,4`` names, in that order.

    Errors: ValueError with one sentence for an unknown setting, one that comes twice, fewer
    than two values, and a value that is no whole number, below 1 or there twice.
    """
    sweep: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ValueError(f"--sweep must be SETTING=N,N,... such as batch_size=32,64: {text!r}")
        if name not in SETTINGS:
            raise ValueError(f"--sweep knows the settings {', '.join(SETTINGS)}: {name!r}")
        if name in sweep:
            raise ValueError(f"--sweep names a setting twice: {name}")
        values = [_value(name, value.strip()) for value in listed.split(",")]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ValueError(f"--sweep {name} names a value twice: {twice}")
        if len(values) < 2:
            raise ValueError(f"--sweep {name} needs at least two values: {text!r}")
        sweep[name] = tuple(values)
    return sweep


def _value(name: str, text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None:
        raise ValueError(f"--sweep {name} must be whole numbers of at most nine digits: {text!r}")
    if int(text) < 1:
        raise ValueError(f"--sweep {name} must be at least 1: {text}")
    return int(text)


def _check(x: Sequence[float], rates: Sequence[float], noise: float) -> None:
    if len(x) != len(rates):
        raise ValueError(f"a sweep needs a rate for every value: {len(x)} values and {len(rates)} rates")
    if len(set(x)) < len(x) or not all(value > 0 and math.isfinite(value) for value in x):
        raise ValueError(f"a sweep's values must be above 0, each there once: {list(x)}")
    if not all(rate > 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"a sweep's rates must be above 0: {list(rates)}")
    if not noise >= 0:
        raise ValueError(f"the noise of a sweep must be at least 0: {noise}")


def _gains(point: tuple[float, float], larger: tuple[float, float], noise: float) -> bool:
    doublings = math.log2(larger[0] / point[0])
    least = max(1 + noise, math.pow(1 + LEAST_GAIN, doublings))
    return larger[1] / point[1] > least


def _words(points: Sequence[tuple[float, float]], index: int, falls_after: bool) -> str:
    (at, rate), later = points[index], points[index + 1 :]
    if not later:
        before, rate_before = points[index - 1]
        gain = _gain(rate_before, rate)
        return f"still rising at the end ({_number(at)} {gain} over {_number(before)}); try more"
    if falls_after:
        lowest, lowest_rate = min(later, key=lambda point: point[1])
        return f"{_number(at)} is enough, it falls after ({_number(lowest)} {_gain(rate, lowest_rate)})"
    best, best_rate = max(later, key=lambda point: point[1])
    return f"{_number(at)} is enough ({_number(best)} {_gain(rate, best_rate)})"


def _gain(rate: float, other: float) -> str:
    percent = round(100 * (other / rate - 1))
    return f"{'gains' if percent >= 0 else 'loses'} {abs(percent)} %"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
