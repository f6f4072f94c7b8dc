"""Gives the pattern of a run's step times a name: steady, a warm-up, spikes with or without a period, drift.

All is done on the logarithms of the step times: what counts is how many times as long a step
takes. Steps are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tools.measure.drift import LEAST_STEPS, find_drift, trend_of
from tools.measure.periods import cause_of_period, period_of
from tools.measure.robust import Floats
from tools.measure.spikes import (
    REGULAR_SIGMAS,
    SPIKE_SIGMAS,
    Known,
    Spike,
    calm_steps,
    cost_of,
    find_spikes,
    logged_cause,
    median_peak,
    peak_of,
    seconds_words,
    settled_from,
)

Name = Literal["steady", "warm-up only", "periodic spikes", "irregular spikes", "drift"]
MOST_IRREGULAR = 0.25
"""Slow steps without a period that are more than this share are no spikes but a wide spread."""
LEAST_COST = 0.05
"""Spikes without a period count from this share of the time on; below it they are mentioned as outliers."""
LEAST_IRREGULAR = 3
"""... and from this many on, unless a log tells their cause: one or two happen on any machine."""
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
    candidates: tuple[Sequence[Spike], Sequence[Spike]]
    """Spikes that may have a period: weak ones too, and only clear ones."""
    early: Sequence[Spike]
    late: Sequence[Spike]
    """Clear spikes in the warm-up, and behind it."""
    cost: float
    """Share of the time behind the warm-up that the late ones took beyond a typical step each."""
    cause: str | None
    """What a log says of the late ones."""
    known: Known


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
    known = Known(
        compiles=compile_steps,
        checkpoints=checkpoint_steps,
        refill_steps=shuffle_refill_steps,
        epoch_steps=epoch_steps,
    )
    run = _take_apart(times, warm_up_steps, known)
    named = (of(run) for of in (_periodic, _drifting, _of_two_kinds, _irregular, _warming_up))
    return next((pattern for pattern in named if pattern), None) or Pattern(
        name="steady", sentence=f"steady: {seconds_words(run.typical_s)} a step{_outliers(run)}"
    )


def _take_apart(times: Floats, warm_up_steps: int, known: Known) -> _Run:
    # A microsecond is the finest that is recorded; the logarithm wants more than 0.
    logs = np.log(np.maximum(times, 1e-6))
    begin = min(max(warm_up_steps, 1), len(times) // 2)
    flat = logs - trend_of(logs, begin)
    spikes = find_spikes(flat, begin, SPIKE_SIGMAS)
    settled = max(begin, settled_from(flat, begin))
    calm = calm_steps(len(times), spikes)
    typical_s = float(np.exp(np.median(logs[settled:][calm[settled:]])))
    early = [spike for spike in spikes if spike.first < settled]
    late = [spike for spike in spikes if spike.first >= settled]
    return _Run(
        times=times,
        logs=logs,
        calm=calm,
        settled=settled,
        typical_s=typical_s,
        candidates=(find_spikes(flat, begin, REGULAR_SIGMAS), spikes),
        early=early,
        late=late,
        cost=cost_of(times, late, typical_s, settled),
        cause=logged_cause(late, len(times), known),
        known=known,
    )


def _periodic(run: _Run) -> Pattern | None:
    steps = len(run.times)
    found = ((spikes, period_of(spikes, steps, run.known)) for spikes in run.candidates)
    spikes, period = next((each for each in found if each[1] is not None), ((), None))
    if period is None:
        return None
    cause = cause_of_period(spikes, period, steps, run.known)
    # The first step, slow in any run, is left out.
    cost = cost_of(run.times, [spike for spike in spikes if spike.first > 0], run.typical_s, 1)
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
    drift = find_drift(run.logs, run.calm, run.settled)
    return Pattern(name="drift", sentence=f"drift: {drift}{_outliers(run)}") if drift else None


def _of_two_kinds(run: _Run) -> Pattern | None:
    share = sum(spike.last + 1 - spike.first for spike in run.late) / (len(run.times) - run.settled)
    if share <= MOST_IRREGULAR:
        return None
    slow_s = seconds_words(median_peak(run.times, run.late))
    return Pattern(
        name="steady",
        sentence=(
            f"steady on the whole: {100 * share:.0f} % of the steps take about {slow_s}, the others "
            f"{seconds_words(run.typical_s)}, in no fixed order (batches that arrive in groups look so)"
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
    last, longest_s = run.early[-1].last, max(peak_of(run.times, spike) for spike in run.early)
    which = f"slow steps among the first {last + 1} took up to" if last else "the first step took"
    return Pattern(
        name="warm-up only",
        sentence=(
            f"warm-up only: {which} {seconds_words(longest_s)}, then steady at {seconds_words(run.typical_s)}"
            f"{_outliers(run)}"
        ),
    )


def _outliers(run: _Run) -> str:
    if not run.late:
        return ""
    longest_s = max(peak_of(run.times, spike) for spike in run.late)
    count = f"{len(run.late)} outliers" if len(run.late) > 1 else "one outlier"
    why = f", {run.cause}" if run.cause else ""
    return (
        f", apart from {count} of up to {seconds_words(longest_s)} ({100 * run.cost:.1f} % of the time{why})"
    )


def _instead(run: _Run, spikes: Sequence[Spike], cost: float) -> str:
    return (
        f"{seconds_words(median_peak(run.times, spikes))} instead of {seconds_words(run.typical_s)}, "
        f"{100 * cost:.0f} % of the time"
    )


def _meaning(cause: str | None, other: str) -> str:
    if cause:
        return _MEANING[cause]
    return f"cause unknown: {_LOOK_FOR}{f'; {other}' if other else ''}"


def _steps(period: float) -> str:
    return f"{period:.0f}" if abs(period - round(period)) < 0.05 else f"{period:.1f}"
