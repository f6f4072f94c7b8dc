"""Results as one HTML page that needs nothing else: no script, no request, light and dark, printable."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from loaders.atomic import write_beside
from loaders.reference import short_name
from tools.measure.result_fields import decode_png
from tools.present import bars, charts, sweep_plots, words

_TEMPLATES = Path(__file__).with_name("templates")

USAGE = {
    "process_cores": "cores, this process",
    "other_cores": "cores, others",
    "rss_mib": "memory, MiB",
    "read_mib_per_s": "disk, MiB/s",
    "gpu.utilisation": "GPU busy",
    "gpu.memory_mib": "GPU memory, MiB",
    "gpu.power_w": "GPU power, W",
    "gpu.pcie_mib_per_s": "PCIe, MiB/s",
    "joules_per_1000_images": "J per 1000 images",
}
"""Figures of ``usage`` (docs/result.md), and their headings."""


_MAY_LACK = {
    "metadata": ("cores", "usable_cores", "memory_gib", "ended", "fingerprint"),
    "data": ("fingerprint",),
    "proof": ("difference",),
}


def write_html(path: str | os.PathLike[str], results: Sequence[Mapping[str, Any]]) -> None:
    """Write the page of ``results``, one after another, to ``path``: whole or not at all.

    Errors: OSError.
    """
    page = render_html(results)
    with write_beside(path) as file:
        file.write(page.encode("utf-8"))


def render_html(results: Sequence[Mapping[str, Any]]) -> str:
    """The page of ``results`` (docs/result.md); the same results give the same text.

    Everything in it is escaped: a result may come from anybody.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": words.figure,
        "rate": words.rate,
        "percent": words.percent,
        "short_name": short_name,
    }
    parts = [_view(_with_nulls(words.cleaned(result))) for result in results]
    return environment.get_template("page.html.j2").render(
        results=parts, style=_style(), columns=charts.COLUMNS
    )


def _style() -> str:
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _with_nulls(result: dict[str, Any]) -> dict[str, Any]:
    """The result with null for what may be missing and is shown by the template itself."""
    for name in ("why_stopped", "sampling_cost_share"):
        result.setdefault(name, None)
    for part, names in _MAY_LACK.items():
        for name in names:
            result[part].setdefault(name, None)
    return result


def _view(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows of a result, section by section; what is missing is None or empty."""
    cells = words.by_kind(result["cells"])
    pairs = result.get("comparisons") or []
    ratios, ratio_ticks = bars.ratio_rows(pairs) if pairs else ([], [])
    return {
        "result": result,
        "title": words.title(result),
        "verdict": _verdict(result),
        "notes": words.notes(result, findings=False),
        "rounds": words.rounds_of(result),
        "cells": [_cell_row(cell) for cell in cells],
        "rate_groups": bars.rate_groups(result),
        "fastest": words.fastest_sentence(result),
        "ratios": ratios,
        "ratio_ticks": ratio_ticks,
        "timelines": [_timeline(cell) for cell in cells],
        "ledgers": bars.ledger_rows(result),
        "predictions": bars.prediction_rows(result),
        "usage": _usage(cells),
        "no_gpu": _why_no_gpu(result, cells),
        "over_time": _over_time(cells),
        "sweep": _sweep(result.get("sweep")),
        "proof": words.proof_sentence(result),
        "pictures": _pictures(result["proof"].get("pictures") or []),
        "flags": [(_flag(name), _value(value)) for name, value in result["config"].items()],
        "schema": [(name, _value(value)) for name, value in result["data"]["schema"].items()],
        "command": shlex.join(result["metadata"]["command"]),
    }


def _verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """The sentence without its first word, which is shown apart, and the figures it rests on."""
    limit, use = result.get("limit"), result.get("use") or {}
    sentence = words.verdict(result).removeprefix(f"{limit}: ")
    cells: dict[tuple[Any, ...], Mapping[str, Any]] = {
        (cell["kind"], cell["loader"], cell["xla"]): cell for cell in result["cells"]
    }
    loader, xla = use.get("loader"), use.get("xla")
    chosen = cells.get(("train", loader, xla))
    figures = []
    if chosen:
        figures.append((words.rate(chosen["images_per_s"]), "img/s", "loader and step together"))
        for key, name in (
            (("loader", loader, None), "the loader alone"),
            (("ceiling", None, xla), "the step alone"),
        ):
            if key in cells:
                figures.append((words.rate(cells[key]["images_per_s"]), "img/s", name))
        if chosen.get("wait_share") is not None:
            figures.append((f"{100 * chosen['wait_share']:.0f}", "%", "of the time waiting for data"))
    return {"limit": limit, "sentence": sentence[:1].upper() + sentence[1:], "figures": figures}


def _cell_row(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": cell["name"],
        "kind": cell["kind"],
        "steady": cell["steady"],
        "figures": [
            words.rate(cell["images_per_s"]),
            words.interval(cell.get("images_per_s_low"), cell.get("images_per_s_high")),
            words.percent(cell.get("ceiling_share")),
            words.percent(cell.get("wait_share")),
            _figure(cell.get("compile_s")),
            "" if cell.get("compiles") is None else words.short(cell["compiles"]),
            _figure(cell["first_step_s"]),
            _figure(1000 * cell["median_step_s"]),
            _figure(1000 * cell["p99_step_s"]),
            _figure(cell["peak_rss_mib"]),
            str(len(cell["rounds"])),
            str(words.disturbed_rounds(cell)),
        ],
    }


def _timeline(cell: Mapping[str, Any]) -> dict[str, Any]:
    each = cell["rounds"][0]
    in_first = [compiled["seconds"] for compiled in each["compiles"] if compiled["step"] < 0]
    unit = "batch" if cell["kind"] == "loader" else "step"
    first = f"first {unit} {words.figure(each['first_step_s'])} s, not drawn"
    if in_first:
        compiles = "1 compile" if len(in_first) == 1 else f"{len(in_first)} compiles"
        first += f" ({compiles} in it, {words.figure(sum(in_first))} s)"
    late = len(each["compiles"]) - len(in_first)
    if late:
        first += f"; {late} later {'compile' if late == 1 else 'compiles'}, marked"
    pattern = cell.get("pattern")
    return {
        "chart": charts.timeline(cell),
        "name": cell["name"],
        "pattern": pattern and {"name": pattern["name"], "sentence": words.pattern_words(pattern)},
        "unnamed": "not named for a loader alone" if cell["kind"] == "loader" else "not named in this result",
        "first": first,
    }


def _usage(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A table of the means: only the columns that at least one cell has."""
    rows = [(cell["name"], _flat(cell["usage"])) for cell in cells if cell.get("usage")]
    if not rows:
        return None
    known = [name for name in USAGE if any(row.get(name) is not None for _, row in rows)]
    return {
        "headings": [USAGE[name] for name in known],
        "rows": [(name, [_usage_figure(key, row.get(key)) for key in known]) for name, row in rows],
        "lacks": [
            USAGE[name] for name in ("read_mib_per_s", "gpu.pcie_mib_per_s", "joules_per_1000_images")
            if name not in known
        ],
    }  # fmt: skip


def _flat(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {**usage, **{f"gpu.{name}": value for name, value in (usage.get("gpu") or {}).items()}}


def _usage_figure(name: str, value: float | None) -> str:
    return words.percent(value) if name == "gpu.utilisation" else _figure(value)


def _why_no_gpu(result: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> str | None:
    if any((cell.get("usage") or {}).get("gpu") or charts.gpu_over_time(cell) for cell in cells):
        return None
    gpus = result["metadata"]["gpus"]
    return "not measured: no GPU" if not gpus else f"not measured, though there is one: {', '.join(gpus)}"


def _over_time(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    drawn = [
        {
            "name": cell["name"],
            "cores": charts.cores_over_time(cell),
            "heat": charts.heat_of_cores(cell),
            "gpu": charts.gpu_over_time(cell),
        }
        for cell in cells
    ]
    return [each for each in drawn if each["cores"] or each["heat"] or each["gpu"]]


def _sweep(sweep: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not sweep or not sweep["points"]:
        return None
    settings = list(dict.fromkeys(name for point in sweep["points"] for name in point["settings"]))
    rows = []
    for point in sweep["points"]:
        rates = point["images_per_s_rounds"]
        rows.append(
            {
                "loader": short_name(point["loader"]),
                "settings": [_setting(point["settings"].get(name)) for name in settings],
                "rate": words.rate(point["images_per_s"]),
                "between": words.interval(min(rates), max(rates)) if len(rates) > 1 else "",
            }
        )
    return {
        "charts": sweep_plots.sweep_charts(sweep),
        "settings": settings,
        "rows": rows,
        "knees": [knee["sentence"] for knee in sweep["knees"]],
    }


def _pictures(pictures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each picture's name, and its data where it is a PNG that can be shown."""
    shown = []
    for picture in pictures:
        decoded = decode_png(picture["png"])
        if decoded is None:
            shown.append({"name": picture["name"], "data": None, "width": 0, "height": 0})
            continue
        content, width, height = decoded
        # Encoded anew: what stands in the page is base64 and nothing else, whatever the file held.
        data = base64.b64encode(content).decode("ascii")
        shown.append({"name": picture["name"], "data": data, "width": width, "height": height})
    return shown


def _figure(value: float | None) -> str:
    return "" if value is None else words.figure(value)


def _setting(value: float | None) -> str:
    return "" if value is None else words.short(value)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _value(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(_value(item) for item in value) or "not given"
    return str(value)
