"""Plots over steps, time and settings, as places and paths that a template turns into SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tools.present.scales import Points, Scale, area_path, decimate, for_times, from_zero, line_path
from tools.present.words import figure, short

COLUMNS = 480
"""Columns of a plot that a long series is drawn in, each from its smallest to its largest value: more than
a plot has pixels on most screens."""
_MOST_ROWS, _MOST_COLUMNS = 32, 60
"""Of the picture of cores: beyond it, neighbouring cores and samples are drawn as their mean."""
_LEVELS = 5
"""Shades of the picture of cores."""

Cell = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: str
    """Place, in percent."""
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    css: str
    """Its class, which gives it its colour."""
    d: str
    """In a view box of 1000 x 1000 that is stretched over the plot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    x: str
    y: str
    css: str
    text: str
    """What it stands for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    x: str
    width: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """All that is drawn in one plot, back to front, and what it says to those who do not see it."""

    title: str
    description: str
    y_label: str
    x_label: str
    y_ticks: Sequence[Tick]
    x_ticks: Sequence[Tick]
    bands: Sequence[Band] = ()
    """Shaded: what is not measured."""
    paths: Sequence[Path] = ()
    dots: Sequence[Dot] = ()
    css: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heat:
    """Cores (rows) over time (columns), in shades by how busy they were."""

    title: str
    description: str
    rows: int
    levels: Sequence[Path]
    """In a view box that is 1000 wide and ``rows`` high."""


def percent_of(share: float) -> str:
    """A place in a plot as SVG and CSS want it."""
    text = f"{100 * min(1.0, max(0.0, share)):.2f}".rstrip("0").rstrip(".")
    return f"{text}%"


def timeline(cell: Cell) -> Chart:
    """The time of every step of the first round: warm-up shaded, compiles marked, waiting filled."""
    each = cell["rounds"][0]
    step_ms = [1000 * seconds for seconds in each["step_s"]]
    wait_ms = [1000 * seconds for seconds in each["wait_s"]]
    count = len(step_ms)
    unit = "batch" if cell["kind"] == "loader" else "step"
    warm = sum(window["steps"] for window in each["windows"][: each["warm_up_windows"]])
    late = [compiled for compiled in each["compiles"] if compiled["step"] >= 0]
    scale = for_times(step_ms)
    across = Scale(low=0.0, high=float(max(1, count - 1)))
    paths = [
        Path(css="wait-area", d=area_path(_places(_highest(wait_ms), across, scale))),
        Path(css="step-line", d=line_path(_places(decimate(step_ms, COLUMNS), across, scale))),
        # One path for all: a loader that makes XLA compile in every step has thousands.
        Path(css="compile-mark", d=_uprights([across.place(each["step"]) for each in late])),
    ]
    return Chart(
        title=f"{cell['name']}: milliseconds of each {unit}",
        description=_timeline_words(step_ms, warm, late),
        y_label=f"ms a {unit}{' (logarithmic)' if scale.log else ''}",
        x_label=f"{unit} of the first round",
        y_ticks=y_ticks(scale),
        # The first step is not among them: it is number 0.
        x_ticks=[
            Tick(
                at=percent_of(across.place(tick - 1)),
                text=short(tick),
                anchor=anchor(across.place(tick - 1)),
            )
            for tick in Scale(low=1.0, high=float(max(2, count))).ticks(5)
        ],
        bands=[Band(x="0%", width=percent_of(across.place(warm)))] if warm else [],
        paths=[path for path in paths if path.d],
    )


def cores_over_time(cell: Cell) -> Chart | None:
    """Cores' worth of work over time, of the cell's process and of others; None where it was not sampled."""
    samples = cell["rounds"][0].get("samples")
    if not samples or len(samples["at_s"]) < 2 or not samples.get("process_cores"):
        return None
    at_s, process = samples["at_s"], samples["process_cores"]
    others = samples.get("other_cores") or []
    cores = len(samples["cores_busy"][0]) if samples.get("cores_busy") else 0
    scale = Scale(low=0.0, high=1.02 * cores) if cores else from_zero([*process, *others])
    paths = [Path(css="process-area", d=_area_over(at_s, process, scale))]
    if others:
        paths.append(Path(css="other-line", d=_line_over(at_s, others, scale)))
    return _over_time(
        samples,
        title=f"{cell['name']}: cores in use over time",
        description=(
            f"The process used {figure(_mean(process))} cores on average and {figure(max(process))} at most"
            + (f", other processes {figure(_mean(others))} and {figure(max(others))}." if others else ".")
        ),
        y_label=f"cores in use{f', of {cores}' if cores else ''}",
        scale=scale,
        y_ticks=[0, cores / 2, cores] if cores else scale.ticks(2),
        paths=paths,
    )


def gpu_over_time(cell: Cell) -> Chart | None:
    """The share of the time in which the GPU was busy; None where it was not sampled."""
    samples = cell["rounds"][0].get("samples")
    busy = ((samples or {}).get("gpu") or {}).get("utilisation")
    if not samples or not busy or len(samples["at_s"]) < 2:
        return None
    scale = Scale(low=0.0, high=102.0)
    return _over_time(
        samples,
        title=f"{cell['name']}: GPU in use over time",
        description=f"The GPU was busy {100 * _mean(busy):.0f} % of the time on average.",
        y_label="GPU busy, %",
        scale=scale,
        y_ticks=[0, 50, 100],
        paths=[Path(css="gpu-area", d=_area_over(samples["at_s"], [100 * share for share in busy], scale))],
    )


def heat_of_cores(cell: Cell) -> Heat | None:
    """How busy each core was over time; None where it was not sampled."""
    samples = cell["rounds"][0].get("samples")
    if not samples or not samples.get("cores_busy"):
        return None
    over_time: list[list[float]] = samples["cores_busy"]
    cores = len(over_time[0])
    if not cores or any(len(row) != cores for row in over_time):
        return None
    columns = _parts(range(len(over_time)), _MOST_COLUMNS)
    means_of_columns = [_mean_rows([over_time[i] for i in column]) for column in columns]
    grid = [[_mean(part) for part in _parts(cores_of, _MOST_ROWS)] for cores_of in means_of_columns]
    # A sample describes the interval that ends with it.
    across = _time_scale(samples["at_s"])
    ends = [samples.get("first_from_s") or 0.0, *(samples["at_s"][column[-1]] for column in columns)]
    means = _mean_rows(over_time)
    return Heat(
        title=f"{cell['name']}: each core over time",
        description=f"{cores} cores, from {100 * min(means):.0f} to {100 * max(means):.0f} % busy.",
        rows=len(grid[0]),
        levels=_levels(grid, [round(1000 * across.place(end)) for end in ends]),
    )


def _over_time(
    samples: Mapping[str, Any],
    *,
    title: str,
    description: str,
    y_label: str,
    scale: Scale,
    y_ticks: Sequence[float],
    paths: Sequence[Path],
) -> Chart:
    across = _time_scale(samples["at_s"])
    begin, end = samples.get("measured_from_s"), samples.get("measured_to_s")
    bands = []
    if begin is not None and end is not None:
        first, last = across.place(begin), across.place(end)
        bands = [Band(x="0%", width=percent_of(first)), Band(x=percent_of(last), width=percent_of(1 - last))]
    return Chart(
        title=title,
        description=description,
        y_label=y_label,
        x_label="seconds of the first round",
        y_ticks=[Tick(at=percent_of(1 - scale.place(tick)), text=short(tick)) for tick in y_ticks],
        x_ticks=[
            Tick(at=percent_of(across.place(tick)), text=short(tick), anchor=anchor(across.place(tick)))
            for tick in across.ticks(5)
        ],
        bands=[band for band in bands if band.width != "0%"],
        paths=paths,
        css="low",
    )


def _time_scale(at_s: Sequence[float]) -> Scale:
    low, high = min(at_s), max(at_s)
    return Scale(low=min(0.0, low), high=high if high > min(0.0, low) else low + 1.0)


def _line_over(at_s: Sequence[float], values: Sequence[float], scale: Scale) -> str:
    across = _time_scale(at_s)
    return line_path([(across.place(at_s[i]), scale.place(value)) for i, value in decimate(values, COLUMNS)])


def _area_over(at_s: Sequence[float], values: Sequence[float], scale: Scale) -> str:
    across = _time_scale(at_s)
    return area_path([(across.place(at_s[i]), scale.place(value)) for i, value in decimate(values, COLUMNS)])


def _places(points: Points, across: Scale, up: Scale) -> list[tuple[float, float]]:
    return [(across.place(x), up.place(y)) for x, y in points]


def _highest(values: Sequence[float]) -> Points:
    """The largest value of each column, for an area; none where all are 0."""
    if not any(values):
        return []
    parts = _parts(range(len(values)), 2 * COLUMNS)
    return [(index, values[index]) for index in (max(part, key=values.__getitem__) for part in parts)]


def _uprights(places: Sequence[float]) -> str:
    """Lines from the bottom to the top, one for each place that can be told from the next."""
    return "".join(f"M{x} 0V1000" for x in sorted({round(1000 * place) for place in places}))


def y_ticks(scale: Scale) -> list[Tick]:
    return [Tick(at=percent_of(1 - scale.place(tick)), text=short(tick)) for tick in scale.ticks()]


def anchor(place: float) -> str:
    return "start" if place < 0.03 else "end" if place > 0.97 else "middle"


def _timeline_words(step_ms: Sequence[float], warm: int, late: Sequence[Mapping[str, Any]]) -> str:
    ordered = sorted(step_ms)
    words = [f"{len(step_ms):,} steps, of which {warm:,} warm-up"]
    if ordered:
        words.append(f"median {figure(ordered[len(ordered) // 2])} ms, largest {figure(ordered[-1])} ms")
    places = ", ".join(str(compiled["step"] + 1) for compiled in late[:10])
    if late:
        words.append(f"compiles at step {places}{' and more' if len(late) > 10 else ''}")
    return "; ".join(words) + "."


def _parts(values: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """``values`` in at most ``most`` parts of neighbours, about equally long."""
    count = min(most, len(values))
    return [values[n * len(values) // count : (n + 1) * len(values) // count] for n in range(count)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean_rows(rows: Sequence[Sequence[float]]) -> list[float]:
    return [_mean(column) for column in zip(*rows, strict=True)]


def _levels(grid: Sequence[Sequence[float]], ends: Sequence[int]) -> list[Path]:
    """A path of rectangles for each shade; neighbours in time of one shade are one rectangle. ``ends``
    has where each column begins, and where the last one ends."""
    paths = [""] * (_LEVELS + 1)
    for row in range(len(grid[0])):
        column = 0
        for level, run in groupby(round(_LEVELS * columns[row]) for columns in grid):
            after = column + len(list(run))
            paths[level] += f"M{ends[column]} {row}H{ends[after]}v1H{ends[column]}z"
            column = after
    return [Path(css=f"heat-{level}", d=d) for level, d in enumerate(paths) if level and d]
