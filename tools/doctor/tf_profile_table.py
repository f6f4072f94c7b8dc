"""A TensorFlow profile's report as text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.doctor.tf_profile import LIMITS, ProfileReport


def show_profile(report: ProfileReport, console: Console) -> None:
    """Print the whole."""
    console.print(f"[bold]{escape(report.verdict)}[/bold]", soft_wrap=True)
    busy = f"{report.busy_threads:.1f} threads of a host busy on average"
    if report.device_busy_s is not None:
        busy += f", the device {min(1.0, report.device_busy_s / report.seconds):.1%} of the time"
    console.print(escape(f"run {report.run} of {', '.join(report.hosts)}: {busy}"), soft_wrap=True)
    for note in report.notes:
        console.print(f"[yellow]{escape(note)}[/yellow]", soft_wrap=True)
    for steps in report.steps:
        line = (
            f"{steps.count} steps marked {steps.name}: {steps.mean_s * 1e3:.3g} ms on average, the longest "
            f"{steps.longest_s * 1e3:.3g} ms"
        )
        console.print(escape(line), soft_wrap=True)
    if report.tfdata_ops:
        _show_tfdata(report, console)
    if report.ops:
        table = _table("the dearest ops", ("type", "name", "where"), ("calls", "ms"))
        for op in report.ops:
            table.add_row(escape(op.type), escape(op.name), escape(op.where), str(op.calls), _ms(op.seconds))
        console.print(table)
    if report.compiles:
        names = ("calls", "traced", "ms", "compiled", "ms")
        table = _table("traced and compiled in this time", ("function",), names)
        for each in report.compiles:
            table.add_row(
                escape(each.name), str(each.calls or ""), str(each.traces), _ms(each.trace_s),
                str(each.count), _ms(each.seconds),
            )  # fmt: skip
        console.print(table)
    console.print(escape(LIMITS), soft_wrap=True, style="dim")


def _show_tfdata(report: ProfileReport, console: Console) -> None:
    names = ("calls", "work ms", "self ms", "total ms")
    table = _table("tf.data, dearest first", ("op", "dataset", "asked by"), names)
    for op in report.tfdata_ops:
        table.add_row(
            escape(op.name), escape(op.dataset), escape(op.thread), str(op.calls), _ms(op.work_s),
            _ms(op.self_s), _ms(op.total_s),
        )  # fmt: skip
    console.print(table)
    note = (
        "work: the functions that the op ran, on any thread, and its own time unless it waits for threads; "
        "self: without the ops that it asked on its thread; a dataset's number counts from the source"
    )
    console.print(note, soft_wrap=True, style="dim")


def _table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in texts:
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right")
    return table


def _ms(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
