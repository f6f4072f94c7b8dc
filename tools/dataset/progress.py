"""How far a long run is, on stderr: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeVar

Item = TypeVar("Item")

_LINES = 4
"""Lines that a log gets in all."""


def with_progress(items: Iterator[Item], *, total: int, shown: bool) -> Iterator[Item]:
    """``items`` again, telling how many of ``total`` were taken."""
    if not shown:
        yield from items
    elif sys.stderr.isatty():
        yield from _with_bar(items, total)
    else:
        yield from _with_lines(items, total)


def _with_bar(items: Iterator[Item], total: int) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), "records, left", TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        for item in items:
            bar.advance(task)
            yield item


def _with_lines(items: Iterator[Item], total: int) -> Iterator[Item]:
    every = -(-total // _LINES)
    for number, item in enumerate(items, start=1):
        if number % every == 0 or number == total:
            print(f"{number} of {total} records", file=sys.stderr, flush=True)
        yield item
