"""Faults of order and variety, which cost no time: a fast pipeline can feed a model badly."""

from __future__ import annotations

from collections.abc import Iterator

from tools.doctor.facts import Facts, Row
from tools.doctor.findings import Finding
from tools.doctor.outlook import Outlook
from tools.doctor.rows import epoch_elements, reads

MIXED_SHARE = 0.1
"""Of an epoch, that a shuffle behind a repeat holds: so much of it is mixed with the next."""


def shuffle_after_batch(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Whole batches change places; the records in one stay neighbours, as they lie in the file."""
    for number, row in enumerate(facts.rows):
        if row.call != "shuffle" or (row.records or 1.0) <= 1.0:
            continue
        above = outlook.above(number)
        if any(each.call == "shuffle" and each.records == 1.0 for each in above):
            continue
        batch = next((each for each in above if each.call.endswith("batch")), None)
        size = int(row.records or 1)
        files = _parallel_inputs(above)
        together = 1.0 / files
        yield Finding(
            kind="shuffle-after-batch",
            severity="warning",
            place=row.place,
            message=f"this shuffle stands behind the batch: it moves batches of {size}, and the records in "
            "one "
            "stay those that lie side by side in the files. It holds "
            f"{row.arguments.get('buffer_size', '?')} whole "
            "batches for that.",
            fix=f".shuffle({max(1000, 16 * size)}).batch({size}, ...)  # records are shuffled, then batched",
            measure="variety",
            predicted_gain=[together, _neighbours(size, row.arguments.get("buffer_size"))],
            sure="read",
            changes=(
                [
                    {"kind": "drop", "call": "shuffle", "file": row.place.file, "line": row.place.line},
                    {
                        "kind": "before",
                        "call": batch.call,
                        "file": batch.place.file,
                        "line": batch.place.line,
                        "name": "shuffle",
                        "value": max(1000, 16 * size),
                    },
                ]
                if batch is not None
                else []
            ),
        )


def repeat_before_shuffle(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Epochs run into each other: some records come twice before others have come at all."""
    for number, row in enumerate(facts.rows):
        if row.call != "shuffle" or (row.records or 1.0) > 1.0:
            continue
        above = outlook.above(number)
        repeat = next(
            (each for each in above if each.call == "repeat" and each.arguments.get("count", -1) != 1), None
        )
        if repeat is None or not repeat.inputs or _feeds(facts, repeat, "interleave", number):
            continue
        epoch = epoch_elements(facts, repeat.inputs[0])
        buffer = row.arguments.get("buffer_size")
        if epoch is None or not buffer:
            continue
        share = min(1.0, buffer / epoch)
        if share < MIXED_SHARE:
            continue
        yield Finding(
            kind="repeat-before-shuffle",
            severity="warning",
            place=row.place,
            message=f"repeat stands before this shuffle, whose buffer of {buffer} holds {share:.0%} of an "
            "epoch of "
            f"{epoch:.0f}: epochs mix, some records come again before others have come once.",
            fix=f".shuffle({buffer}).repeat()",
            measure="order",
            predicted_gain=[_distinct(epoch, buffer), 1.0],
            sure="read",
            changes=[
                {"kind": "drop", "call": "repeat", "file": repeat.place.file, "line": repeat.place.line},
                {
                    "kind": "insert",
                    "call": "shuffle",
                    "file": row.place.file,
                    "line": row.place.line,
                    "name": "repeat",
                    "value": None,
                },
            ],
        )


RULES = (shuffle_after_batch, repeat_before_shuffle)


def _parallel_inputs(above: list[Row]) -> int:
    """Files that one batch's records come from at the same time."""
    for each in above:
        if each.call == "interleave":
            cycle = int(each.arguments.get("cycle_length", 1))
            return max(1, cycle)
        if each.call == "TFRecordDataset" and each.arguments.get("num_parallel_reads"):
            return max(1, int(each.arguments["num_parallel_reads"]))
    return 1


def _neighbours(batch_size: int, buffer: int | None) -> float:
    """Share of a batch's records whose file neighbour is in it too, when records are shuffled."""
    return batch_size / max(1000, 16 * batch_size)


def _feeds(facts: Facts, row: Row, call: str, below: int) -> bool:
    """Whether an interleave stands between ``row`` and row ``below``: then files are repeated, not
    records."""
    at = facts.rows.index(row)
    return any(
        each.call in (call, "flat_map") and reads(facts, number, at) and reads(facts, below, number)
        for number, each in enumerate(facts.rows)
    )


def _distinct(epoch: float, buffer: int) -> float:
    """Share of an epoch's records among its first elements, when a buffer runs over its end (a
    simulation)."""
    import numpy as np

    total = int(min(epoch, 20_000))
    size = max(1, int(buffer * total / epoch))
    rng = np.random.default_rng(0)
    held = [number % total for number in range(size)]
    seen = set()
    for number in range(total):
        at = int(rng.integers(size))
        seen.add(held[at])
        held[at] = (size + number) % total
    return len(seen) / total
