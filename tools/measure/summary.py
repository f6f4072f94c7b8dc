"""From the raw rounds of each cell to its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from tools.measure.cells import Cell
from tools.measure.cost_model import judge, predict
from tools.measure.patterns import name_pattern
from tools.measure.sampler import usage
from tools.measure.stats import LEAST_PAIRS, median, median_interval, percentile, ratio_of_rows

Round = Mapping[str, Any]
"""What the process of a cell brought back (``worker``), and what was sampled meanwhile."""
Row = dict[str, Any]

_LEDGER = ("wait_s", "copy_s", "compute_s", "compile_s", "host_s", "wall_s")


def summarize(
    cells: Sequence[Cell],
    rounds: Mapping[Cell, Sequence[Round]],
    *,
    batch_size: int,
    records: int,
    device: str,
    cores: int,
) -> list[Row]:
    """The figures of every cell that has at least one round, in the order of ``cells``."""
    rows = [_figures(cell, rounds[cell], batch_size, records) for cell in cells if rounds.get(cell)]
    ceilings = {row["xla"]: row for row in rows if row["kind"] == "ceiling"}
    alone = {row["loader"]: row for row in rows if row["kind"] == "loader"}
    for row in rows:
        if row["kind"] != "train":
            continue
        ceiling, loader = ceilings.get(row["xla"]), alone.get(row["loader"])
        if ceiling:
            row["ceiling_share"] = row["images_per_s"] / ceiling["images_per_s"]
        if ceiling and loader:
            row["prediction"] = _prediction(
                row, loader, ceiling, device=device, cores=cores, batch_size=batch_size
            )
    return rows


def compare_pairs(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The paired ratio of every two cells of one kind, for ``train`` and ``loader``."""
    pairs = []
    for kind in ("train", "loader"):
        for a, b in combinations([row for row in rows if row["kind"] == kind], 2):
            ratio = ratio_of_rows(a, b)
            pairs.append({"a": a["name"], "b": b["name"], **asdict(ratio), "equal": ratio.covers_one})
    return pairs


def round_rate(each: Round, batch_size: int) -> float:
    """Images a second of a round, over its measured windows."""
    windows = measured_windows(each)
    return float(batch_size * _total(windows, "steps") / _total(windows, "seconds"))


def measured_windows(each: Round) -> Sequence[Mapping[str, Any]]:
    windows: Sequence[Mapping[str, Any]] = each["windows"][each["warm_up_windows"] :]
    return windows


def ledger_of(each: Round) -> dict[str, float]:
    """Where the measured wall time of a round went, in seconds; the parts add up to ``wall_s``.

    compute is the time in calls of the step and in waiting for the device at the end of a
    window, less what the compile log and the copies (their time alone, times the steps)
    account for. host is what lies between the steps.
    """
    windows = measured_windows(each)
    wall_s, wait_s = _total(windows, "seconds"), _total(windows, "wait_s")
    busy_s = _total(windows, "call_s") + _total(windows, "sync_s")
    first = _warm_up_steps(each)
    compile_s = sum(compile_["seconds"] for compile_ in each["compiles"] if compile_["step"] >= first)
    compile_s = min(compile_s, busy_s)
    copy_s = min(each["copy_s"] * _total(windows, "steps"), busy_s - compile_s)
    return {
        "wait_s": wait_s,
        "copy_s": copy_s,
        "compute_s": busy_s - compile_s - copy_s,
        "compile_s": compile_s,
        "host_s": max(0.0, wall_s - wait_s - busy_s),
        "wall_s": wall_s,
    }


def _figures(cell: Cell, rounds: Sequence[Round], batch_size: int, records: int) -> Row:
    rates = [round_rate(each, batch_size) for each in rounds]
    step_s = [seconds for each in rounds for seconds in _measured_steps(each)]
    low, high = median_interval(rates) if len(rates) >= LEAST_PAIRS else (None, None)
    ledgers = [ledger_of(each) for each in rounds]
    return {
        "kind": cell.kind,
        "name": cell.name,
        "loader": cell.loader,
        "decode": rounds[0]["decode"],
        "xla": cell.xla,
        "settings": dict(cell.settings),
        "images_per_s": median(rates),
        "images_per_s_low": low,
        "images_per_s_high": high,
        "images_per_s_rounds": rates,
        "ceiling_share": None,
        "wait_share": median([each["wait_s"] / each["wall_s"] for each in ledgers])
        if cell.kind == "train"
        else None,
        "compile_s": _compile_s(cell, rounds),
        "compiles": None if cell.kind == "loader" else median([len(each["compiles"]) for each in rounds]),
        "first_step_s": median([each["first_step_s"] for each in rounds]),
        "median_step_s": median(step_s),
        "p99_step_s": percentile(step_s, 99),
        "step_s": step_s,
        "steady": all(each["steady"] for each in rounds),
        "peak_rss_mib": max(each["peak_rss_mib"] for each in rounds),
        "ledger": {name: median([each[name] for each in ledgers]) for name in _LEDGER},
        "pattern": _pattern(cell, rounds[0], batch_size, records),
        "prediction": None,
        "usage": _usage(rounds, batch_size),
        "disturbed_rounds": sum(bool(each["disturbed"]) for each in rounds),
        "rounds": [{**each, "images_per_s": rate} for each, rate in zip(rounds, rates, strict=True)],
    }


def _pattern(cell: Cell, each: Round, batch_size: int, records: int) -> dict[str, Any] | None:
    """The pattern of the first round's step times, warm-up included.

    None for a loader alone: batches that are decoded side by side come in bursts, and nobody
    computes in between.
    """
    if cell.kind == "loader":
        return None
    pattern = name_pattern(
        [each["first_step_s"], *each["step_s"]],
        warm_up_steps=1 + _warm_up_steps(each),
        compile_steps=[compile_["step"] + 1 for compile_ in each["compiles"]],
        epoch_steps=records / batch_size if cell.kind == "train" else None,
    )
    return asdict(pattern)


def _usage(rounds: Sequence[Round], batch_size: int) -> dict[str, Any]:
    """What the first round used; every round's samples are in the file."""
    each = rounds[0]
    images = int(batch_size * _total(measured_windows(each), "steps"))
    samples = each["samples"]
    return usage(samples, samples["measured_from_s"], samples["measured_to_s"], images)


def _prediction(
    row: Row, loader: Row, ceiling: Row, *, device: str, cores: int, batch_size: int
) -> dict[str, Any]:
    prediction = predict(
        loader["images_per_s"],
        ceiling["images_per_s"],
        cores=cores,
        loader_cores=loader["usage"]["process_cores"],
        step_cores=ceiling["usage"]["process_cores"],
        device=device,
        copy_s_per_image=row["rounds"][0]["copy_s"] / batch_size,
    )
    return judge(prediction, row["images_per_s"], row=row, alone=[loader, ceiling])


def _measured_steps(each: Round) -> Sequence[float]:
    steps: Sequence[float] = each["step_s"][_warm_up_steps(each) :]
    return steps


def _warm_up_steps(each: Round) -> int:
    """Steps behind the first that are not measured."""
    return len(each["step_s"]) - int(_total(measured_windows(each), "steps"))


def _compile_s(cell: Cell, rounds: Sequence[Round]) -> float | None:
    if cell.kind == "loader":
        return None
    return median([sum(compile_["seconds"] for compile_ in each["compiles"]) for each in rounds])


def _total(windows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(window[name] for window in windows))
