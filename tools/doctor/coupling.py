"""Measures a step: the dataset alone, the step alone, and both together as a training loop runs them.

Runs in the measuring process.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tools.doctor import facts
from tools.doctor.ladder import Tell, place, place_or_none
from tools.doctor.sites import Site, site_of_traceback
from tools.doctor.watch import Event, Watch
from training.native_log import NativeLog

HELD = 8
"""Elements that the step alone is fed with, one after the other."""
LEAST_STEPS = 12
_EXPLAINED_STEPS = 6
"""First steps, in which it is noted which line computed which tensor. They are slower, and not measured."""


@dataclass(kw_only=True, slots=True)
class Loop:
    """The user's dataset and step, and the watch over them."""

    make_dataset: Callable[[], Any]
    step: Callable[..., Any]
    watch: Watch
    log: NativeLog
    facts: facts.StepFacts
    elements: Iterator[Any] | None = None
    held: list[Any] | None = None

    def take(self) -> Any:
        """The next element; from the beginning again where the dataset has ended, as a new epoch."""
        if self.elements is None:
            self.elements = iter(self.make_dataset())
        try:
            return next(self.elements)
        except StopIteration:
            self.elements = iter(self.make_dataset())
        try:
            return next(self.elements)
        except StopIteration:
            raise ValueError("it gives no element") from None

    def run(self, element: Any) -> Any:
        result = self.step(*element) if isinstance(element, tuple) else self.step(element)
        self.watch.step += 1
        return result


def first_steps(loop: Loop, *, tell: Tell) -> None:
    """Steps in which functions are traced and compiled for the first time, with what made their arguments."""
    tell("the first steps")
    loop.held = []
    began = time.perf_counter()
    for number in range(_EXPLAINED_STEPS):
        element = loop.take()
        loop.watch.note_origins()
        step_began = time.perf_counter()
        try:
            synchronise(loop.run(element))
        finally:
            loop.watch.forget_origins()
        if number == 0:
            loop.facts.first_step_s = time.perf_counter() - step_began
        loop.held.append(element)
        if time.perf_counter() - began > 15:
            break


def coupled(loop: Loop, *, seconds: float, tell: Tell) -> None:
    """Dataset and step together, for ``seconds`` and at least ``LEAST_STEPS`` steps."""
    tell("running dataset and step together")
    found = loop.facts
    assert loop.held is not None
    waits: list[float] = []
    steps: list[float] = []
    reads = {site: (read.count, read.seconds) for site, read in loop.watch.reads.items()}
    events = len(loop.watch.events)
    began, cpu = time.perf_counter(), time.process_time()
    result = None
    while (now := time.perf_counter()) - began < seconds or len(steps) < LEAST_STEPS:
        element = loop.take()
        got = time.perf_counter()
        result = loop.run(element)
        ended = time.perf_counter()
        waits.append(got - now)
        steps.append(ended - now)
        if len(loop.held) < HELD:
            loop.held.append(element)
        if ended - began > 4 * seconds:
            break
    synchronise(result)
    took = time.perf_counter() - began
    found.wait_s, found.step_s = waits, steps
    found.steps, found.seconds = len(steps), took
    found.coupled_per_s = len(steps) / took
    found.coupled_cores = (time.process_time() - cpu) / took
    found.wait_share = sum(waits) / took
    later = loop.watch.events[events:]
    found.compile_share = min(1.0, sum(event.seconds for event in later) / took)
    for site, read in loop.watch.reads.items():
        count, spent = reads.get(site, (0, 0.0))
        if read.count > count:
            found.reads.append(
                facts.Read(
                    place=place(site),
                    per_step=(read.count - count) / len(steps),
                    seconds_per_step=(read.seconds - spent) / len(steps),
                )
            )


def step_alone(loop: Loop, *, seconds: float, tell: Tell) -> None:
    """The step on elements that are already there; shapes that it has seen, so that nothing compiles."""
    tell("running the step alone")
    assert loop.held
    for element in loop.held:
        synchronise(loop.run(element))
    count, result = 0, None
    began, cpu = time.perf_counter(), time.process_time()
    for element in itertools.cycle(loop.held):
        result = loop.run(element)
        count += 1
        if time.perf_counter() - began > seconds and count >= min(LEAST_STEPS, len(loop.held)):
            break
    synchronise(result)
    took = time.perf_counter() - began
    loop.facts.step_per_s = count / took
    loop.facts.step_cores = (time.process_time() - cpu) / took


def loader_alone(loop: Loop, *, seconds: float, tell: Tell) -> None:
    """The dataset, taken by Python and fed to nothing."""
    tell("running the dataset alone")
    loop.elements = None
    loop.take()
    # What lies in buffers is no rate.
    warm = time.perf_counter() + 0.25 * seconds
    while time.perf_counter() < warm:
        loop.take()
    count, began, cpu = 0, time.perf_counter(), time.process_time()
    while (took := time.perf_counter() - began) < seconds or count < 2:
        loop.take()
        count += 1
    loop.facts.loader_per_s = count / took
    loop.facts.loader_cores = (time.process_time() - cpu) / took


def finish(loop: Loop) -> None:
    """Put what the watch saw into the facts."""
    found = loop.facts
    found.events = [_event(each) for each in loop.watch.events]
    found.compile_s = loop.log.compile_s
    found.functions = [
        facts.StepFunction(
            name=seen.name,
            place=place_or_none(seen.site),
            jit=bool(seen.jit),
            calls=seen.calls,
            traces=seen.function.experimental_get_tracing_count(),
            not_compilable=not_compilable(seen.name, seen.function),
        )
        for seen in loop.watch.functions.values()
    ]
    if loop.watch.profiler_runs:
        found.profiler = place_or_none(loop.watch.profiler_site)


def not_compilable(name: str, function: Any) -> list[facts.NotCompilable]:
    """Ops that XLA has no kernel for, in all that ``function`` was traced to."""
    from tools.doctor.functions import walk

    found: dict[tuple[str, Site | None], facts.NotCompilable] = {}
    for concrete in function._list_all_concrete_functions():
        for op in walk(concrete.graph):
            if op.type not in ("Placeholder", "PlaceholderWithDefault") and not xla_compiles(op.type):
                site = site_of_traceback(op.op.traceback) if op.op.traceback else None
                found[op.type, site] = facts.NotCompilable(
                    op=op.type, place=place_or_none(site), function=name
                )
    return list(found.values())


@functools.cache
def xla_compiles(op_type: str) -> bool:
    """Whether XLA has a kernel for the op on a CPU or a GPU (TensorFlow's own registry)."""
    from tensorflow.python.framework import kernels

    registered = kernels.get_registered_kernels_for_op(op_type).kernel
    return any(each.device_type in ("XLA_CPU_JIT", "XLA_GPU_JIT") for each in registered)


def synchronise(result: Any) -> None:
    """Wait until the device has computed ``result``."""
    import tensorflow as tf

    for part in tf.nest.flatten(result):
        if isinstance(part, tf.Tensor) and part.dtype not in (tf.variant, tf.resource):
            # The last op of a device's queue: one element on the host is enough.
            tf.reshape(part, [-1])[:1].cpu()


def _event(event: Event) -> facts.Event:
    return facts.Event(
        function=event.function,
        function_place=place_or_none(event.function_site),
        place=place_or_none(event.call_site),
        step=event.step,
        traced=event.traced,
        compiled=event.compiled,
        seconds=event.seconds,
        compile_s=event.compile_s,
        arguments=[
            facts.Argument(name=each.name, kind=each.kind, text=each.text, place=place_or_none(each.made_by))
            for each in event.arguments
        ],
    )
