"""A diagnosis as one HTML page that needs nothing else: no script, no request, light and dark, printable."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from loaders.atomic import write_beside
from tools.doctor import terminal
from tools.doctor.facts import Event, Facts, Mapped, Place, Row, StepFacts, from_json
from tools.doctor.findings import Finding
from tools.doctor.result import Diagnosis, ladder_of
from tools.doctor.xla_advice import XlaAdvice
from tools.present import words
from tools.present.charts import COLUMNS, Chart, Tick, anchor, percent_of, y_ticks
from tools.present.charts import Path as Line
from tools.present.scales import Scale, area_path, decimate, from_zero, line_path

_TEMPLATES = Path(__file__).with_name("templates")
_SHARED = Path(__file__).parents[1] / "present" / "templates"

FIRST_STEPS = 6
"""Steps that run before those whose times are kept, at most (tools/doctor/coupling.py)."""
FIRST_STEPS_S = 15.0
"""After which no more of them begin."""
OP_SHARE = 0.01
"""Of the time of a function's ops, from which on one is shown."""
MOST_EVENTS = 60
"""Traces and compiles that are shown one by one."""
_DECADE = 10.0


def write_html(path: str | os.PathLike[str], diagnosis: Diagnosis) -> None:
    """Write the page of ``diagnosis`` to ``path``, whole or not at all; returns nothing.

    Errors: OSError.
    """
    page = render_html(diagnosis)
    with write_beside(path) as file:
        file.write(page.encode("utf-8"))


def render_html(diagnosis: Diagnosis) -> str:
    """The page of ``diagnosis``, a whole document; the same diagnosis gives the same text. Raises nothing
    for what a diagnosis lacks: that is left out, or said to be missing.

    Everything in it is escaped: the lines of code may come from anybody.
    """
    environment = Environment(
        # Its own templates, and those of the other page: plots and style.
        loader=FileSystemLoader([_TEMPLATES, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown: Diagnosis = from_json(Diagnosis, words.cleaned(asdict(diagnosis)))
    return environment.get_template("diagnosis.html.j2").render(style=_style(), **_view(shown))


def _style() -> str:
    sheets = (_SHARED / "style.css", _TEMPLATES / "doctor.css")
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def _view(diagnosis: Diagnosis) -> dict[str, Any]:
    """What the template shows, section by section; what is missing is None or empty."""
    facts = diagnosis.facts
    step = facts.step
    return {
        "verdict": {
            "limit": diagnosis.verdict.limit,
            "css": diagnosis.verdict.limit.replace(" ", "-"),
            "sentence": diagnosis.verdict.sentence,
            "figures": list(_figures(facts)),
        },
        "unfinished": facts.unfinished,
        "failed": _code_line(step.failed_place) if step and step.failed and step.failed_place else None,
        "title": _title(diagnosis),
        "nothing_found": terminal.nothing_found(diagnosis),
        "findings": [_finding(each) for each in diagnosis.findings],
        "ladder": _ladder(facts),
        "notes": terminal.notes_words(facts) if facts.rows else [],
        "step_asked": bool(diagnosis.asked.get("step") or diagnosis.asked.get("fit")),
        "step": step,
        "timeline": _timeline(step) if step and step.step_s else None,
        "xla": _xla(diagnosis.xla) if diagnosis.xla else None,
        "compiles": _compiles(facts, step) if step and step.events else None,
        "command": _command(diagnosis.asked),
        "circumstances": list(_circumstances(diagnosis)),
    }


def _figures(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Value, unit and name of the figures that the verdict rests on."""
    step = facts.step
    if step is None or not step.coupled_per_s:
        if facts.real is not None:
            yield _rate(facts.real.per_s), "/s", "elements of the pipeline alone"
            yield f"{facts.real.cores:.1f}", f"of {facts.cores}", "cores busy"
        return
    for per_s, name in (
        (step.loader_per_s, "dataset alone"),
        (step.step_per_s, "step alone"),
        (step.coupled_per_s, "together"),
    ):
        if per_s:
            yield _rate(per_s), "steps/s", name
    yield f"{100 * step.wait_share:.0f}", "%", "waiting for data"
    yield f"{100 * step.compile_share:.0f}", "%", "tracing and compiling"


def _rate(per_s: float) -> str:
    """With as many figures as the verdict's sentence has."""
    return f"{per_s:,.0f}" if per_s >= 1000 else f"{per_s:.4g}"


def _title(diagnosis: Diagnosis) -> str:
    asked = diagnosis.asked
    parts = [str(asked[name]) for name in ("dataset", "step", "fit", "profile") if asked.get(name)]
    cores = diagnosis.facts.cores
    return "; ".join([*parts, f"{cores} core{'' if cores == 1 else 's'}", f"took {diagnosis.seconds:.0f} s"])


def _finding(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "where": f"{place.file}:{place.line}" if place.file else "an unknown line",
        "code": place.code,
        "message": finding.message,
        "fix": finding.fix,
        "gain": terminal.gain_words(finding),
    }


def _code_line(place: Place | None) -> dict[str, str]:
    """Where a line stands, shortly and in full, and what it says; empty where it isn't known."""
    if place is None:
        return {"where": "", "file": "", "code": ""}
    return {
        "where": f"{os.path.basename(place.file)}:{place.line}",
        "file": f"{place.file}:{place.line}",
        "code": place.code,
    }


def _ladder(facts: Facts) -> list[dict[str, Any]]:
    """The calls in order, below each the ops of its function and the calls inside it."""
    if not facts.rows:
        return []
    lines = []
    for row, told in zip(facts.rows, ladder_of(facts), strict=True):
        own = told["own_model"]
        share = told["own_share"]
        lines.append(
            _line(
                f".{row.call}",
                row.place,
                element=", ".join(row.element),
                per_s=told["per_s"],
                mib_per_s=told["mib_per_s"],
                own_s=told["own_cpu_s"],
                share=share,
                cores=_cores(told["cores_used"]),
                threads=terminal.threads_words(told, row.arguments),
                tf_own_s=own["processing_s"] if own else None,
                tf_own_is=_own_words(own) if own else "",
                if_free=told["per_s_if_free"],
            )
        )
        lines += _inside(row, 1)
    return lines


def _inside(row: Row, depth: int) -> Iterator[dict[str, Any]]:
    yield from _ops(row.mapped, depth)
    for inner in row.inner:
        rate = inner.rate
        yield _line(
            f".{inner.call}",
            inner.place,
            depth=depth,
            element=", ".join(inner.element),
            per_s=rate.per_s if rate else None,
            mib_per_s=rate.per_s * rate.bytes / 2**20 if rate else None,
            own_s=rate.cpu_s if rate else None,
            cores=_cores(rate.cores if rate else None),
        )
        yield from _inside(inner, depth + 1)


def _ops(mapped: Mapped | None, depth: int) -> Iterator[dict[str, Any]]:
    for op in mapped.costs if mapped else []:
        if op.share >= OP_SHARE:
            yield _line(op.type, op.place, depth=depth, op=True, own_s=op.seconds, share=op.share)


def _line(
    name: str,
    place: Place | None,
    *,
    depth: int = 0,
    op: bool = False,
    element: str = "",
    per_s: float | None = None,
    mib_per_s: float | None = None,
    own_s: float | None = None,
    share: float | None = None,
    cores: str = "",
    threads: str = "",
    tf_own_s: float | None = None,
    tf_own_is: str = "",
    if_free: float | None = None,
) -> dict[str, Any]:
    """A line of the ladder as text."""
    return {
        "name": name,
        "depth": depth,
        "op": op,
        **_code_line(place),
        "element": element,
        "per_s": terminal.number(per_s),
        "mib_per_s": terminal.number(mib_per_s),
        "own_us": terminal.number(terminal.micro(own_s)),
        "share": "" if share is None else f"{share:.0%}",
        "bar": None if share is None else percent_of(share),
        "cores": cores,
        "threads": threads,
        "tf_own_us": terminal.number(terminal.micro(tf_own_s)),
        "tf_own_is": tf_own_is,
        "if_free": terminal.number(if_free),
    }


def _cores(cores: float | None) -> str:
    return "" if cores is None else f"{cores:.1f}"


def _own_words(own: Mapping[str, Any]) -> str:
    """The op that really ran, and what it holds."""
    held = f", holds {own['buffered_mib']:.3g} MiB" if own["buffered_mib"] >= 0.1 else ""
    return f"{own['node']}{held}"


def _timeline(step: StepFacts) -> dict[str, Any]:
    """The time of each step and how long it waited, with marks where it traced or compiled."""
    before = _steps_before(step)
    step_ms = [1000 * seconds for seconds in step.step_s]
    wait_ms = [1000 * seconds for seconds in step.wait_s[: len(step_ms)]]
    scale = _times_scale(step_ms)
    across = Scale(low=0.0, high=float(max(1, len(step_ms) - 1)))
    drawn = [each for each in step.events if 0 <= each.step - before < len(step_ms)]
    compiled = {each.step - before for each in drawn if each.compiled}
    traced = {each.step - before for each in drawn if not each.compiled} - compiled
    lines = [
        Line(css="wait-area", d=area_path(_places(_highest(wait_ms), across, scale))),
        Line(css="step-line", d=line_path(_places(decimate(step_ms, COLUMNS), across, scale))),
        Line(css="trace-mark", d=_uprights(traced, across)),
        Line(css="compile-mark", d=_uprights(compiled, across)),
    ]
    ordered = sorted(step_ms)
    first, last = before + 1, before + len(step_ms)
    return {
        "chart": Chart(
            title="milliseconds of each step",
            description=f"{len(step_ms):,} steps: median {words.figure(ordered[len(ordered) // 2])} ms, "
            f"largest {words.figure(ordered[-1])} ms; {len(compiled)} compiled, {len(traced)} traced only.",
            y_label=f"ms a step{' (logarithmic)' if scale.log else ''}",
            x_label="step",
            y_ticks=y_ticks(scale),
            x_ticks=[
                Tick(
                    at=percent_of(across.place(tick - first)),
                    text=words.short(tick),
                    anchor=anchor(across.place(tick - first)),
                )
                for tick in Scale(low=float(first), high=float(max(first + 1, last))).ticks(6)
                if tick == int(tick)
            ],
            paths=[line for line in lines if line.d],
        ),
        "waits": any(wait_ms),
        "traced": bool(traced),
        "compiled": bool(compiled),
        "before": _first_words(step, before),
        "columns": COLUMNS if len(step_ms) > 2 * COLUMNS else None,
    }


def _steps_before(step: StepFacts) -> int:
    """Steps that ran before the first whose time is kept: fewer where those alone took too long. An event's
    seconds are part of its step's, which tells."""
    for before in range(FIRST_STEPS, 1, -1):
        began_last_s = sum(each.seconds for each in step.events if each.step < before - 1)
        pairs = ((each.seconds, each.step - before) for each in step.events)
        fits = all(seconds <= step.step_s[at] for seconds, at in pairs if 0 <= at < len(step.step_s))
        if began_last_s <= FIRST_STEPS_S and fits:
            return before
    return 1


def _first_words(step: StepFacts, before: int) -> str:
    first = f": the first took {words.figure(step.first_step_s)} s" if step.first_step_s else ""
    return f"the first {f'{before} steps are' if before > 1 else 'step is'} not drawn{first}"


def _times_scale(step_ms: Sequence[float]) -> Scale:
    """Logarithmic where the times span more than a decade, else from zero."""
    positive = sorted(each for each in step_ms if each > 0)
    if not positive or positive[-1] <= _DECADE * positive[0]:
        return from_zero(step_ms)
    # A single step may take next to no time: it is drawn on the edge.
    low = max(positive[0], positive[len(positive) // 2] / 100) / 1.2
    return Scale(low=low, high=1.3 * positive[-1], log=True)


def _places(points: Sequence[tuple[int, float]], across: Scale, up: Scale) -> list[tuple[float, float]]:
    return [(across.place(x), up.place(y)) for x, y in points]


def _highest(values: Sequence[float]) -> list[tuple[int, float]]:
    """Index and value, in a long series of the larger of the two that each column keeps."""
    if not any(values):
        return []
    if len(values) <= 2 * COLUMNS:
        return list(enumerate(values))
    ends = [number * len(values) // COLUMNS for number in range(COLUMNS + 1)]
    highest = [max(range(*part), key=values.__getitem__) for part in pairwise(ends)]
    return [(index, values[index]) for index in highest]


def _uprights(steps: set[int], across: Scale) -> str:
    """Lines from the bottom to the top, one for each step that can be told from the next."""
    return "".join(f"M{x} 0V1000" for x in sorted({round(1000 * across.place(each)) for each in steps}))


def _xla(advice: XlaAdvice) -> dict[str, Any]:
    even: tuple[str, str, str] | None = None
    if advice.break_even_steps is not None:
        even = (f"{advice.break_even_steps:,}", "steps", "break-even: compiling is earned back")
    elif advice.off_per_s and advice.jit_per_s:
        even = ("never", "", "break-even: compiling is earned back")
    figures = [
        (_rate(advice.off_per_s), "steps/s", "step alone, XLA off") if advice.off_per_s else None,
        (_rate(advice.jit_per_s), "steps/s", "step alone, jit") if advice.jit_per_s else None,
        (f"{advice.compile_s:.3g}", "s", "compiling in all") if advice.compile_s is not None else None,
        even,
    ]
    return {"advice": advice.advice, "figures": [each for each in figures if each is not None]}


def _compiles(facts: Facts, step: StepFacts) -> dict[str, Any]:
    """What was traced and compiled, function by function, and event by event."""
    earlier: dict[tuple[str, Place | None], list[Event]] = {}
    rows = []
    for event in step.events:
        before = earlier.setdefault((event.function, event.function_place), [])
        rows.append(
            {
                "function": event.function,
                "function_at": _code_line(event.function_place),
                "called_at": _code_line(event.place),
                "step": f"{event.step + 1:,}",
                "what": " and ".join(
                    word for word, was in (("traced", event.traced), ("compiled", event.compiled)) if was
                ),
                "seconds": f"{event.seconds:.3g}",
                "compile_s": f"{event.compile_s:.3g}" if event.compiled else "",
                "first": not before,
                "changes": _changes(event, before),
            }
        )
        before.append(event)
    left = step.events[MOST_EVENTS:]
    return {
        "summary": [each.strip() for each in terminal.compiles_words(facts)],
        "rows": rows[:MOST_EVENTS],
        "left": f"{len(left):,} more, {sum(each.seconds for each in left):.3g} s in all" if left else "",
    }


def _changes(event: Event, before: Sequence[Event]) -> list[dict[str, str]]:
    """Arguments that have a value which they had in no call before; where none has, those that differ from
    the last."""
    if not before:
        return []
    last = {each.name: each.text for each in before[-1].arguments}
    seen = {(each.name, each.text) for earlier in before for each in earlier.arguments}
    fresh = [each for each in event.arguments if (each.name, each.text) not in seen]
    changed = fresh or [each for each in event.arguments if last.get(each.name) != each.text]
    return [{"name": each.name, "then": last.get(each.name, "absent"), "now": each.text} for each in changed]


def _command(asked: Mapping[str, Any]) -> str:
    """What asks the same again; empty where that isn't known."""
    if not any(asked.values()):
        return ""
    parts = ["uv", "run", "tools/diagnose.py"]
    parts += [str(asked["dataset"])] if asked.get("dataset") else []
    for name, value in asked.items():
        if name == "dataset" or value is None or value is False:
            continue
        parts.append(f"--{name.replace('_', '-')}")
        if value is not True:
            parts.append(f"{value:g}" if isinstance(value, float) else str(value))
    return shlex.join(parts)


def _circumstances(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    facts = diagnosis.facts
    yield "cores", str(facts.cores)
    if facts.memory_mib:
        yield "memory", f"{facts.memory_mib / 1024:.1f} GiB"
    yield "took", f"{diagnosis.seconds:.1f} s"
    if facts.files:
        yield "files", f"{len(facts.files):,}, {sum(facts.files) / 2**20:,.1f} MiB"
    for name, value in facts.options.items():
        yield f"option {name}", str(value)
