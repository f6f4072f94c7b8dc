"""Faults of the step: functions traced and compiled again and again, reads by the host, a profiler left
on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.doctor.facts import Argument, Event, Facts, Place, Row, StepFacts
from tools.doctor.findings import WARNING_GAIN, Finding, severity_of
from tools.doctor.outlook import Outlook

RARE_SHARE = 0.05
"""Of a run's time that compiling again may take before it is worth a word."""
READ_SHARE = 0.5
"""Reads of a value a step from which on a line reads in each step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """Why a function was traced or compiled again."""

    function: str
    place: Place
    """The line that lets it vary."""
    argument: str
    values: list[str]
    """What the argument was, in the order in which it came."""
    compiled: int
    traced: int
    seconds: float
    python: bool
    from_row: Row | None


def again(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Functions that are traced or compiled behind their first call, with the argument that caused it."""
    step = facts.step
    if step is None:
        return
    for cause in causes(facts, step):
        gain = _gain(step, cause)
        count = cause.compiled or cause.traced
        share = cause.seconds / _observed(step)
        what = "compiled" if cause.compiled else "traced"
        values = ", ".join(cause.values[:5]) + (", ..." if len(cause.values) > 5 else "")
        severity = severity_of(gain) if share >= RARE_SHARE else "note"
        where = ""
        if cause.from_row is not None:
            where = f" It comes so from the dataset: .{cause.from_row.call} gives "
            f"{', '.join(cause.from_row.element)}."
        yield Finding(
            kind="recompiles" if cause.compiled else "retraces",
            severity="warning" if severity == "note" and count > 1 else severity,
            place=cause.place,
            message=f"{cause.function} was {what} {count} more time{'s' if count > 1 else ''} in "
            f"{len(step.step_s) + 6} steps, {cause.seconds:.3g} s or {share:.0%} of the time: "
            f"{cause.argument} "
            f"changed ({values}).{where}",
            fix=_fix(cause),
            predicted_gain=gain,
            sure="measured",
            changes=_changes(cause),
            limit_after=outlook.limit_after(outlook.stages) if outlook.stages else "",
        )


def causes(facts: Facts, step: StepFacts) -> list[Again]:
    """One for each function and argument that made it be traced or compiled again, dearest first."""
    found: list[Again] = []
    by_function: dict[str, list[Event]] = {}
    for event in step.events:
        by_function.setdefault(event.function + str(event.function_place), []).append(event)
    for events in by_function.values():
        later = events[1:]
        if not later:
            continue
        for name in _changing(events):
            values = list(dict.fromkeys(_argument(event, name).text for event in events))
            mine = [event for event in later if _caused_by(event, events, name)]
            if not mine:
                continue
            example = _argument(events[0], name)
            python = example.kind == "python"
            made_by = next(
                (a.place for event in events if (a := _argument(event, name)).place is not None), None
            )
            row = None if python or made_by is not None else _varying_row(facts, values)
            place = (
                made_by
                or (row.place if row is not None else None)
                or later[0].place
                or later[0].function_place
            )
            if place is None:
                continue
            found.append(
                Again(
                    function=events[0].function,
                    place=place,
                    argument=name,
                    values=values,
                    compiled=sum(event.compiled for event in mine),
                    traced=sum(event.traced for event in mine),
                    seconds=sum(event.seconds for event in mine),
                    python=python,
                    from_row=row,
                )
            )
    return sorted(found, key=lambda each: -each.seconds)


def not_compilable(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Ops that XLA has no kernel for, in a function that it is asked to compile."""
    step = facts.step
    if step is None:
        return
    for function in step.functions:
        for each in function.not_compilable:
            if each.place is None:
                continue
            fails = function.jit and step.failed is not None
            if not function.jit:
                continue
            yield Finding(
                kind="not-compilable",
                severity="error" if fails else "warning",
                place=each.place,
                message=f"XLA has no kernel for {each.op}, and {function.name} asks for jit_compile=True"
                + (": the step fails." if fails else "."),
                fix="# do this in the dataset's map, or outside the compiled function",
                predicted_gain=1.0,
                sure="read",
            )


def host_reads(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Lines that bring values to the host in the middle of a step, several times in each."""
    step = facts.step
    if step is None or not step.step_s:
        return
    reads = sorted(step.reads, key=lambda each: -each.per_step)
    for read in reads[:1]:
        eager = len([each for each in step.functions if each.calls]) > 1
        if read.per_step < 2 and not (read.per_step >= READ_SHARE and eager):
            continue
        if step.compile_share > 0.3:
            continue
        cost_s = read.per_step * HOST_READ_S + read.seconds_per_step
        alone_s = 1 / step.step_per_s if step.step_per_s else 0.0
        if not alone_s:
            continue
        share = min(0.9, cost_s / alone_s)
        gain = 1 / (1 - share) if _step_limits(step) else 1.0
        if gain < WARNING_GAIN:
            continue
        yield Finding(
            kind="host-round-trip",
            severity=severity_of(gain),
            place=read.place,
            message=f"this line reads tensors' values {read.per_step:.3g} times a step: each time the host "
            "waits for "
            f"the device, and the step is cut into {len(step.functions)} calls.",
            fix="# compute it inside one tf.function, and read values every hundred steps",
            predicted_gain=gain,
            sure="modelled",
        )


HOST_READ_S = 60e-6
"""Of a value's way to Python, with the op that made it being run eagerly."""


def profiler(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A profiler that was started and not stopped."""
    step = facts.step
    if step is not None and step.profiler is not None:
        yield Finding(
            kind="profiler-on",
            severity="warning",
            place=step.profiler,
            message="a profiler was started here and still runs at the end: it slows each step and fills "
            "memory.",
            fix="tf.profiler.experimental.stop()  # after the few steps that you want to see",
            predicted_gain=1.0,
            sure="read",
        )


def unknown_shapes(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A dataset whose elements may vary in shape: each new shape is one more trace, and one more compile."""
    if facts.step is None or not facts.rows:
        return
    last = facts.rows[-1]
    for part in last.element:
        if "?" not in part and "..." not in part:
            continue
        unknown = ", ".join("?" if each == "?" else "0" for each in _dimensions(part))
        batch_only = unknown.startswith("?") and "?" not in unknown[1:] and "..." not in part
        batches = [row for row in facts.rows if row.call.endswith("batch")]
        source = (
            next((row for row in batches if not row.arguments.get("drop_remainder")), None)
            if batch_only
            else next(
                (row for row in facts.rows if any("?" in each or "..." in each for each in row.element)), None
            )
        )
        if source is None:
            continue
        yield Finding(
            kind="unknown-shape",
            severity="note",
            place=source.place,
            message=f"elements are {', '.join(last.element)}: what is ? may change from step to step, and "
            f"this .{source.call} is where it is lost.",
            fix=f".{source.call}(..., drop_remainder=True)"
            if batch_only
            else "# tf.ensure_shape(image, [height, width, channels]) in the mapped function",
            predicted_gain=1.0,
            sure="read",
        )
        return


def switch_xla(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """XLA switched the way in which the step is slower, measured both ways behind the first compiles."""
    step, other = facts.step, facts.other_jit
    if (
        step is None
        or other is None
        or not step.step_per_s
        or not other.step_per_s
        or step.failed
        or other.failed
    ):
        return
    function = max(step.functions, key=lambda each: each.calls, default=None)
    if function is None or function.place is None or step.compile_share > RARE_SHARE:
        return
    ratio = other.step_per_s / step.step_per_s
    gain = min(ratio, step.loader_per_s / step.step_per_s) if step.loader_per_s else ratio
    if gain < WARNING_GAIN:
        return
    jit = any(each.jit for each in step.functions)
    yield Finding(
        kind="jit",
        severity="note",
        place=function.place,
        message=f"{function.name} takes {1e3 / step.step_per_s:.4g} ms {'with' if jit else 'without'} XLA, "
        f"{1e3 / other.step_per_s:.4g} ms {'without' if jit else 'with'} it (compiling took "
        f"{(step if jit else other).compile_s:.3g} s).",
        fix=f"@tf.function(jit_compile={not jit})",
        predicted_gain=gain,
        sure="measured",
        changes=[{"kind": "jit", "value": not jit}],
    )


RULES = (again, not_compilable, host_reads, profiler, unknown_shapes, switch_xla)


def _observed(step: StepFacts) -> float:
    """Seconds of all steps that were seen, the first ones included."""
    return step.seconds + sum(event.seconds for event in step.events if event.step < 6) or 1.0


def _gain(step: StepFacts, cause: Again) -> float:
    total = _observed(step) - (step.events[0].seconds if step.events else 0.0)
    return total / max(0.02 * total, total - cause.seconds) if total > 0 else 1.0


def _changing(events: Sequence[Event]) -> list[str]:
    """Names of the arguments that were not the same in all events."""
    names = [argument.name for argument in events[0].arguments]
    return [name for name in names if len({_argument(event, name).text for event in events}) > 1]


def _argument(event: Event, name: str) -> Argument:
    for argument in event.arguments:
        if argument.name == name:
            return argument
    return Argument(name=name, kind="python", text="absent")


def _caused_by(event: Event, events: Sequence[Event], name: str) -> bool:
    """Whether this argument has a value that it had in no event before."""
    before = {_argument(each, name).text for each in events[: events.index(event)]}
    return _argument(event, name).text not in before


def _varying_row(facts: Facts, values: Sequence[str]) -> Row | None:
    """The call that lets a part of the dataset's elements vary in the dimension that did."""
    shapes = [_dimensions(value) for value in values]
    if not facts.rows or len({len(shape) for shape in shapes}) != 1:
        return None
    varying = [at for at in range(len(shapes[0])) if len({shape[at] for shape in shapes}) > 1]
    batches = [row for row in facts.rows if row.call.endswith("batch")]
    if varying == [0] and batches:
        return next((row for row in batches if not row.arguments.get("drop_remainder")), None)
    padding = [row for row in batches if row.call == "padded_batch"]
    making = [
        row
        for row in facts.rows
        if row.mapped is not None and any(_may_be(part, len(shapes[0])) for part in row.element)
    ]
    unknown = [row for row in facts.rows if any("?" in part for part in row.element)]
    return next(iter((*padding, *making, *unknown)), None) if varying else None


def _dimensions(text: str) -> list[str]:
    """'float32[8, ?, 3]' -> ['8', '?', '3']."""
    inside = re.sub(r"^.*\[|\]$", "", text)
    return [each.strip() for each in inside.split(",")] if inside else []


def _may_be(part: str, rank: int) -> bool:
    """Whether a part of an element, batched or not yet, may be what varies."""
    return "..." in part or ("?" in part and len(_dimensions(part)) >= rank - 1)


def _fix(cause: Again) -> str:
    if cause.python:
        return (
            f"tf.constant({cause.argument})  # a tensor: a Python number is a constant of the traced function"
        )
    row = cause.from_row
    if row is None:
        return "# keep one shape: pad to a fixed length, or to a few lengths, instead of each batch's own"
    if row.call == "padded_batch":
        return (
            ".padded_batch(..., padded_shapes=...)  # one fixed shape, or a few by bucket_by_sequence_length"
        )
    if row.call.endswith("batch"):
        return f".{row.call}({row.arguments.get('batch_size', '...')}, drop_remainder=True)"
    return "# resize, crop or pad images to one size, or to a few, before they are batched"


def _changes(cause: Again) -> list[dict[str, object]]:
    row = cause.from_row
    if row is not None and row.call.endswith("batch") and row.call != "padded_batch":
        return [
            {
                "kind": "argument",
                "call": row.call,
                "file": row.place.file,
                "line": row.place.line,
                "name": "drop_remainder",
                "value": True,
            }
        ]
    return []


def _step_limits(step: StepFacts) -> bool:
    return step.loader_per_s > step.step_per_s
