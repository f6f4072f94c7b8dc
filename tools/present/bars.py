"""Rows of bars: rates, paired ratios, ledgers and predictions, as places in percent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.present.charts import Tick, anchor, percent_of
from tools.present.scales import Scale, from_zero
from tools.present.words import LEDGER, by_kind, faster_first, interval, pair_sentence, rate, short

_LABELLED_FROM = 0.09
"""Share of a bar from which a part has room for its figure."""
_LEAST_RATIO = 1.1
"""The axis of paired ratios reaches at least so far."""
_ROOM = 1.02
"""Factor by which it reaches beyond what is drawn."""
_TICK_ROOM = 0.12
"""Share of an axis between two ticks, at least."""

Cell = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RateBar:
    """The rate of one cell: bar, interval, single rounds, and its ceiling."""

    name: str
    kind: str
    steady: bool
    width: str
    low: str | None
    high: str | None
    rounds: Sequence[str]
    ceiling: str | None
    text: str
    """The figure."""
    beside: str
    """The interval, in words."""
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RateGroup:
    """Bars that share an axis."""

    heading: str
    bars: Sequence[RateBar]
    ticks: Sequence[Tick]


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioRow:
    """One paired ratio."""

    a: str
    b: str
    one: str
    """Where both are equally fast."""
    at: str
    low: str | None
    width: str | None
    css: str
    text: str
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a ledger's bar."""

    css: str
    name: str
    x: str
    width: str
    middle: str
    label: str
    """Its share, where there is room for it."""
    text: str
    """Seconds and share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerRow:
    name: str
    parts: Sequence[Part]
    wall: str
    sum: str
    """Of the parts, as a share of the wall time."""
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionRow:
    name: str
    measured: str
    predicted: str
    """Places."""
    measured_text: str
    predicted_text: str
    ratio: str
    agrees: bool
    sentence: str


def rate_groups(result: Mapping[str, Any]) -> list[RateGroup]:
    """The cells with the step and their ceilings on one axis, the loaders alone on another: a cached
    loader alone may be a hundred times as fast."""
    cells = by_kind(result["cells"])
    ceilings = {cell["xla"]: cell["images_per_s"] for cell in cells if cell["kind"] == "ceiling"}
    groups = (
        ("With the training step", [cell for cell in cells if cell["kind"] != "loader"]),
        ("Loaders alone (an axis of its own)", [cell for cell in cells if cell["kind"] == "loader"]),
    )
    return [_rate_group(heading, group, ceilings) for heading, group in groups if group]


def _rate_group(heading: str, cells: Sequence[Cell], ceilings: Mapping[str, float]) -> RateGroup:
    scale = from_zero(value for cell in cells for value in _rates_of(cell))
    return RateGroup(
        heading=heading,
        bars=[_rate_bar(cell, scale, ceilings.get(cell["xla"])) for cell in cells],
        ticks=[
            Tick(at=percent_of(scale.place(tick)), text=short(tick), anchor=anchor(scale.place(tick)))
            for tick in scale.ticks()
        ],
    )


def _rates_of(cell: Cell) -> Iterable[float]:
    yield cell["images_per_s"]
    yield from cell["images_per_s_rounds"]
    if cell.get("images_per_s_high") is not None:
        yield cell["images_per_s_high"]


def _rate_bar(cell: Cell, scale: Scale, ceiling: float | None) -> RateBar:
    low, high = cell.get("images_per_s_low"), cell.get("images_per_s_high")
    with_ceiling = cell["kind"] == "train" and ceiling is not None
    words = [f"{cell['name']}: {rate(cell['images_per_s'])} images a second"]
    if low is not None:
        words.append(f"99 % interval {interval(low, high)}")
    if with_ceiling and ceiling is not None:
        words.append(f"its ceiling {rate(ceiling)}")
    return RateBar(
        name=cell["name"],
        kind=cell["kind"],
        steady=cell["steady"],
        width=percent_of(scale.place(cell["images_per_s"])),
        low=None if low is None else percent_of(scale.place(low)),
        high=None if high is None else percent_of(scale.place(high)),
        rounds=[percent_of(scale.place(each)) for each in cell["images_per_s_rounds"]],
        ceiling=percent_of(scale.place(ceiling)) if with_ceiling and ceiling is not None else None,
        text=rate(cell["images_per_s"]),
        beside=interval(low, high),
        description=", ".join(words),
    )


def ratio_rows(pairs: Sequence[Mapping[str, Any]]) -> tuple[list[RatioRow], list[Tick]]:
    """The paired ratios, the faster cell first, on a logarithmic axis that holds 1; and the axis's ticks."""
    turned = [faster_first(pair) for pair in pairs]
    ends = [pair[name] for pair in turned for name in ("value", "low", "high") if pair[name] is not None]
    scale = Scale(low=min([1.0, *ends]) / _ROOM, high=max([_LEAST_RATIO, *ends]) * _ROOM, log=True)
    return [_ratio_row(pair, scale) for pair in turned], _ratio_ticks(scale)


def _ratio_row(pair: Mapping[str, Any], scale: Scale) -> RatioRow:
    low, high = pair["low"], pair["high"]
    between = "" if low is None else f" ({low:.3f} to {high:.3f})"
    return RatioRow(
        a=pair["a"],
        b=pair["b"],
        one=percent_of(scale.place(1.0)),
        at=percent_of(scale.place(pair["value"])),
        low=None if low is None else percent_of(scale.place(low)),
        width=None if low is None else percent_of(scale.place(high) - scale.place(low)),
        css="unranked" if low is None else "equal" if pair["equal"] else "ranked",
        text=f"{pair['value']:.3f}{between}",
        sentence=pair_sentence(pair),
    )


def _ratio_ticks(scale: Scale) -> list[Tick]:
    """1, and round ratios above it, as many as have room."""
    ticks, last = [], -1.0
    for ratio in (1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0):
        place = scale.place(ratio)
        if ratio < scale.high and place - last >= _TICK_ROOM:
            ticks.append(Tick(at=percent_of(place), text=short(ratio)))
            last = place
    return ticks


def ledger_rows(result: Mapping[str, Any]) -> list[LedgerRow]:
    """Where the time of each cell went, for the cells that have a ledger."""
    return [_ledger_row(cell) for cell in by_kind(result["cells"]) if cell.get("ledger")]


def _ledger_row(cell: Cell) -> LedgerRow:
    ledger = cell["ledger"]
    total = sum(ledger[name] for name in LEDGER)
    whole = max(total, ledger["wall_s"])
    parts, at = [], 0.0
    for name, word in LEDGER.items():
        width = ledger[name] / whole
        of_wall = ledger[name] / ledger["wall_s"]
        parts.append(
            Part(
                css=word,
                name=word,
                x=percent_of(at),
                width=percent_of(width),
                middle=percent_of(at + width / 2),
                label=f"{100 * of_wall:.0f} %" if width >= _LABELLED_FROM else "",
                text=f"{ledger[name]:.3f} s ({100 * of_wall:.1f} %)" if ledger[name] >= 0.0005 else "0",
            )
        )
        at += width
    return LedgerRow(
        name=cell["name"],
        parts=parts,
        wall=f"{ledger['wall_s']:.3f} s",
        sum=f"{100 * total / ledger['wall_s']:.1f} %",
        description=f"{cell['name']}: " + ", ".join(f"{part.name} {part.text}" for part in parts),
    )


def prediction_rows(result: Mapping[str, Any]) -> list[PredictionRow]:
    """Prediction beside measurement, for the cells that have one."""
    cells = [cell for cell in by_kind(result["cells"]) if cell.get("prediction")]
    scale = from_zero(
        rate for cell in cells for rate in (cell["images_per_s"], cell["prediction"]["images_per_s"])
    )
    return [
        PredictionRow(
            name=cell["name"],
            measured=percent_of(scale.place(cell["images_per_s"])),
            predicted=percent_of(scale.place(cell["prediction"]["images_per_s"])),
            measured_text=rate(cell["images_per_s"]),
            predicted_text=rate(cell["prediction"]["images_per_s"]),
            ratio=_above_or_below(cell["prediction"]["measured_over_predicted"]),
            agrees=cell["prediction"]["agrees"],
            sentence=cell["prediction"]["sentence"],
        )
        for cell in cells
    ]


def _above_or_below(ratio: float) -> str:
    share = 100 * (ratio - 1)
    return f"{abs(share):.1f} % {'above' if share >= 0 else 'below'}"
