"""What a result file may hold (docs/result.md), as one table made of small checks.

For each record first the required fields, then those that may be null or missing, then the rules
that hold between its fields.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

from tools.measure.json_checks import (
    Wrong,
    all_or_none,
    flag,
    in_order,
    list_of,
    must,
    nullable,
    number,
    one_of,
    only_with,
    record,
    same_length,
    table_of,
    text,
    whole,
)

FORMAT = "feedline-comparison"
VERSION = 1

_LARGEST_PNG_BYTES = 4 * 2**20
_LARGEST_PNG_PIXELS = 16 * 2**20
"""What a picture may take: a small file can hold one that no browser should unpack."""


def decode_png(text: Any) -> tuple[bytes, int, int] | None:
    """The bytes, width and height of a PNG in base64; None when it is none, or larger than can be shown."""
    if not isinstance(text, str) or len(text) > _LARGEST_PNG_BYTES * 4 // 3 + 4:
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Signature; length, type, width and height of the first chunk (PNG specification, 5.2, 11.2.2).
    if len(content) < 33 or content[:16] != b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR":
        return None
    width, height = struct.unpack(">II", content[16:24])
    if not 0 < width * height <= _LARGEST_PNG_PIXELS:
        return None
    return content, width, height


def png(value: Any) -> None:
    if decode_png(value) is None:
        most = f"{_LARGEST_PNG_BYTES // 2**20} MiB and {_LARGEST_PNG_PIXELS // 2**20} Mi pixels"
        raise must(f"a PNG of at most {most}, in base64", value)


_FIGURE = number(0)
_RATE = number(1e-9)
# A sum of parts may exceed the whole by a rounding error.
_SHARE = number(0, 1 + 1e-6)
_SERIES = list_of(_FIGURE)

_COMPILE = record({"name": text, "seconds": _FIGURE, "step": whole(-1)}, {})

_WINDOW = record(
    {"steps": whole(1), "seconds": _RATE, "wait_s": _FIGURE, "compiles": whole(0)},
    {"call_s": _FIGURE, "sync_s": _FIGURE},
)

_GPU_SERIES = record(
    {},
    {
        "utilisation": list_of(_SHARE),
        "memory_mib": _SERIES,
        "power_w": _SERIES,
        "pcie_mib_per_s": _SERIES,
    },
)


def _gpu_as_long(samples: Any) -> None:
    for name, series in (samples["gpu"] or {}).items():
        if isinstance(series, list) and len(series) != len(samples["at_s"]):
            raise Wrong(f"must be as long as at_s, {len(samples['at_s'])}: {len(series)}", at=f"gpu.{name}")


_SAMPLES = record(
    {"at_s": list_of(number())},
    {
        "cores_busy": list_of(list_of(_SHARE)),
        "process_cores": _SERIES,
        "other_cores": _SERIES,
        "rss_mib": _SERIES,
        "read_mib": _SERIES,
        "gpu": _GPU_SERIES,
        "energy_j": _SERIES,
        "energy_of": list_of(text),
        "first_from_s": number(),
        "measured_from_s": number(),
        "measured_to_s": number(),
    },
    same_length("at_s", "cores_busy", "process_cores", "other_cores", "rss_mib", "read_mib", "energy_j"),
    in_order("measured_from_s", "measured_to_s"),
    _gpu_as_long,
)


def _steps_of_windows(each: Any) -> None:
    steps = sum(window["steps"] for window in each["windows"])
    if len(each["step_s"]) != steps:
        raise Wrong(f"must be as long as all windows have steps, {steps}: {len(each['step_s'])}", at="step_s")
    if each["warm_up_windows"] >= len(each["windows"]):
        raise must(f"below the number of windows, {len(each['windows'])}", each["warm_up_windows"]).inside(
            "warm_up_windows"
        )
    for place, compiled in enumerate(each["compiles"]):
        if compiled["step"] >= steps:
            raise must(f"below the number of steps, {steps}", compiled["step"]).inside(
                f"compiles[{place}].step"
            )


_ROUND = record(
    {
        "images_per_s": _RATE,
        "first_step_s": _FIGURE,
        "build_s": _FIGURE,
        "windows": list_of(_WINDOW, least=1),
        "warm_up_windows": whole(0),
        "steady": flag,
        "step_s": _SERIES,
        "wait_s": _SERIES,
        "compiles": list_of(_COMPILE),
        "peak_rss_mib": _FIGURE,
    },
    {"disturbed": flag, "repeated": flag, "copy_s": _FIGURE, "samples": _SAMPLES},
    same_length("step_s", "wait_s"),
    _steps_of_windows,
)

_LEDGER = record(
    dict.fromkeys(("wait_s", "copy_s", "compute_s", "compile_s", "host_s"), _FIGURE) | {"wall_s": _RATE}, {}
)

_PATTERN = record(
    {
        "name": one_of("steady", "warm-up only", "periodic spikes", "irregular spikes", "drift"),
        "sentence": text,
    },
    {"period_steps": _RATE, "cause": text},
)

_PREDICTION = record(
    {"images_per_s": _RATE, "measured_over_predicted": _RATE, "agrees": flag, "sentence": text}, {}
)

_USAGE = record(
    {},
    {
        "cores_busy": list_of(_SHARE),
        "process_cores": _FIGURE,
        "other_cores": _FIGURE,
        "rss_mib": _FIGURE,
        "read_mib_per_s": _FIGURE,
        "gpu": record(
            {},
            {"utilisation": _SHARE, "memory_mib": _FIGURE, "power_w": _FIGURE, "pcie_mib_per_s": _FIGURE},
        ),
        "joules_per_1000_images": _FIGURE,
    },
)

_NEEDS = {"train": ("loader", "xla"), "loader": ("loader",), "ceiling": ("xla",)}
"""Kind of cell to what must name it."""


def _named_by_kind(cell: Any) -> None:
    for name in _NEEDS[cell["kind"]]:
        if cell[name] is None:
            raise Wrong(f"must not be null in a cell of kind {cell['kind']}", at=name)


_CELL = record(
    {
        "kind": one_of("train", "loader", "ceiling"),
        "name": text,
        "images_per_s": _RATE,
        "images_per_s_rounds": list_of(_RATE, least=1),
        "first_step_s": _FIGURE,
        "median_step_s": _FIGURE,
        "p99_step_s": _FIGURE,
        "step_s": _SERIES,
        "steady": flag,
        "peak_rss_mib": _FIGURE,
        "rounds": list_of(_ROUND, least=1),
    },
    {
        "loader": text,
        "decode": text,
        "xla": text,
        "images_per_s_low": _RATE,
        "images_per_s_high": _RATE,
        "ceiling_share": _FIGURE,
        "wait_share": _SHARE,
        "compile_s": _FIGURE,
        "compiles": _FIGURE,
        "ledger": _LEDGER,
        "pattern": _PATTERN,
        "prediction": _PREDICTION,
        "usage": _USAGE,
        "settings": table_of(_FIGURE),
        "disturbed_rounds": whole(0),
    },
    _named_by_kind,
    same_length("images_per_s_rounds", "rounds"),
    all_or_none("images_per_s_low", "images_per_s_high"),
    in_order("images_per_s_low", "images_per_s", "images_per_s_high"),
)

_COMPARISON = record(
    {"a": text, "b": text, "value": _RATE, "pairs": whole(1)},
    {"low": _RATE, "high": _RATE, "equal": flag},
    all_or_none("low", "high", "equal"),
    in_order("low", "value", "high"),
)

_SWEEP = record(
    {
        "points": list_of(
            record(
                {
                    "loader": text,
                    "settings": table_of(_FIGURE),
                    "images_per_s": _RATE,
                    "images_per_s_rounds": list_of(_RATE, least=1),
                },
                {},
            )
        ),
        "knees": list_of(record({"loader": text, "setting": text, "at": number(), "sentence": text}, {})),
    },
    {},
)

_SCHEMA = record({"height": whole(1), "width": whole(1), "channels": whole(1)}, {})

_METADATA = record(
    {
        "versions": table_of(nullable(text)),
        "processor": text,
        "system": text,
        "gpus": list_of(text),
        "command": list_of(text),
        "began": text,
    },
    {
        "cores": whole(1),
        "usable_cores": whole(1),
        "memory_gib": _FIGURE,
        "ended": text,
        "fingerprint": text,
    },
)

_PROOF = record(
    {
        "loaders": list_of(text, least=1),
        "records": whole(0),
        "parts": list_of(text),
        "sha256": text,
        "decode": table_of(nullable(text)),
    },
    {"difference": text, "pictures": list_of(record({"name": text, "png": png}, {}))},
)


def _names_of_cells(result: Any) -> None:
    names = {cell["name"] for cell in result["cells"]}
    for place, pair in enumerate(result["comparisons"] or []):
        for side in ("a", "b"):
            if pair[side] not in names:
                raise must("the name of a cell", pair[side]).inside(f"comparisons[{place}].{side}")


RESULT = record(
    {
        "format": one_of(FORMAT),
        "version": whole(1),
        "complete": flag,
        "device": one_of("cpu", "gpu"),
        "data": record(
            {"shards": whole(1), "records": whole(1), "bytes": whole(1), "schema": _SCHEMA},
            {"fingerprint": text},
        ),
        "config": record({"batch_size": whole(1)}, {}),
        "metadata": _METADATA,
        "proof": _PROOF,
        "cells": list_of(_CELL),
    },
    {
        "verdict": text,
        "limit": one_of("input-bound", "compute-bound", "balanced", "host-bound"),
        "use": record({"loader": text, "xla": text}, {}),
        "comparisons": list_of(_COMPARISON),
        "sweep": _SWEEP,
        "sampling_cost_share": _FIGURE,
        "why_stopped": text,
    },
    # A comparison of loaders alone has a verdict and no limit; a limit is never without a verdict.
    only_with("limit", "verdict"),
    only_with("use", "verdict"),
    _names_of_cells,
)
