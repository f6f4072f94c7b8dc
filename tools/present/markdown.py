"""A comparison as Markdown, for pull requests and notes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loaders.reference import short_name
from tools.present.words import (
    LEDGER,
    by_kind,
    cleaned,
    faster_first,
    fastest_sentence,
    figure,
    interval,
    notes,
    pair_sentence,
    percent,
    proof_sentence,
    rate,
    rounds_of,
    short,
    title,
    verdict,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
"""What means something anywhere in a line: emphasis, links, HTML, cells of tables, mathematics."""
_BEGINS_HEADING_OR_LIST = re.compile(r"^([-+#=])")
_BEGINS_NUMBERED_LIST = re.compile(r"^(\d+)([.)])(?= |$)")


def render_markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """``results`` one after another, the verdict first; the same results give the same text."""
    return "\n".join(line for result in results for line in _lines(cleaned(result)))


def escape(text: str) -> str:
    """``text`` on one line, as it is, wherever it stands in Markdown."""
    flat = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _BEGINS_NUMBERED_LIST.sub(r"\1\\\2", _BEGINS_HEADING_OR_LIST.sub(r"\\\1", flat))


def _lines(result: Mapping[str, Any]) -> Iterable[str]:
    cells = by_kind(result["cells"])
    yield f"## {escape(result.get('limit') or 'Comparison')}"
    yield from ("", f"**{escape(verdict(result))}**", "")
    yield f"{escape(title(result))}; {len(cells)} cells, rounds: {rounds_of(result)}"
    if cells:
        yield from ("", *_table_of_cells(cells))
    yield from ("", *(f"- {escape(note)}" for note in notes(result)))
    if any(cell.get("ledger") for cell in cells):
        yield from ("", "### Where the time goes", "", *_table_of_time(cells))
    if result.get("comparisons"):
        yield from ("", "### Equal or not", "", *_pairs(result))
    if result.get("sweep"):
        yield from ("", "### Sweep", "", *_sweep(result["sweep"]))
    yield from ("", "### Proof of equality", "", escape(proof_sentence(result)))
    yield from ("", "### What it was made on", "", *_metadata(result), "")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> list[str]:
    """A table whose first ``texts`` columns are text, the others figures."""
    rule = ["---"] * texts + ["---:"] * (len(headings) - texts)
    lines = [headings, rule, *([escape(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _table_of_cells(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    headings = (
        "cell",
        "img/s",
        "99 % interval",
        "of ceiling",
        "waits",
        "compile s",
        "first step s",
        "step ms",
        "p99 ms",
    )
    return _table(
        headings,
        (
            [
                f"{cell['name']}{'' if cell['steady'] else ' *'}",
                rate(cell["images_per_s"]),
                interval(cell.get("images_per_s_low"), cell.get("images_per_s_high")),
                percent(cell.get("ceiling_share")),
                percent(cell.get("wait_share")),
                "" if cell.get("compile_s") is None else figure(cell["compile_s"]),
                figure(cell["first_step_s"]),
                figure(1000 * cell["median_step_s"]),
                figure(1000 * cell["p99_step_s"]),
            ]
            for cell in cells
        ),
    )


def _table_of_time(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    def row(cell: Mapping[str, Any]) -> list[str]:
        ledger, prediction, pattern = cell["ledger"], cell.get("prediction"), cell.get("pattern")
        return [
            cell["name"],
            pattern["name"] if pattern else "",
            *(percent(ledger[name] / ledger["wall_s"]) for name in LEDGER),
            rate(prediction["images_per_s"]) if prediction else "",
            rate(cell["images_per_s"]),
        ]

    return _table(
        ("cell", "pattern", *LEDGER.values(), "predicted img/s", "measured"),
        (row(cell) for cell in cells if cell.get("ledger")),
        texts=2,
    )


def _pairs(result: Mapping[str, Any]) -> list[str]:
    pairs = [faster_first(pair) for pair in result["comparisons"]]
    rows = (
        [
            f"{pair['a']} over {pair['b']}",
            f"{pair['value']:.3f}",
            "" if pair["low"] is None else f"{pair['low']:.3f} to {pair['high']:.3f}",
            pair_sentence(pair),
        ]
        for pair in pairs
    )
    fastest = fastest_sentence(result)
    first = [escape(fastest), ""] if fastest else []
    return [*first, *_table(("pair", "ratio", "99 % interval", ""), rows)]


def _sweep(sweep: Mapping[str, Any]) -> list[str]:
    rows = (
        [
            short_name(point["loader"]),
            ", ".join(f"{name} {short(value)}" for name, value in point["settings"].items()),
            rate(point["images_per_s"]),
        ]
        for point in sweep["points"]
    )
    knees = [f"- {escape(knee['sentence'])}" for knee in sweep["knees"]]
    return [*_table(("loader", "setting", "img/s"), rows, texts=2), "", *knees]


def _metadata(result: Mapping[str, Any]) -> list[str]:
    metadata, data = result["metadata"], result["data"]
    facts = {
        "command": shlex.join(metadata["command"]),
        "processor": metadata["processor"],
        "usable cores": metadata.get("usable_cores"),
        "memory, GiB": metadata.get("memory_gib"),
        "system": metadata["system"],
        "GPUs": ", ".join(metadata["gpus"]) or "none",
        **metadata["versions"],
        "machine and versions": metadata.get("fingerprint"),
        "data": data.get("fingerprint"),
        "began": metadata["began"],
        "ended": metadata.get("ended"),
    }
    return _table(
        ("", ""), ([name, str(value)] for name, value in facts.items() if value is not None), texts=2
    )
