"""Plots of a sweep: rate over each setting, a line for each loader, with the knees marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loaders.reference import short_name
from tools.present.charts import Chart, Dot, Path, Tick, anchor, percent_of, y_ticks
from tools.present.scales import Scale, from_zero, line_path
from tools.present.words import figure, short


def sweep_charts(sweep: Mapping[str, Any]) -> list[tuple[Chart, list[str]]]:
    """A plot of rate against each setting, with the names of its lines; each knee has a ring."""
    points = sweep["points"]
    settings = list(dict.fromkeys(name for point in points for name in point["settings"]))
    return [
        _sweep_chart(name, [p for p in points if name in p["settings"]], sweep["knees"]) for name in settings
    ]


def _sweep_chart(
    setting: str, points: Sequence[Mapping[str, Any]], knees: Sequence[Mapping[str, Any]]
) -> tuple[Chart, list[str]]:
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        lines.setdefault(_line_name(point, setting), []).append(point)
    values = sorted({float(point["settings"][setting]) for point in points})
    across = _spaced(values)
    up = from_zero([rate for point in points for rate in point["images_per_s_rounds"]])
    paths, dots = [], []
    for number, line in enumerate(lines.values()):
        line.sort(key=lambda point: float(point["settings"][setting]))
        css = f"line-{number % 6}"
        places = [(across.place(p["settings"][setting]), up.place(p["images_per_s"])) for p in line]
        paths.append(Path(css=css, d=line_path(places)))
        for point, (x, y) in zip(line, places, strict=True):
            rates = point["images_per_s_rounds"]
            if len(rates) > 1:
                ends = [(x, up.place(min(rates))), (x, up.place(max(rates)))]
                paths.append(Path(css=css, d=line_path(ends)))
            ring = any(_is_knee(knee, point, setting) for knee in knees)
            words = f"{_line_name(point, setting)}, {setting} {short(point['settings'][setting])}"
            words += f": {figure(point['images_per_s'])} img/s{', the knee' if ring else ''}"
            dots.append(
                Dot(x=percent_of(x), y=percent_of(1 - y), css=f"{css}{' knee' if ring else ''}", text=words)
            )
    chart = Chart(
        title=f"images a second over {setting}",
        description="; ".join(knee["sentence"] for knee in knees if knee["setting"] == setting) or "No knee.",
        y_label="img/s",
        x_label=setting,
        y_ticks=y_ticks(up),
        x_ticks=[
            Tick(at=percent_of(across.place(value)), text=short(value), anchor=anchor(across.place(value)))
            for value in values
        ],
        paths=paths,
        dots=dots,
        css="sweep",
    )
    return chart, list(lines)


def _is_knee(knee: Mapping[str, Any], point: Mapping[str, Any], setting: str) -> bool:
    return bool(
        knee["loader"] == point["loader"]
        and knee["setting"] == setting
        and knee["at"] == point["settings"][setting]
    )


def _line_name(point: Mapping[str, Any], setting: str) -> str:
    others = [f"{name} {short(value)}" for name, value in point["settings"].items() if name != setting]
    return ", ".join([short_name(point["loader"]), *others])


def _spaced(values: Sequence[float]) -> Scale:
    """Logarithmic where values double and double again, and with some room at both sides."""
    low, high = values[0], values[-1]
    if low == high:
        return Scale(low=low - 1, high=high + 1)
    if low >= 1 and high / low >= 4:
        room = (high / low) ** 0.05
        return Scale(low=low / room, high=high * room, log=True)
    room = 0.05 * (high - low)
    return Scale(low=low - room, high=high + room)
