"""A comparison as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loaders.reference import short_name
from tools.present.words import (
    LEDGER,
    by_kind,
    cleaned,
    fastest_sentence,
    notes,
    percent,
    rate,
    title,
    verdict,
)

if TYPE_CHECKING:
    from tools.measure.against import Against


def print_result(result: Mapping[str, Any], console: Console) -> None:
    """Print the table of cells, where their time goes, what a reader must know, and the verdict."""
    result = cleaned(result)
    cells = by_kind(result["cells"])
    console.print(_table_of_cells(cells, title(result)))
    if any(cell.get("ledger") for cell in cells):
        console.print(_table_of_time(cells))
    for note in [*notes(result), *filter(None, [fastest_sentence(result)])]:
        console.print(Text(note, style="dim"))
    console.print(Text.assemble(("Verdict: ", "bold"), verdict(result)))


def print_against(against: Against, console: Console) -> None:
    """Print what became of each cell since an earlier result."""
    styles = {"faster": "green", "slower": "bold red", "equal": ""}
    for change in against.cells:
        console.print(Text(cleaned(change.sentence), style=styles[change.verdict]))
    console.print(Text.assemble(("Against the earlier result: ", "bold"), cleaned(against.sentence)))


def _table_of_cells(cells: Sequence[Mapping[str, Any]], heading: str) -> Table:
    with_intervals = any(cell.get("images_per_s_low") is not None for cell in cells)
    # With both, the table would be wider than 80 characters.
    fourth = "± 99 %" if with_intervals else "first s"
    table = _empty_table(["img/s", fourth, "ceiling", "waits", "compile s", "step ms", "p99 ms"], heading)
    for cell in cells:
        row = [
            rate(cell["images_per_s"]),
            _half_interval(cell) if with_intervals else f"{cell['first_step_s']:.1f}",
            percent(cell.get("ceiling_share")),
            percent(cell.get("wait_share")),
            "" if cell.get("compile_s") is None else f"{cell['compile_s']:.1f}",
            f"{1000 * cell['median_step_s']:.1f}",
            f"{1000 * cell['p99_step_s']:.1f}",
        ]
        _add_row(table, cells, cell, row)
    return table


def _table_of_time(cells: Sequence[Mapping[str, Any]]) -> Table:
    table = _empty_table(
        [*LEDGER.values(), "predicted", "measured"], "Where the time goes, and the cost model"
    )
    for cell in cells:
        ledger, prediction = cell.get("ledger"), cell.get("prediction")
        row = [percent(ledger[name] / ledger["wall_s"]) if ledger else "" for name in LEDGER]
        if prediction:
            row += [rate(prediction["images_per_s"]), f"{prediction['measured_over_predicted']:.2f} times"]
        else:
            row += ["", ""]
        _add_row(table, cells, cell, row)
    return table


def _empty_table(headings: Sequence[str], heading: str) -> Table:
    table = Table(
        title=Text(heading),
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column("loader", overflow="fold", min_width=12)
    table.add_column("xla", no_wrap=True)
    for each in headings:
        table.add_column(each, justify="right", no_wrap=True)
    return table


def _add_row(
    table: Table, cells: Sequence[Mapping[str, Any]], cell: Mapping[str, Any], row: Sequence[str]
) -> None:
    """Add the figures of ``cell``, with a line above it where its kind begins."""
    before = cells[cells.index(cell) - 1] if cells.index(cell) else cell
    if before["kind"] != cell["kind"]:
        table.add_section()
    table.add_row(Text(_loader(cell)), Text(cell["xla"] or ""), *row)


def _loader(cell: Mapping[str, Any]) -> str:
    mark = "" if cell["steady"] else " *"
    if cell["kind"] == "ceiling":
        return f"ceiling{mark}"
    return f"{short_name(cell['loader'])}{' alone' if cell['kind'] == 'loader' else ''}{mark}"


def _half_interval(cell: Mapping[str, Any]) -> str:
    """The longer half of the interval, as a share of the median."""
    low, high, middle = cell.get("images_per_s_low"), cell.get("images_per_s_high"), cell["images_per_s"]
    if low is None or high is None:
        return ""
    return f"{100 * max(middle - low, high - middle) / middle:.1f} %"
