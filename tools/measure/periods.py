"""Spikes that come back after the same number of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tools.measure.robust import theil_sen
from tools.measure.spikes import HITS, LONG_SPIKE, Known, Spike, logged_cause

MULTIPLES = 0.75
"""Or else the share of the gaps that must be a whole number of periods: so many that spikes are missing."""
FILLED = 0.6
"""Share of the places of a period that must have a spike: above a half, which every second place would be."""
CHANCE = 0.003
"""Probability that spikes placed at random would look as regular, below which they are called periodic."""
CHANCE_ALL_REGULAR = 0.05
"""The same where every gap is the same: three spikes, two equal gaps of 11 steps, are enough then."""
CHANCE_KNOWN = 0.01
"""The same where the period is known beforehand: two spikes at the ends of epochs of 30 steps are enough."""
_WINDOWS = ((0, 2), (1, 5), (2, 9))
"""How far a spike may be from its place (steps), and the shortest period at which that still tells."""


def period_of(spikes: Sequence[Spike], steps: int, known: Known) -> float | None:
    """The period of the spikes. The first step, slow in any run, need not fit."""
    starts = [spike.first for spike in spikes]
    tries = [starts, starts[1:]] if starts[:1] == [0] else [starts]
    for each in tries:
        period = find_period(each, steps)
        if period is not None:
            return period
    for expected in (known.epoch_steps, known.refill_steps):
        if expected is not None and _at_multiples(tries[-1], expected, steps):
            return expected
    return None


def find_period(starts: Sequence[int], steps: int) -> float | None:
    """The mean distance of spikes that come regularly; None where they don't.

    ``starts`` are their steps, rising, of a run of ``steps``. A period is one of the distances
    between neighbours (up to three apart), the shortest for which most spikes have another one
    about a period later, for which about as many are there as the run has room for, that goes
    on to the end, and that spikes in random places would give only with the probability
    ``CHANCE`` (the binomial tail, times the number of distances tried).
    """
    at = np.asarray(starts, np.int64)
    if len(at) < 3:
        return None
    present = np.zeros(steps, bool)
    present[at] = True
    distances = sorted({int(d) for lag in (1, 2, 3) for d in at[lag:] - at[:-lag]})
    for period in distances:
        ended = at[-1] < steps - 1 - max(2.5 * period, LONG_SPIKE * steps)
        if ended or len(at) < FILLED * (steps - at[0]) / period:
            continue
        for slack, shortest in _WINDOWS:
            if period >= shortest and _is_regular(at, present, period, slack, len(distances)):
                near = [d for d in distances if period <= d <= period + 2 * slack + 1]
                best = max(near, key=lambda d: [_hits(at, present, d, within)[0] for within in (1, 0)])
                return _refine(at, best)
    return None


def _is_regular(
    at: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], period: int, slack: int, tried: int
) -> bool:
    window, gaps = 2 * slack + 1, np.diff(at)
    # One gap says what the period is; the others are evidence.
    if np.all(np.abs(gaps - period) <= slack):
        # Random gaps are geometric: any one length has at most the probability 1 / (e length).
        chance = _tail(len(gaps) - 1, len(gaps) - 1, window / (math.e * period))
        return chance < CHANCE_ALL_REGULAR / window
    least = CHANCE / (tried * len(_WINDOWS))
    hits, room = _hits(at, present, period, slack)
    if hits >= HITS * room and _tail(hits - 1, room - 1, window * len(at) / len(present)) < least:
        return True
    whole = int(np.sum(np.abs(gaps - period * np.maximum(1, np.round(gaps / period))) <= slack))
    if whole < MULTIPLES * len(gaps) or whole < FILLED * (at[-1] - at[0]) / period:
        return False
    return _tail(whole - 1, len(gaps) - 1, window / period) < least


def _hits(
    at: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], period: int, slack: int
) -> tuple[int, int]:
    """How many spikes have another one a period later, and how many have room for it."""
    steps = len(present)
    with_room = at[at + period + slack < steps] if slack else at[at + period < steps]
    found = np.zeros(len(with_room), bool)
    for off in range(-slack, slack + 1):
        found |= present[with_room + period + off]
    return int(found.sum()), len(with_room)


def _refine(at: npt.NDArray[np.int64], period: int) -> float:
    """The period as the slope of the spikes' steps over their numbers, missing ones counted.

    Theil-Sen: a stranger among the spikes, or one that is late, does not move it.
    """
    refined = float(period)
    for _ in range(2):
        number = np.concatenate([[0], np.cumsum(np.round(np.diff(at) / refined))])
        points = np.column_stack([number, at])[np.concatenate([[True], np.diff(number) > 0])]
        # Slopes between all pairs are too many for thousands of spikes; some hundreds do.
        slope = theil_sen(points[:: math.ceil(len(points) / 400)]) if len(points) > 1 else refined
        if abs(slope - period) > 1.5:
            break
        refined = slope
    return refined


def _at_multiples(starts: Sequence[int], expected: float, steps: int) -> bool:
    """Whether the spikes lie at the multiples of a period that is known beforehand, one step to either
    side: then two are enough."""
    places = [k * expected for k in range(1, math.ceil(steps / expected)) if k * expected < steps]
    found = [place for place in places if any(abs(start - place) <= 1.5 for start in starts)]
    near = sum(any(abs(start - place) <= 1.5 for place in places) for start in starts)
    if len(found) < 2 or len(found) < HITS * len(places) or near < HITS * len(starts):
        return False
    return _tail(near, len(starts), min(1.0, 3 / expected)) < CHANCE_KNOWN


def _tail(least: int, of: int, chance: float) -> float:
    """Probability of at least ``least`` successes in ``of`` trials (binomial)."""
    if chance >= 1 or least <= 0:
        return 1.0
    if chance <= 0:
        return 0.0
    odds = [
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(chance)
        + (of - k) * math.log1p(-chance)
        for k in range(least, of + 1)
    ]
    return min(1.0, math.fsum(math.exp(each) for each in odds))


def cause_of_period(spikes: Sequence[Spike], period: float, steps: int, known: Known) -> str | None:
    logged = logged_cause(spikes, steps, known)
    if logged is not None:
        return logged
    # Two steps is what both ends of the run of spikes may be displaced by.
    gaps = max(1.0, (spikes[-1].first - spikes[0].first) / period)
    lengths = {"epoch end": known.epoch_steps, "shuffle refill": known.refill_steps}
    off = {cause: abs(period - length) for cause, length in lengths.items() if length is not None}
    near = [cause for cause in off if off[cause] <= max(2 / gaps, 0.01 * period)]
    return min(near, key=lambda cause: off[cause], default=None)
