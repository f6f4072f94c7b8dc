"""Steps that took much longer than their neighbours, and what is known of the moments at which they did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.measure.robust import Floats

SPIKE_TIMES = 1.5
"""A spike takes at least this many times the typical step. Timer and scheduling noise of single steps
reaches a third now and then; half as long again is what the eye sees in a plot."""
SPIKE_SIGMAS = 4.0
"""... and is this many robust standard deviations of the logarithms away: 3 normal values in 100,000 are."""
REGULAR_SIGMAS = 3.0
"""... or this many where spikes have a period, which is evidence of its own: 1 in 1000 is by chance."""
MOST_SPIKES = 0.5
"""Slow steps that are more than this share are the typical ones, and the fast ones the exception."""
LONG_SPIKE = 0.1
"""Slow steps in a row that are more than this share of the run are another rate, not a spike."""
HITS = 0.6
"""Share of the spikes that must have another one a period later; the rest may be missing or strangers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spike:
    """Slow steps in a row, ``first`` to ``last``."""

    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What else is known of the run."""

    compiles: Sequence[int]
    checkpoints: Sequence[int]
    refill_steps: float | None
    epoch_steps: float | None


def find_spikes(flat: Floats, begin: int, sigmas: float) -> list[Spike]:
    """Runs of steps that are slow by ``sigmas``, short enough to be spikes; the typical step is taken from
    ``begin`` on.

    The first guess of level and spread comes from the fast side, which half of the steps
    being slow leaves as it is; clipping then repeats with the median and the median absolute
    deviation of what is left, until nothing changes.
    """
    body = flat[begin:]
    # From few steps the spread comes out too small now and then: by about 1 / sqrt(n), twice that at worst.
    sigmas *= 1 + 2 / math.sqrt(len(body))
    tenth, quarter = np.percentile(body, [10, 25])
    # Distances of the normal distribution's quantiles, in standard deviations.
    sigma = (quarter - tenth) / 0.607
    level = quarter + 0.674 * sigma
    slow = flat > level + max(math.log(SPIKE_TIMES), sigmas * sigma)
    if np.sum(slow[begin:]) > MOST_SPIKES * len(body) + 1:
        slow = np.zeros(len(flat), bool)
    for _ in range(10):
        rest = body[~slow[begin:]]
        level = np.median(rest)
        sigma = 1.4826 * np.median(np.abs(rest - level))
        again = flat > level + max(math.log(SPIKE_TIMES), sigmas * sigma)
        if np.sum(again[begin:]) > MOST_SPIKES * len(body) + 1 or np.array_equal(again, slow):
            break
        slow = again
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(int)))
    runs = [Spike(first=int(a), last=int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    longest = max(3.0, LONG_SPIKE * len(flat))
    return [run for run in runs if run.first == 0 or run.last - run.first < longest]


def settled_from(flat: Floats, begin: int) -> int:
    """The step from which on the run's level is reached, also where the warm-up was taken too short:
    the first of five whose median is."""
    body = flat[begin:]
    level = np.median(body)
    sigma = 1.4826 * np.median(np.abs(body - level))
    # The median of five normal values spreads 0.54 times as wide as they do.
    near = level + max(math.log(1.15), 2 * 0.54 * sigma)
    for step in range(len(flat) // 2):
        if np.median(flat[step : step + 5]) <= near:
            return step
    return 0


def calm_steps(steps: int, spikes: Sequence[Spike]) -> npt.NDArray[np.bool_]:
    calm = np.ones(steps, bool)
    for spike in spikes:
        calm[spike.first : spike.last + 1] = False
    return calm


def logged_cause(spikes: Sequence[Spike], steps: int, known: Known) -> str | None:
    logs = {"recompiles": known.compiles, "checkpoint": known.checkpoints}
    return next((cause for cause, logged in logs.items() if _coincide(spikes, logged, steps)), None)


def _coincide(spikes: Sequence[Spike], logged: Sequence[int], steps: int) -> bool:
    """Whether most spikes have a logged step in them, or right beside them (a log may lag), and
    other steps have not."""
    if not spikes or not logged:
        return False
    calm = calm_steps(steps, spikes)
    for slack in (0, 1):
        near = np.zeros(steps, bool)
        for step in logged:
            near[max(0, step - slack) : max(0, step + slack + 1)] = True
        share = np.mean([bool(near[spike.first : spike.last + 1].any()) for spike in spikes])
        elsewhere = near[calm].mean() if calm.any() else 0.0
        if share >= HITS and elsewhere <= share / 2:
            return True
    return False


def cost_of(times: Floats, spikes: Sequence[Spike], typical_s: float, begin: int) -> float:
    """Share of the time from ``begin`` on that the spikes took beyond a typical step each."""
    extra = sum(
        float(np.maximum(times[spike.first : spike.last + 1] - typical_s, 0).sum()) for spike in spikes
    )
    total = float(times[begin:].sum())
    return extra / total if total > 0 else 0.0


def peak_of(times: Floats, spike: Spike) -> float:
    return float(times[spike.first : spike.last + 1].max())


def median_peak(times: Floats, spikes: Sequence[Spike]) -> float:
    return float(np.median([peak_of(times, spike) for spike in spikes]))


def seconds_words(seconds: float) -> str:
    """Three digits: 150 s, 1.00 s, 12.0 ms, 850 us."""
    value, unit = next(
        ((seconds * per_s, unit) for per_s, unit in ((1, "s"), (1e3, "ms")) if seconds * per_s >= 0.9995),
        (seconds * 1e6, "us"),
    )
    return f"{value:.0f} {unit}" if value >= 99.95 or unit == "us" else f"{value:#.3g} {unit}"
