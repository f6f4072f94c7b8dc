"""Gives the pattern of a run's step times a name: steady, a warm-up, spikes with or without a period, drift.

All is done on the logarithms of the step times: what counts is how many times as long a step
takes. Steps are counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Name = Literal["steady", "warm-up only", "periodic spikes", "irregular spikes", "drift"]
Floats = npt.NDArray[np.float64]

LEAST_STEPS = 8
"""Fewer steps show no pattern: the quartiles that tell spikes from noise need a few steps each."""

SPIKE_TIMES = 1.5
"""A spike takes at least this many times the typical step. Timer and scheduling noise of single steps
reaches a third now and then; half as long again is what the eye sees in a plot."""
SPIKE_SIGMAS = 4.0
"""... and is this many robust standard deviations of the logarithms away: 3 normal values in 100,000 are."""
REGULAR_SIGMAS = 3.0
"""... or this many where spikes have a period, which is evidence of its own: 1 in 1000 is by chance."""
MOST_SPIKES = 0.5
"""Slow steps that are more than this share are the typical ones, and the fast ones the exception."""
MOST_IRREGULAR = 0.25
"""Slow steps without a period that are more than this share are no spikes but a wide spread."""
LONG_SPIKE = 0.1
"""Slow steps in a row that are more than this share of the run are another rate, not a spike."""

LEAST_COST = 0.05
"""Spikes without a period count from this share of the time on; below it they are mentioned as outliers."""
LEAST_IRREGULAR = 3
"""... and from this many on, unless a log tells their cause: one or two happen on any machine."""

DRIFT_SHARE = 0.10
"""Drift is a change of the typical step by more than this share over the run: what two cells must differ by
to be told apart in practice, and more than clocks and temperature change in seconds."""
DRIFT_SIGMAS = 3.29
"""... that chance gives in 1 of 1000 steady runs (two-sided), for each of two shapes: a slope and a jump."""
_BLOCKS = 40
"""Medians of so many neighbouring steps stand for the run: noise with a short memory averages out in them."""

HITS = 0.6
"""Share of the spikes that must have another one a period later; the rest may be missing or strangers."""
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

MOST_IN_A_GROUP = 8
"""Batches that parallel calls finish together, so that only the first is waited for; not many machines run
more calls at a time than this."""

_LOOK_FOR = (
    "look for recompiles (shapes or Python arguments that change), checkpoints, "
    "refills of the shuffle buffer and ends of epochs"
)
_MEANING = {
    "recompiles": "XLA compiles at these steps: look for shapes or Python arguments that change",
    "checkpoint": "checkpoints are written at these steps",
    "shuffle refill": "the shuffle buffer is filled anew then",
    "epoch end": "an epoch ends then, and the loader begins anew",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    name: Name
    sentence: str
    period_steps: float | None = None
    """Steps from one spike to the next, a mean; for 'periodic spikes' only."""
    cause: str | None = None
    """'recompiles', 'checkpoint', 'shuffle refill' or 'epoch end'; None where no log tells one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spike:
    """Slow steps in a row, ``first`` to ``last``."""

    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """What else is known of the run."""

    compiles: Sequence[int]
    checkpoints: Sequence[int]
    refill_steps: float | None
    epoch_steps: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """A run taken apart: its typical step, and the steps that are slower."""

    times: Floats
    """Seconds of each step."""
    logs: Floats
    calm: npt.NDArray[np.bool_]
    """Which steps are in no spike."""
    settled: int
    """The first step behind the warm-up."""
    typical_s: float
    candidates: tuple[Sequence[_Spike], Sequence[_Spike]]
    """Spikes that may have a period: weak ones too, and only clear ones."""
    early: Sequence[_Spike]
    late: Sequence[_Spike]
    """Clear spikes in the warm-up, and behind it."""
    cost: float
    """Share of the time behind the warm-up that the late ones took beyond a typical step each."""
    cause: str | None
    """What a log says of the late ones."""
    known: _Known


def name_pattern(
    step_s: Sequence[float],
    *,
    warm_up_steps: int,
    compile_steps: Sequence[int] = (),
    epoch_steps: float | None = None,
    shuffle_refill_steps: float | None = None,
    checkpoint_steps: Sequence[int] = (),
) -> Pattern:
    """The pattern of ``step_s`` (seconds of every step, from the first).

    ``warm_up_steps`` are the steps before the measurement: slow ones among them are warm-up,
    unless they belong to spikes that go on with the same period. ``compile_steps`` and
    ``checkpoint_steps`` are indices of ``step_s``; ``epoch_steps`` and ``shuffle_refill_steps``
    are steps from one epoch's end, or refill, to the next, and may be fractions.
    Where several patterns are there, spikes with a period are named first, then drift, then
    spikes without one: a rate that changes makes the mean of the run mean little.
    Errors: ValueError for a time that is negative or not finite.
    """
    times = np.asarray(step_s, np.float64)
    if not np.all(np.isfinite(times)) or np.any(times < 0):
        raise ValueError("step times must be finite seconds, none below 0")
    if len(times) < LEAST_STEPS + 1:
        return Pattern(name="steady", sentence=f"steady as far as {len(times)} steps can show")
    known = _Known(
        compiles=compile_steps,
        checkpoints=checkpoint_steps,
        refill_steps=shuffle_refill_steps,
        epoch_steps=epoch_steps,
    )
    run = _take_apart(times, warm_up_steps, known)
    named = (of(run) for of in (_periodic, _drifting, _of_two_kinds, _irregular, _warming_up))
    return next((pattern for pattern in named if pattern), None) or Pattern(
        name="steady", sentence=f"steady: {_seconds(run.typical_s)} a step{_outliers(run)}"
    )


def _take_apart(times: Floats, warm_up_steps: int, known: _Known) -> _Run:
    # A microsecond is the finest that is recorded; the logarithm wants more than 0.
    logs = np.log(np.maximum(times, 1e-6))
    begin = min(max(warm_up_steps, 1), len(times) // 2)
    flat = logs - _trend(logs, begin)
    spikes = _find_spikes(flat, begin, SPIKE_SIGMAS)
    settled = max(begin, _settled(flat, begin))
    calm = _calm(len(times), spikes)
    typical_s = float(np.exp(np.median(logs[settled:][calm[settled:]])))
    early = [spike for spike in spikes if spike.first < settled]
    late = [spike for spike in spikes if spike.first >= settled]
    return _Run(
        times=times,
        logs=logs,
        calm=calm,
        settled=settled,
        typical_s=typical_s,
        candidates=(_find_spikes(flat, begin, REGULAR_SIGMAS), spikes),
        early=early,
        late=late,
        cost=_cost(times, late, typical_s, settled),
        cause=_logged_cause(late, len(times), known),
        known=known,
    )


# Spikes


def _trend(logs: Floats, begin: int) -> Floats:
    """A line that follows the run's lower quartiles, so that a drift is not taken for spikes."""
    blocks = _blocks(logs[begin:], np.arange(begin, len(logs)), 25)
    if len(blocks) < LEAST_STEPS:
        return np.zeros(len(logs))
    steps = np.arange(len(logs), dtype=np.float64)
    return _theil_sen(blocks) * (steps - len(logs) / 2)


def _find_spikes(flat: Floats, begin: int, sigmas: float) -> list[_Spike]:
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
    runs = [_Spike(first=int(a), last=int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    longest = max(3.0, LONG_SPIKE * len(flat))
    return [run for run in runs if run.first == 0 or run.last - run.first < longest]


def _settled(flat: Floats, begin: int) -> int:
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


def _calm(steps: int, spikes: Sequence[_Spike]) -> npt.NDArray[np.bool_]:
    calm = np.ones(steps, bool)
    for spike in spikes:
        calm[spike.first : spike.last + 1] = False
    return calm


# Periods


def _period(spikes: Sequence[_Spike], steps: int, known: _Known) -> float | None:
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
        slope = _theil_sen(points[:: math.ceil(len(points) / 400)]) if len(points) > 1 else refined
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


# Causes


def _logged_cause(spikes: Sequence[_Spike], steps: int, known: _Known) -> str | None:
    logs = {"recompiles": known.compiles, "checkpoint": known.checkpoints}
    return next((cause for cause, logged in logs.items() if _coincide(spikes, logged, steps)), None)


def _coincide(spikes: Sequence[_Spike], logged: Sequence[int], steps: int) -> bool:
    """Whether most spikes have a logged step in them, or right beside them (a log may lag), and
    other steps have not."""
    if not spikes or not logged:
        return False
    calm = _calm(steps, spikes)
    for slack in (0, 1):
        near = np.zeros(steps, bool)
        for step in logged:
            near[max(0, step - slack) : max(0, step + slack + 1)] = True
        share = np.mean([bool(near[spike.first : spike.last + 1].any()) for spike in spikes])
        elsewhere = near[calm].mean() if calm.any() else 0.0
        if share >= HITS and elsewhere <= share / 2:
            return True
    return False


def _cause_of_period(spikes: Sequence[_Spike], period: float, steps: int, known: _Known) -> str | None:
    logged = _logged_cause(spikes, steps, known)
    if logged is not None:
        return logged
    # Two steps is what both ends of the run of spikes may be displaced by.
    gaps = max(1.0, (spikes[-1].first - spikes[0].first) / period)
    lengths = {"epoch end": known.epoch_steps, "shuffle refill": known.refill_steps}
    off = {cause: abs(period - length) for cause, length in lengths.items() if length is not None}
    near = [cause for cause in off if off[cause] <= max(2 / gaps, 0.01 * period)]
    return min(near, key=lambda cause: off[cause], default=None)


# Drift


def _drift(logs: Floats, calm: npt.NDArray[np.bool_], begin: int) -> str | None:
    """How the typical step changed over the run, where it surely did by more than ``DRIFT_SHARE``."""
    steps = np.arange(len(logs))[begin:][calm[begin:]]
    blocks = _blocks(logs[steps], steps, 50)
    if len(blocks) < LEAST_STEPS:
        return None
    at, level = blocks[:, 0], blocks[:, 1]
    slope = _theil_sen(blocks)
    line = np.median(level - slope * at) + slope * at
    split, sides = _best_split(level)
    shapes = [
        (line, _kendall_sigmas(level), "steadily"),
        (sides, _pettitt_sigmas(level), f"at once, about step {int(at[split])},"),
    ]
    sure = [
        (np.sum(np.abs(level - fit)), fit, how) for fit, sigmas, how in shapes if _changes(level, fit, sigmas)
    ]
    if not sure:
        return None
    _, fit, how = min(sure, key=lambda shape: float(shape[0]))
    from_s, to_s = _seconds(math.exp(fit[0])), _seconds(math.exp(fit[-1]))
    return f"steps went {how} from {from_s} to {to_s} ({100 * math.expm1(fit[-1] - fit[0]):+.0f} %)"


def _changes(level: Floats, fit: Floats, sigmas: float) -> bool:
    memory = _memory(level - fit)
    # Noise with a memory counts for fewer blocks: n (1 - r) / (1 + r) (Bayley and Hammersley, 1946).
    sigmas *= math.sqrt((1 - memory) / (1 + memory))
    return abs(float(fit[-1] - fit[0])) > math.log1p(DRIFT_SHARE) and sigmas >= DRIFT_SIGMAS


def _blocks(logs: Floats, steps: Any, percent: float) -> Floats:
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


def _theil_sen(points: Floats) -> float:
    """Median of the slopes between all points (Sen, J. Am. Stat. Assoc. 63, 1968): up to 29 % of them may
    lie anywhere."""
    a, b = np.triu_indices(len(points), 1)
    return float(np.median((points[b, 1] - points[a, 1]) / (points[b, 0] - points[a, 0])))


def _kendall_sigmas(level: Floats) -> float:
    """Mann-Kendall test for a trend: its S over the standard deviation without one (Kendall, Rank
    Correlation Methods, 1975), ties counted."""
    n = len(level)
    a, b = np.triu_indices(n, 1)
    s = abs(float(np.sum(np.sign(level[b] - level[a]))))
    ties = np.unique(level, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    return max(0.0, s - 1) / math.sqrt(variance) if variance > 0 else 0.0


def _pettitt_sigmas(level: Floats) -> float:
    """Pettitt's test for a change at an unknown place (Applied Statistics 28, 1979), its probability given
    as the distance of a normal value that is as rare."""
    n = len(level)
    signs = np.sign(level[:, None] - level[None, :])
    largest = max(abs(float(signs[:k, k:].sum())) for k in range(1, n))
    # p = 2 exp(-6 K^2 / (n^3 + n^2)), and 2 exp(-z^2 / 2) bounds the normal distribution's two tails.
    return math.sqrt(12 * largest**2 / (n**3 + n**2))


def _best_split(level: Floats) -> tuple[int, Floats]:
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


def _memory(residuals: Floats) -> float:
    """Correlation of neighbouring residuals; 0 where it may be chance, or is negative."""
    spread = float(np.sum(residuals**2))
    memory = float(np.sum(residuals[1:] * residuals[:-1])) / spread if spread > 0 else 0.0
    # 1.64 / sqrt(n) is what noise without a memory reaches in one of twenty cases.
    return min(0.95, memory) if memory > 1.64 / math.sqrt(len(residuals)) else 0.0


# Words


def _periodic(run: _Run) -> Pattern | None:
    steps = len(run.times)
    found = ((spikes, _period(spikes, steps, run.known)) for spikes in run.candidates)
    spikes, period = next((each for each in found if each[1] is not None), ((), None))
    if period is None:
        return None
    cause = _cause_of_period(spikes, period, steps, run.known)
    # The first step, slow in any run, is left out.
    cost = _cost(run.times, [spike for spike in spikes if spike.first > 0], run.typical_s, 1)
    meaning = _meaning(
        cause, "batches that arrive in groups look so too" if period <= MOST_IN_A_GROUP else ""
    )
    return Pattern(
        name="periodic spikes",
        period_steps=period,
        cause=cause,
        sentence=f"periodic spikes: every {_steps(period)} steps {_instead(run, spikes, cost)}; {meaning}",
    )


def _drifting(run: _Run) -> Pattern | None:
    drift = _drift(run.logs, run.calm, run.settled)
    return Pattern(name="drift", sentence=f"drift: {drift}{_outliers(run)}") if drift else None


def _of_two_kinds(run: _Run) -> Pattern | None:
    share = sum(spike.last + 1 - spike.first for spike in run.late) / (len(run.times) - run.settled)
    if share <= MOST_IRREGULAR:
        return None
    slow_s = _seconds(_median_peak(run.times, run.late))
    return Pattern(
        name="steady",
        sentence=(
            f"steady on the whole: {100 * share:.0f} % of the steps take about {slow_s}, the others "
            f"{_seconds(run.typical_s)}, in no fixed order (batches that arrive in groups look so)"
        ),
    )


def _irregular(run: _Run) -> Pattern | None:
    if run.cost < LEAST_COST or (len(run.late) < LEAST_IRREGULAR and run.cause is None):
        return None
    count = f"{len(run.late)} spikes" if len(run.late) > 1 else "a spike"
    return Pattern(
        name="irregular spikes",
        cause=run.cause,
        sentence=(
            f"irregular spikes: {count} without a period, {_instead(run, run.late, run.cost)}; "
            f"{_meaning(run.cause, 'or other processes')}"
        ),
    )


def _warming_up(run: _Run) -> Pattern | None:
    if not run.early:
        return None
    last, longest_s = run.early[-1].last, max(_peak(run.times, spike) for spike in run.early)
    which = f"slow steps among the first {last + 1} took up to" if last else "the first step took"
    return Pattern(
        name="warm-up only",
        sentence=(
            f"warm-up only: {which} {_seconds(longest_s)}, then steady at {_seconds(run.typical_s)}"
            f"{_outliers(run)}"
        ),
    )


def _outliers(run: _Run) -> str:
    if not run.late:
        return ""
    longest_s = max(_peak(run.times, spike) for spike in run.late)
    count = f"{len(run.late)} outliers" if len(run.late) > 1 else "one outlier"
    why = f", {run.cause}" if run.cause else ""
    return f", apart from {count} of up to {_seconds(longest_s)} ({100 * run.cost:.1f} % of the time{why})"


def _instead(run: _Run, spikes: Sequence[_Spike], cost: float) -> str:
    return (
        f"{_seconds(_median_peak(run.times, spikes))} instead of {_seconds(run.typical_s)}, "
        f"{100 * cost:.0f} % of the time"
    )


def _meaning(cause: str | None, other: str) -> str:
    if cause:
        return _MEANING[cause]
    return f"cause unknown: {_LOOK_FOR}{f'; {other}' if other else ''}"


def _cost(times: Floats, spikes: Sequence[_Spike], typical_s: float, begin: int) -> float:
    """Share of the time from ``begin`` on that the spikes took beyond a typical step each."""
    extra = sum(
        float(np.maximum(times[spike.first : spike.last + 1] - typical_s, 0).sum()) for spike in spikes
    )
    total = float(times[begin:].sum())
    return extra / total if total > 0 else 0.0


def _peak(times: Floats, spike: _Spike) -> float:
    return float(times[spike.first : spike.last + 1].max())


def _median_peak(times: Floats, spikes: Sequence[_Spike]) -> float:
    return float(np.median([_peak(times, spike) for spike in spikes]))


def _steps(period: float) -> str:
    return f"{period:.0f}" if abs(period - round(period)) < 0.05 else f"{period:.1f}"


def _seconds(seconds: float) -> str:
    """Three digits: 150 s, 1.00 s, 12.0 ms, 850 us."""
    value, unit = next(
        ((seconds * per_s, unit) for per_s, unit in ((1, "s"), (1e3, "ms")) if seconds * per_s >= 0.9995),
        (seconds * 1e6, "us"),
    )
    return f"{value:.0f} {unit}" if value >= 99.95 or unit == "us" else f"{value:#.3g} {unit}"
