"""A sweep's points, and where more stops helping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loaders.reference import short_name
from tools.measure.cells import Cell
from tools.measure.knee import find_knee
from tools.measure.stats import median


def describe_sweep(rates: Mapping[Cell, Sequence[float]]) -> dict[str, Any] | None:
    """The points and knees (docs/result.md) from the rates of each round of each swept cell."""
    points = [
        {
            "loader": cell.loader,
            "settings": dict(cell.settings),
            "images_per_s": median(values),
            "images_per_s_rounds": list(values),
        }
        for cell, values in rates.items()
        if values
    ]
    return {"points": points, "knees": _knees(points)} if points else None


def _knees(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    lines: dict[tuple[str, str], list[tuple[int, Sequence[float]]]] = {}
    for point in points:
        ((setting, value),) = point["settings"].items()
        lines.setdefault((point["loader"], setting), []).append((value, point["images_per_s_rounds"]))
    knees = []
    for (loader, setting), line in lines.items():
        line.sort()
        knee = find_knee(
            [value for value, _ in line], [median(rounds) for _, rounds in line], noise=_noise(line)
        )
        if knee is not None:
            sentence = f"{short_name(loader)}, {setting}: {knee.sentence}"
            knees.append({"loader": loader, "setting": setting, "at": knee.at, "sentence": sentence})
    return knees


def _noise(line: Sequence[tuple[int, Sequence[float]]]) -> float:
    """Half the spread of a point's rounds, as a share of their median: the largest of the line."""
    spreads = [(max(rounds) - min(rounds)) / (2 * median(rounds)) for _, rounds in line]
    return max(spreads)
