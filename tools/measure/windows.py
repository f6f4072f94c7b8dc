"""Timed windows of steps: synchronised at both ends, the warm-up told from the measurement by the data.

A window is a run of whole steps of about ``WINDOW_S`` seconds. Nothing in here knows
TensorFlow: a step is a function, and so is waiting for the device.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

WINDOW_S = 0.25
STEADY_WINDOWS = 3
"""Neighbouring windows that must agree before the measurement begins."""
STEADY_SPREAD = 0.15
"""How far their rates may lie apart, as a share of their median."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Whole steps between two moments at which the device had nothing left to do."""

    steps: int
    seconds: float
    """Wall time, from the first step's begin to the moment the device had finished the last."""
    wait_s: float
    """Of which waiting for batches."""
    call_s: float
    """In calls of the step: on a CPU the work itself, on a GPU mostly queueing it."""
    sync_s: float
    """Waiting at the end for what the device had still to do."""
    compiles: int
    """XLA compiles that ended in it."""

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """When to stop."""

    measure_s: float
    """Seconds to measure behind the warm-up."""
    warm_up_s: float
    """Seconds, from the end of the first step, after which the warm-up is cut off."""
    buffered_batches: int
    """Batches that can lie ready in buffers when the first step ends; they are no throughput."""


@dataclass(kw_only=True, slots=True)
class Run:
    """Everything that was timed, raw."""

    first_step_s: float
    """The first batch and step, with tracing and compiling."""
    windows: list[Window] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    """Host time of each step behind the first, its wait included."""
    wait_s: list[float] = field(default_factory=list)
    compile_steps: list[int] = field(default_factory=list)
    """For each XLA compile, the step (an index of ``step_s``) behind which it was logged; -1: the first."""
    measured_from: float = 0.0
    measured_to: float = 0.0
    """Moments on time.perf_counter's clock."""
    warm_up_windows: int = 0
    """Windows before the measurement."""
    steady: bool = False
    """Whether the warm-up ended because rates were steady, and not at its limit."""

    @property
    def measured(self) -> list[Window]:
        return self.windows[self.warm_up_windows :]


def measure(
    take: Callable[[], Any],
    step: Callable[[Any], Any],
    wait_for_device: Callable[[Any], object],
    limits: Limits,
    count_compiles: Callable[[], int] = lambda: 0,
) -> Run:
    """Run steps until the measurement is long enough.

    ``take`` gives a batch, ``step`` a result that ``wait_for_device`` waits for.
    Errors: whatever they raise.
    """
    began = time.perf_counter()
    wait_for_device(step(take()))
    run = Run(first_step_s=time.perf_counter() - began)
    run.compile_steps = [-1] * count_compiles()
    warm_up_began = time.perf_counter()
    measured_s = 0.0
    in_warm_up = True
    while in_warm_up or measured_s < limits.measure_s:
        run.windows.append(_run_window(run, take, step, wait_for_device, count_compiles))
        if not in_warm_up:
            measured_s += run.windows[-1].seconds
            continue
        run.steady = is_warm(run.windows, limits.buffered_batches)
        if run.steady or time.perf_counter() - warm_up_began > limits.warm_up_s:
            in_warm_up = False
            run.warm_up_windows = len(run.windows)
            run.measured_from = time.perf_counter()
    run.measured_to = time.perf_counter()
    return run


def is_warm(windows: Sequence[Window], buffered_batches: int) -> bool:
    """Whether the last windows are steady: the buffers that filled during the first step are
    drained, nothing was compiled in them, and their rates agree."""
    last = windows[-STEADY_WINDOWS:]
    if len(last) < STEADY_WINDOWS or any(window.compiles for window in last):
        return False
    if sum(window.steps for window in windows[:-STEADY_WINDOWS]) < buffered_batches:
        return False
    rates = [window.steps_per_s for window in last]
    return max(rates) - min(rates) <= STEADY_SPREAD * statistics.median(rates)


def _run_window(
    run: Run,
    take: Callable[[], Any],
    step: Callable[[Any], Any],
    wait_for_device: Callable[[Any], object],
    count_compiles: Callable[[], int],
) -> Window:
    first = len(run.step_s)
    compiled_before = len(run.compile_steps)
    call_s = 0.0
    window_began = began = time.perf_counter()
    result = None
    while began - window_began < WINDOW_S:
        batch = take()
        got = time.perf_counter()
        result = step(batch)
        ended = time.perf_counter()
        run.wait_s.append(got - began)
        run.step_s.append(ended - began)
        call_s += ended - got
        while len(run.compile_steps) < count_compiles():
            run.compile_steps.append(len(run.step_s) - 1)
        began = time.perf_counter()
    wait_for_device(result)
    finished = time.perf_counter()
    return Window(
        steps=len(run.step_s) - first,
        seconds=finished - window_began,
        wait_s=sum(run.wait_s[first:]),
        call_s=call_s,
        sync_s=finished - began,
        compiles=len(run.compile_steps) - compiled_before,
    )
