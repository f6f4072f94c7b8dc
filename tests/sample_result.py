"""Results as tools/compare.py writes them, made up: the same at every call, and quick to make.

``sample_result()`` has every field of docs/result.md: 11 cells, 8 rounds, spikes, a drift, compiles,
a disturbed round. ``minimal(result)`` is the same without all that may be null.
"""

from __future__ import annotations

import base64
import io
from itertools import combinations
from typing import Any, Literal

import numpy as np
from PIL import Image

from tools.measure.stats import median, median_interval, paired_ratio, percentile

BATCH_SIZE = 64
RECORDS = 8192
CORES = 16

_RATES = {"tfdata": 2400.0, "dali": 3650.0, "off": 3200.0, "jit": 4300.0, "auto": 3900.0}
"""Images a second of each loader alone and of each step alone."""
_MEASURE_S = 2.0
_WARM_UP_S = 1.5
_WINDOW_S = 0.25
_SAMPLE_S = 0.25
_NULLABLE = ("comparisons", "sweep", "sampling_cost_share", "verdict", "limit", "use", "why_stopped")
_NULLABLE_IN_CELL = (
    *("images_per_s_low", "images_per_s_high", "ceiling_share", "wait_share", "compile_s", "compiles"),
    *("decode", "ledger", "pattern", "prediction", "usage", "settings", "disturbed_rounds"),
)
Device = Literal["cpu", "gpu"]


def sample_result(device: Device = "cpu", *, rounds: int = 8) -> dict[str, Any]:
    """A complete result with every field filled; ``gpu`` has GPU samples, copies and energy."""
    random = np.random.default_rng(7)
    cells = [
        *(
            _cell(random, kind="loader", loader=loader, xla=None, device=device, count=rounds)
            for loader in ("tfdata", "dali")
        ),
        *(
            _cell(random, kind=kind, loader=loader, xla=xla, device=device, count=rounds)
            for xla in ("off", "jit", "auto")
            for kind, loader in (("train", "tfdata"), ("train", "dali"), ("ceiling", None))
        ),
    ]
    named = {cell["name"]: cell for cell in cells}
    for cell in cells:
        if cell["kind"] == "train":
            ceiling, alone = named[f"ceiling, xla {cell['xla']}"], named[f"{cell['loader']} alone"]
            cell["ceiling_share"] = cell["images_per_s"] / ceiling["images_per_s"]
            cell["prediction"] = _prediction(cell, alone, ceiling)
    chosen, alone = named["dali, xla jit"], named["dali alone"]
    rates = f"together {chosen['images_per_s']:.0f} img/s, the loader alone {alone['images_per_s']:.0f}"
    return {
        "format": "feedline-comparison",
        "version": 1,
        "complete": True,
        "why_stopped": "all rounds were run",
        "verdict": f"input-bound: the loader is the limit ({rates}, the step alone "
        f"{named['ceiling, xla jit']['images_per_s']:.0f}, waiting for data "
        f"{100 * chosen['wait_share']:.0f} %); use --loader dali --xla jit (1.3 times off; its 4.1 s of "
        "compiling are earned back after 1190 steps).",
        "limit": "input-bound",
        "use": {"loader": "dali", "xla": "jit"},
        "device": device,
        "data": {
            "shards": 8,
            "records": RECORDS,
            "bytes": RECORDS * 11_300,
            "schema": {
                "image_feature": "image",
                "target_feature": "some_text",
                "id_feature": "image_id",
                "max_len": 16,
                "height": 256,
                "width": 256,
                "channels": 3,
                "num_classes": 63,
                "alphabet": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
            },
            "fingerprint": "5d" * 32,
        },
        "config": {
            "data": ["shards/train-*"],
            "batch_size": BATCH_SIZE,
            "loader": [],
            "xla": ["off", "jit", "auto"],
            "sweep": ["batch_size=16,32,64,128,256", "parallel=1,2,4,8,16"],
            "rounds": rounds,
            "precision": "float32",
            "budget_s": None,
            "quick": False,
        },
        "metadata": {
            "versions": {
                "python": "3.11.9",
                "tensorflow": "2.21.0",
                "nvidia-dali-cuda120": "2.4.0",
                "cupy": None,
            },
            "processor": "Example Processor 9000 16-Core",
            "cores": CORES,
            "usable_cores": CORES,
            "memory_gib": 62.7,
            "system": "Linux-6.1.0-x86_64-with-glibc2.36",
            "gpus": ["Example GPU 80GB"] if device == "gpu" else [],
            "command": ["compare.py", "--data", "shards/train-*", "--sweep", "batch_size=16,32,64,128,256"],
            "began": "2025-03-04T05:06:07+00:00",
            "ended": "2025-03-04T05:17:29+00:00",
            "fingerprint": "a3" * 32,
        },
        "proof": {
            "loaders": ["tfdata", "dali"],
            "records": 1024,
            "parts": ["image", "tokens", "image_id"],
            "sha256": "0f" * 32,
            "difference": None,
            "decode": {
                "tfdata": "tf.io.decode_png in map_fn, on the host",
                "dali": "fn.decoders.image, on the host",
            },
            "pictures": _pictures(),
        },
        "cells": cells,
        "comparisons": [
            _comparison(a, b)
            for kind in ("train", "loader")
            for a, b in combinations([cell for cell in cells if cell["kind"] == kind], 2)
        ],
        "sweep": _sweep(random),
        "sampling_cost_share": 0.0062,
    }


def minimal(result: dict[str, Any]) -> dict[str, Any]:
    """``result`` without every field that may be missing."""
    bare = {name: value for name, value in result.items() if name not in _NULLABLE}
    bare["proof"] = {k: v for k, v in result["proof"].items() if k not in ("pictures", "difference")}
    bare["data"] = {k: v for k, v in result["data"].items() if k != "fingerprint"}
    bare["metadata"] = {k: v for k, v in result["metadata"].items() if k not in ("ended", "fingerprint")}
    bare["cells"] = [
        {
            **{name: value for name, value in cell.items() if name not in _NULLABLE_IN_CELL},
            "rounds": [
                {
                    name: value
                    for name, value in each.items()
                    if name not in ("samples", "disturbed", "repeated", "copy_s")
                }
                for each in cell["rounds"]
            ],
        }
        for cell in result["cells"]
    ]
    return bare


def hostile() -> dict[str, Any]:
    """A valid result whose texts try to break out of wherever they are shown."""
    result = sample_result(rounds=1)
    evil = (
        "<script>alert(1)</script>\"'|`*_[x](javascript:alert(1)) {{ 7*7 }} [bold]\x1b[31m\ud800 & </style>"
    )
    result["verdict"] = evil
    result["metadata"]["command"] = [evil, "--x", "y" * 500]
    result["metadata"]["processor"] = evil
    result["metadata"]["versions"] = {evil: evil}
    result["config"][evil] = [evil]
    result["proof"]["loaders"] = [evil, "w" * 300]
    for number, cell in enumerate(result["cells"]):
        cell["name"] = f"{number} {evil} {'long' * 40}"
        cell["loader"] = cell["loader"] and evil
        cell["pattern"]["sentence"] = evil
        cell["rounds"][0]["compiles"].append({"name": evil, "seconds": 1.0, "step": 3})
    result["comparisons"] = None
    for picture in result["proof"]["pictures"]:
        picture["name"] = evil
    for point in result["sweep"]["points"]:
        point["loader"] = evil
    result["sweep"]["knees"] = []
    return result


def _cell(
    random: Any, *, kind: str, loader: str | None, xla: str | None, device: Device, count: int
) -> dict[str, Any]:
    name = {"train": f"{loader}, xla {xla}", "loader": f"{loader} alone", "ceiling": f"ceiling, xla {xla}"}[
        kind
    ]
    rate = min(_RATES[each] for each in (loader, xla) if each is not None)
    if kind == "train":
        rate *= 0.93 if (loader, xla) != ("tfdata", "auto") else 0.74
    wait = {"loader": 1.0, "ceiling": 0.0}.get(kind, 0.0)
    if kind == "train":
        wait = max(0.02, 1 - rate / _RATES[str(xla)])
    rounds = [
        _round(random, name=name, rate=rate, wait=wait, xla=xla, device=device, number=number)
        for number in range(count)
    ]
    rates = [each["images_per_s"] for each in rounds]
    measured = [_measured(each) for each in rounds]
    step_s = [seconds for each in measured for seconds in each]
    low, high = median_interval(rates) if count >= 8 else (None, None)
    wall_s = median([sum(w["seconds"] for w in _measured_windows(each)) for each in rounds])
    compiled_s = 0.12 * wall_s if name == "dali, xla auto" else 0.0
    copy_s = 0.05 * wall_s if device == "gpu" and kind == "train" else 0.0
    host_s = 0.015 * wall_s
    wait_s = max(0.0, wait * wall_s - (host_s if kind == "loader" else 0.0))
    return {
        "kind": kind,
        "name": name,
        "loader": loader,
        "decode": "an example decoder on the host" if loader else None,
        "xla": xla,
        "images_per_s": median(rates),
        "images_per_s_low": low,
        "images_per_s_high": high,
        "images_per_s_rounds": rates,
        "ceiling_share": None,
        "wait_share": wait if kind == "train" else None,
        "compile_s": None if kind == "loader" else median([_compiled_s(each) for each in rounds]),
        "compiles": None if kind == "loader" else median([len(each["compiles"]) for each in rounds]),
        "first_step_s": median([each["first_step_s"] for each in rounds]),
        "median_step_s": median(step_s),
        "p99_step_s": percentile(step_s, 99),
        "step_s": step_s,
        "steady": all(each["steady"] for each in rounds),
        "peak_rss_mib": max(each["peak_rss_mib"] for each in rounds),
        "ledger": {
            "wait_s": wait_s,
            "copy_s": copy_s,
            "compute_s": max(0.0, wall_s - wait_s - copy_s - compiled_s - host_s),
            "compile_s": compiled_s,
            "host_s": host_s,
            "wall_s": wall_s,
        },
        "pattern": _pattern(name),
        "prediction": None,
        "settings": {},
        "disturbed_rounds": sum(each["disturbed"] for each in rounds),
        "usage": _usage(rounds[0], device),
        "rounds": rounds,
    }


def _round(
    random: Any, *, name: str, rate: float, wait: float, xla: str | None, device: Device, number: int
) -> dict[str, Any]:
    rate *= random.normal(1, 0.012)
    step_s = BATCH_SIZE / rate
    counts = [max(1, round(_WINDOW_S / step_s))] * round((_WARM_UP_S + _MEASURE_S) / _WINDOW_S)
    warm = round(_WARM_UP_S / _WINDOW_S)
    steps = sum(counts)
    at = np.arange(steps)
    seconds = step_s * random.lognormal(0, 0.06, steps) * (1 + 0.8 * np.exp(-at / (steps / 14)))
    if name == "tfdata, xla off":
        seconds[at % 24 == 23] *= 3.2
    if name == "tfdata, xla jit":
        seconds *= 1 + 0.35 * at / steps
    compiles = []
    if xla in ("jit", "auto"):
        compiles += [{"name": "jit_step", "seconds": random.normal(4.1, 0.1), "step": -1}]
    if name == "dali, xla auto":
        for step in range(5, steps, max(1, steps // 5)):
            seconds[step] *= 9
            compiles.append({"name": f"cluster_{step}", "seconds": float(seconds[step]) * 0.8, "step": step})
    windows, first = [], 0
    for count in counts:
        part = seconds[first : first + count]
        late = sum(1 for each in compiles if first <= each["step"] < first + count)
        total = float(part.sum()) * 1.015
        windows.append(
            {
                "steps": count,
                "seconds": total,
                "wait_s": float(part.sum()) * wait,
                "call_s": float(part.sum()) * (1 - wait),
                "sync_s": 0.0,
                "compiles": late,
            }
        )
        first += count
    measured = windows[warm:]
    build_s, first_step_s = 2.5, (6.0 if xla in ("jit", "auto") else 1.4)
    return {
        "images_per_s": BATCH_SIZE * sum(w["steps"] for w in measured) / sum(w["seconds"] for w in measured),
        "first_step_s": first_step_s * random.normal(1, 0.02),
        "build_s": build_s,
        "windows": windows,
        "warm_up_windows": warm,
        "steady": name != "tfdata, xla jit",
        "step_s": [round(float(each), 6) for each in seconds],
        "wait_s": [round(float(each) * wait, 6) for each in seconds],
        "compiles": compiles,
        "peak_rss_mib": 1500 + float(random.normal(0, 30)),
        "disturbed": name == "dali alone" and number == 2,
        "repeated": name == "dali alone" and number == 2,
        "copy_s": 0.001 if device == "gpu" else 0.0,
        "samples": _samples(
            random, build_s + first_step_s, float(seconds.sum()), warm / len(windows), device
        ),
    }


def _samples(random: Any, start_s: float, run_s: float, warm: float, device: Device) -> dict[str, Any]:
    at_s = np.arange(_SAMPLE_S, start_s + run_s, _SAMPLE_S)
    running = at_s > start_s
    level = np.where(running, 0.8, 0.12)[:, None]
    cores = np.clip(level + random.normal(0, 0.08, (len(at_s), CORES)), 0, 1)
    cores[:, ::4] *= 0.3
    busy = cores.sum(axis=1)
    gpu = None
    if device == "gpu":
        gpu = {
            "utilisation": _rounded(
                np.clip(np.where(running, 0.7, 0.0) + random.normal(0, 0.05, len(at_s)), 0, 1)
            ),
            "memory_mib": _rounded(np.where(running, 9200.0, 450.0)),
            "power_w": _rounded(np.where(running, 310.0, 70.0) + random.normal(0, 4, len(at_s))),
            "pcie_mib_per_s": None,
        }
    return {
        "first_from_s": 0.02,
        "at_s": _rounded(at_s),
        "cores_busy": [_rounded(each) for each in cores],
        "process_cores": _rounded(busy * 0.96),
        "other_cores": _rounded(busy * 0.04),
        "rss_mib": _rounded(np.minimum(1500, 200 + 300 * at_s)),
        "read_mib": _rounded(np.where(at_s < 1, 12.0, 0.0)),
        "gpu": gpu,
        "energy_j": _rounded(np.full(len(at_s), 18.0)),
        "energy_of": ["processor"],
        "measured_from_s": round(start_s + warm * run_s, 4),
        "measured_to_s": round(start_s + run_s, 4),
    }


def _pattern(name: str) -> dict[str, Any]:
    named = {
        "tfdata, xla off": (
            "periodic spikes",
            "periodic spikes: every 24 steps one takes 3.2 times the median, the shuffle refill",
            24.0,
            "shuffle refill",
        ),
        "tfdata, xla jit": ("drift", "drift: the steps get 35 % slower over the round", None, None),
        "dali, xla auto": (
            "periodic spikes",
            "periodic spikes: every 20 steps a step takes 9 times the median; XLA compiles then",
            20.0,
            "recompiles",
        ),
    }
    words = ("warm-up only", "steady behind a warm-up of 30 steps", None, None)
    return dict(zip(("name", "sentence", "period_steps", "cause"), named.get(name, words), strict=True))


def _prediction(cell: dict[str, Any], alone: dict[str, Any], ceiling: dict[str, Any]) -> dict[str, Any]:
    predicted = min(alone["images_per_s"], ceiling["images_per_s"])
    ratio = cell["images_per_s"] / predicted
    agrees = abs(ratio - 1) <= 0.1
    words = "as predicted" if agrees else "slower than predicted: loader and step take the same cores"
    return {
        "images_per_s": predicted,
        "measured_over_predicted": ratio,
        "agrees": agrees,
        "sentence": f"{words} ({cell['images_per_s']:.0f} img/s measured, {predicted:.0f} predicted)",
    }


def _usage(each: dict[str, Any], device: Device) -> dict[str, Any]:
    samples = each["samples"]
    late = [number for number, at_s in enumerate(samples["at_s"]) if at_s > samples["measured_from_s"]]

    def mean(series: list[Any]) -> Any:
        return np.mean([series[number] for number in late], axis=0).tolist()

    gpu = samples["gpu"]
    return {
        "cores_busy": mean(samples["cores_busy"]),
        "process_cores": mean(samples["process_cores"]),
        "other_cores": mean(samples["other_cores"]),
        "rss_mib": mean(samples["rss_mib"]),
        "read_mib_per_s": 0.0,
        "gpu": {name: series and mean(series) for name, series in gpu.items()} if gpu else None,
        "joules_per_1000_images": 84.2 if device == "gpu" else None,
    }


def _comparison(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    ratio = paired_ratio(a["images_per_s_rounds"], b["images_per_s_rounds"])
    return {
        "a": a["name"],
        "b": b["name"],
        "value": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "pairs": ratio.pairs,
        "equal": ratio.covers_one,
    }


def _sweep(random: Any) -> dict[str, Any]:
    points, knees = [], []
    for loader, most in (("tfdata", 2600.0), ("dali", 3900.0)):
        for setting, values, half in (
            ("batch_size", (16, 32, 64, 128, 256), 10),
            ("parallel", (1, 2, 4, 8, 16), 3),
        ):
            for value in values:
                rates = [float(rate) for rate in most * value / (value + half) * random.normal(1, 0.015, 8)]
                points.append(
                    {
                        "loader": loader,
                        "settings": {setting: value},
                        "images_per_s": median(rates),
                        "images_per_s_rounds": rates,
                    }
                )
            at = values[3]
            words = f"{loader}, {setting}: more than {at} brings less than 5 % for twice as much"
            knees.append({"loader": loader, "setting": setting, "at": at, "sentence": words})
    return {"points": points, "knees": knees}


def _pictures() -> list[dict[str, str]]:
    rows, columns = np.mgrid[0:48, 0 : 8 * 48]
    image = np.stack([rows * 5, columns * 255 // columns.max(), (rows * columns) % 256], axis=-1).astype(
        np.uint8
    )
    return [
        {"name": "tfdata", "png": _png(image)},
        {"name": "dali", "png": _png(image)},
        {"name": "difference", "png": _png(np.zeros_like(image))},
    ]


def _png(image: Any) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _measured_windows(each: dict[str, Any]) -> list[dict[str, Any]]:
    windows: list[dict[str, Any]] = each["windows"]
    return windows[each["warm_up_windows"] :]


def _measured(each: dict[str, Any]) -> list[float]:
    steps = sum(window["steps"] for window in _measured_windows(each))
    seconds: list[float] = each["step_s"]
    return seconds[len(seconds) - steps :]


def _compiled_s(each: dict[str, Any]) -> float:
    return float(sum(compiled["seconds"] for compiled in each["compiles"]))


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
