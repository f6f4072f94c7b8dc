"""From the raw rounds of each cell to its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.measure.cells import Cell
from tools.measure.stats import median, percentile

Round = Mapping[str, Any]
"""What the process of a cell brought back (``worker``)."""


def summarize(
    cells: Sequence[Cell], rounds: Mapping[Cell, Sequence[Round]], batch_size: int
) -> list[dict[str, Any]]:
    """The figures of every cell that has at least one round, in the order of ``cells``."""
    rows = [_figures(cell, rounds[cell], batch_size) for cell in cells if rounds.get(cell)]
    ceilings = {row["xla"]: row["images_per_s"] for row in rows if row["kind"] == "ceiling"}
    for row in rows:
        ceiling = ceilings.get(row["xla"])
        row["ceiling_share"] = row["images_per_s"] / ceiling if ceiling and row["kind"] == "train" else None
    return rows


def _figures(cell: Cell, rounds: Sequence[Round], batch_size: int) -> dict[str, Any]:
    rates = [round_rate(each, batch_size) for each in rounds]
    step_s = [seconds for each in rounds for seconds in _measured_steps(each)]
    return {
        "kind": cell.kind,
        "name": cell.name,
        "loader": cell.loader,
        "decode": rounds[0]["decode"],
        "xla": cell.xla,
        "images_per_s": median(rates),
        "images_per_s_rounds": rates,
        "wait_share": median([_wait_share(each) for each in rounds]) if cell.kind == "train" else None,
        "compile_s": _compile_s(cell, rounds),
        "compiles": None if cell.kind == "loader" else len(rounds[0]["compiles"]),
        "first_step_s": median([each["first_step_s"] for each in rounds]),
        "median_step_s": median(step_s),
        "p99_step_s": percentile(step_s, 99),
        "step_s": step_s,
        "steady": all(each["steady"] for each in rounds),
        "peak_rss_mib": max(each["peak_rss_mib"] for each in rounds),
        "rounds": list(rounds),
    }


def round_rate(each: Round, batch_size: int) -> float:
    """Images a second of a round, over its measured windows."""
    windows = each["windows"][each["warm_up_windows"] :]
    return float(batch_size * sum(w["steps"] for w in windows) / sum(w["seconds"] for w in windows))


def _wait_share(each: Round) -> float:
    windows = each["windows"][each["warm_up_windows"] :]
    return float(sum(w["wait_s"] for w in windows) / sum(w["seconds"] for w in windows))


def _measured_steps(each: Round) -> Sequence[float]:
    warm_up_steps = sum(w["steps"] for w in each["windows"][: each["warm_up_windows"]])
    steps: Sequence[float] = each["step_s"][warm_up_steps:]
    return steps


def _compile_s(cell: Cell, rounds: Sequence[Round]) -> float | None:
    if cell.kind == "loader":
        return None
    return median([sum(compile_["seconds"] for compile_ in each["compiles"]) for each in rounds])
