"""A diagnosis as text: the verdict, the findings, the ladder, and what XLA does."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.doctor.facts import Facts
from tools.doctor.findings import Finding
from tools.doctor.result import Diagnosis, ladder_of
from tools.measure.sampler import DISTURBED_SHARE

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
_WIDTH = 118


def to_text(diagnosis: Diagnosis) -> str:
    """The whole as plain text."""
    console = Console(file=io.StringIO(), width=_WIDTH, force_terminal=False)
    show(diagnosis, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print the whole."""
    facts = diagnosis.facts
    console.print(
        f"[bold]{diagnosis.verdict.limit}[/bold]: {escape(diagnosis.verdict.sentence)}", soft_wrap=True
    )
    if facts.unfinished:
        console.print(
            f"[yellow]cut off by --budget-s while {escape(facts.unfinished)}[/yellow]", soft_wrap=True
        )
    console.print()
    if facts.rows:
        console.print(_ladder(facts))
        for line in notes_words(facts):
            console.print(escape(line), soft_wrap=True, style="dim")
        console.print()
    if diagnosis.xla is not None:
        console.print(f"XLA: {escape(diagnosis.xla.advice)}", soft_wrap=True)
    for each in compiles_words(facts):
        console.print(escape(each), soft_wrap=True)
    if not diagnosis.findings:
        console.print(nothing_found(diagnosis))
    for number, finding in enumerate(diagnosis.findings, 1):
        _finding(number, finding, console)


def _finding(number: int, finding: Finding, console: Console) -> None:
    colour = _COLOURS[finding.severity]
    where = f"{finding.place.file}:{finding.place.line}" if finding.place.file else "an unknown line"
    console.print(
        f"[{colour}]{number}. {finding.severity}: {finding.kind}[/{colour}] at {escape(where)}",
        soft_wrap=True,
    )
    console.print(f"   {escape(finding.message)}", soft_wrap=True)
    console.print(f"   fix: {escape(finding.fix)}", soft_wrap=True)
    console.print(f"   {gain_words(finding)}", soft_wrap=True)


def nothing_found(diagnosis: Diagnosis) -> str:
    """What is said where there is no finding."""
    if diagnosis.facts.unfinished:
        return "no findings in what was measured before it was cut off"
    return "no findings: nothing here is worth changing"


def gain_words(finding: Finding) -> str:
    """What the fix is worth, predicted and measured."""
    gain = finding.predicted_gain
    if isinstance(gain, list):
        unit = " MiB" if finding.measure == "memory" else ""
        words = f"{finding.measure}: {gain[0]:.3g}{unit} now, {gain[1]:.3g}{unit} then"
    elif gain is None:
        words = "worth: not predicted"
    else:
        words = f"predicted: {gain:.2f} times as fast"
        if finding.limit_after:
            words += f"; {finding.limit_after}"
    if finding.measured_gain is not None:
        words += f"; measured: {finding.measured_gain:.2f} times"
    return f"{words} ({finding.sure})"


def _ladder(facts: Facts) -> Table:
    table = Table(title="the pipeline, call by call", title_justify="left", box=None, pad_edge=False)
    table.add_column("call")
    table.add_column("line")
    for name in ("elements/s", "MiB/s", "own us", "share", "cores", "threads", "TF's own us", "if free"):
        table.add_column(name, justify="right")
    for row, told in zip(facts.rows, ladder_of(facts), strict=True):
        own = told["own_model"]
        table.add_row(
            f".{row.call}",
            f"{os.path.basename(row.place.file)}:{row.place.line}",
            number(told["per_s"]),
            number(told["mib_per_s"]),
            number(micro(told["own_cpu_s"])),
            f"{told['own_share']:.0%}" if told["own_share"] is not None else "",
            f"{told['cores_used']:.1f}" if told["cores_used"] is not None else "",
            threads_words(told, row.arguments),
            number(own["processing_s"] * 1e6) if own else "",
            number(told["per_s_if_free"]),
        )
        for op in (row.mapped.costs if row.mapped else [])[:3]:
            if op.share >= 0.05:
                line = f"{os.path.basename(op.place.file)}:{op.place.line}" if op.place else ""
                table.add_row(
                    f"    {op.type}", line, "", "", number(op.seconds * 1e6), f"{op.share:.0%}", style="dim"
                )
        for inner in row.inner:
            where = f"{os.path.basename(inner.place.file)}:{inner.place.line}"
            rate = inner.rate
            table.add_row(
                f"    .{inner.call}", where, number(rate.per_s if rate else None), "",
                number(rate.cpu_s * 1e6 if rate else None), style="dim",
            )  # fmt: skip
    return table


def notes_words(facts: Facts) -> Sequence[str]:
    notes = []
    if facts.other_cores > DISTURBED_SHARE * facts.cores:
        notes.append(
            f"other processes kept {facts.other_cores:.1f} of {facts.cores} cores busy meanwhile: the "
            "figures are those of a disturbed machine"
        )
    if facts.real is not None and facts.rows and facts.rows[-1].rate is not None:
        written, real = facts.rows[-1].rate.per_s, facts.real.per_s
        notes.append(
            f"as it is written {written:.4g}, as TensorFlow runs it {real:.4g} elements a second "
            f"({facts.real.cores:.1f} of {facts.cores} cores busy); own us: CPU time for one element of "
            "the whole "
            "pipeline; lines below a call: its function's ops, or the calls inside it"
        )
    if any(row.own for row in facts.rows):
        notes.append(
            "TF's own us: what tf.data's own model counts for the op that really ran, for one of the op's "
            "elements; "
            "it grows when threads wait for cores, and a fused op counts for both of its calls"
        )
    return notes


def compiles_words(facts: Facts) -> Sequence[str]:
    step = facts.step
    if step is None:
        return []
    lines = []
    for function in step.functions:
        compiled = [each for each in step.events if each.function == function.name and each.compiled]
        if function.traces > 1 or compiled:
            lines.append(
                f"  {function.name}: traced {function.traces} times, compiled {len(compiled)} times "
                f"({sum(each.compile_s for each in compiled):.3g} s)"
            )
    return lines


def threads_words(told: dict[str, Any], arguments: dict[str, Any]) -> str:
    if told["threads"] is None:
        return "-"
    asked = arguments.get("num_parallel_calls", arguments.get("num_parallel_reads"))
    own = told["own_model"]
    if asked == -1 and own and own["parallelism"]:
        return f"AUTOTUNE: {own['parallelism']:.0f}"
    return str(told["threads"])


def micro(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
