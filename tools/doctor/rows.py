"""What rules ask of the ladder's rows: which read which, what they cost, how many elements an epoch has."""

from __future__ import annotations

from collections.abc import Iterator

from tools.doctor.facts import Facts, Mapped, Row
from tools.doctor.outlook import Outlook

DECODED_RATIO = 3.0
"""Decoded elements so many times as large as the records they came from."""


def measured(facts: Facts, *calls: str) -> Iterator[tuple[int, Row]]:
    for number, row in enumerate(facts.rows):
        if row.rate is not None and row.call in calls:
            yield number, row


def rows_above(facts: Facts, number: int) -> list[int]:
    found, frontier = [], list(facts.rows[number].inputs)
    while frontier:
        each = frontier.pop(0)
        found.append(each)
        frontier += facts.rows[each].inputs
    return found


def reads(facts: Facts, number: int, wanted: int) -> bool:
    frontier = list(facts.rows[number].inputs)
    while frontier:
        each = frontier.pop()
        if each == wanted:
            return True
        frontier += facts.rows[each].inputs
    return False


def cost(outlook: Outlook, number: int) -> str:
    stage, row = outlook.stage(number), outlook.facts.rows[number]
    records = outlook.facts.rows[-1].records or 1.0
    each_us = 1e6 * stage.wall_s / records
    unit = "record" if records > 1 else "element"
    assert row.rate is not None
    return f"It takes {each_us:.4g} us a {unit}, {outlook.share(number):.0%} of the pipeline's CPU time."


def dearest(mapped: Mapped | None) -> str:
    if mapped is None or not mapped.costs:
        return ""
    first = mapped.costs[0]
    where = f" (line {first.place.line})" if first.place else ""
    return f" Most of it is {first.type}{where}, {first.share:.0%}."


def argument(row: Row, name: str, value: object) -> dict[str, object]:
    return {
        "kind": "argument",
        "call": row.call,
        "file": row.place.file,
        "line": row.place.line,
        "name": name,
        "value": value,
    }


def epoch_elements(facts: Facts, number: int) -> float | None:
    """Elements in one pass of a row; None where it does not end, or its end was not seen."""
    row = facts.rows[number]
    if row.cardinality is not None and row.cardinality >= 0:
        return float(row.cardinality)
    if row.rate is not None and row.rate.ended:
        return float(row.rate.elements)
    if (
        facts.files
        and row.rate is not None
        and row.mapped is None
        and row.call in ("TFRecordDataset", "interleave")
    ):
        return sum(facts.files) / (row.rate.bytes + 16)
    return None


def expands(facts: Facts, row: Row) -> bool:
    """Whether a map makes elements much larger than those that it is given, as decoding does."""
    if row.mapped is None or row.rate is None or not row.inputs or row.call not in ("map",):
        return False
    before = facts.rows[row.inputs[0]].rate
    if before is None or not before.bytes or not row.records:
        return False
    scale = row.records / (facts.rows[row.inputs[0]].records or 1.0)
    return row.rate.bytes > DECODED_RATIO * before.bytes * scale
