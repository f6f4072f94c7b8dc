"""A comparison as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


_LOADER = {"train": "{loader}", "ceiling": "ceiling", "loader": "{loader} alone"}
"""Kind of cell to what stands in the first column."""


def print_result(result: Mapping[str, Any], console: Console) -> None:
    """Print the table of cells, and the verdict below it."""
    table = Table(
        title=_title(result),
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column("loader", no_wrap=True)
    table.add_column("xla", no_wrap=True)
    for heading in ("img/s", "ceiling", "waits", "compile s", "first s", "step ms", "p99 ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    kind = None
    for cell in sorted(result["cells"], key=lambda cell: ("train", "ceiling", "loader").index(cell["kind"])):
        if kind not in (None, cell["kind"]):
            table.add_section()
        kind = cell["kind"]
        table.add_row(*_row(cell))
    console.print(table)
    for note in _notes(result):
        console.print(note, style="dim", highlight=False)
    if result["verdict"]:
        console.print(f"[bold]Verdict:[/bold] {result['verdict']}", highlight=False)


def _title(result: Mapping[str, Any]) -> str:
    data, config, metadata = result["data"], result["config"], result["metadata"]
    schema = data["schema"]
    where = ", ".join(metadata["gpus"]) if result["device"] == "gpu" else f"{metadata['usable_cores']} cores"
    return (
        f"{data['records']} records of {schema['height']}x{schema['width']}x{schema['channels']}, "
        f"{data['bytes'] / max(1, data['records']) / 1000:.1f} KB each, batch {config['batch_size']}, "
        f"on the {result['device'].upper()} ({where})"
    )


def _row(cell: Mapping[str, Any]) -> list[str]:
    return [
        _LOADER[cell["kind"]].format(loader=cell["loader"]) + ("" if cell["steady"] else " *"),
        cell["xla"] or "",
        f"{cell['images_per_s']:.0f}",
        _percent(cell["ceiling_share"]),
        _percent(cell["wait_share"]),
        "" if cell["compile_s"] is None else f"{cell['compile_s']:.1f}",
        f"{cell['first_step_s']:.1f}",
        f"{1000 * cell['median_step_s']:.1f}",
        f"{1000 * cell['p99_step_s']:.1f}",
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _notes(result: Mapping[str, Any]) -> list[str]:
    notes = []
    rounds = max(len(cell["rounds"]) for cell in result["cells"]) if result["cells"] else 0
    if any(not cell["steady"] for cell in result["cells"]):
        notes.append("* its rate was still changing when the warm-up was cut off")
    decodes = {cell["loader"]: cell["decode"] for cell in result["cells"] if cell["decode"]}
    notes += [f"{loader} decodes by {decode}" for loader, decode in decodes.items()]
    if rounds < 8:
        what = "1 round is" if rounds == 1 else f"{rounds} rounds are"
        notes.append(f"{what} too few for intervals: cells that are close are not ranked")
    return notes
