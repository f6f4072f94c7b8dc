"""Faults that cost no time but memory, order or variety: a fast pipeline can feed a model badly."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tools.doctor import capacity
from tools.doctor.facts import Facts, Place, Row
from tools.doctor.findings import WARNING_GAIN, Finding, severity_of
from tools.doctor.outlook import Outlook

LARGE_MIB = 256.0
"""Of a shuffle's buffer: from here on it is worth a word, where less would do."""
LARGE_SHARE = 0.25
"""Of the machine's memory: from here on it is a danger."""
DECODED_RATIO = 3.0
"""Decoded elements so many times as large as the records they came from."""
DECODED_MIB = 32.0
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


def shuffle_memory(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A shuffle that holds more than it needs to: decoded images, or far too many elements."""
    for number, row in enumerate(facts.rows):
        if row.call != "shuffle" or row.rate is None or not row.inputs:
            continue
        held_mib = _held(facts, number) * row.rate.bytes / 2**20
        above = outlook.above(number)
        decoding = next((each for each in above if _expands(facts, each)), None)
        if decoding is not None and held_mib >= DECODED_MIB:
            before = facts.rows[decoding.inputs[0]].rate
            assert before is not None
            small_mib = (
                held_mib * (before.bytes * (row.records or 1) / (decoding.records or 1)) / row.rate.bytes
            )
            yield Finding(
                kind="shuffle-decoded",
                severity="warning",
                place=row.place,
                message=f"this shuffle holds {held_mib:.4g} MiB of decoded elements; in front of "
                f".{decoding.call} at "
                f"line {decoding.place.line} the same elements are {small_mib:.3g} MiB.",
                fix=f"# shuffle before .{decoding.call} at line {decoding.place.line}",
                measure="memory",
                predicted_gain=[held_mib, small_mib],
                sure="modelled",
            )
        elif held_mib >= LARGE_MIB and (held_mib > LARGE_SHARE * facts.memory_mib or held_mib > LARGE_MIB):
            fits = max(1, int(LARGE_MIB * 2**20 / 4 / max(1.0, row.rate.bytes)))
            yield Finding(
                kind="shuffle-buffer-too-large",
                severity="warning",
                place=row.place,
                message=f"this shuffle's buffer of {row.arguments.get('buffer_size')} elements of "
                f"{row.rate.bytes / 1024:.4g} KiB holds {held_mib:.4g} MiB "
                f"({held_mib / facts.memory_mib:.0%} of the "
                "machine's memory).",
                fix=f".shuffle({fits})  # and shuffle the files' names, which costs nothing",
                measure="memory",
                predicted_gain=[held_mib, fits * row.rate.bytes / 2**20],
                sure="modelled",
                changes=[
                    {
                        "kind": "argument",
                        "call": "shuffle",
                        "file": row.place.file,
                        "line": row.place.line,
                        "name": "buffer_size",
                        "value": fits,
                    }
                ],
            )


def caches(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Caches that keep the wrong thing, more than fits, or never come to hold anything."""
    for number, row in enumerate(facts.rows):
        if row.call != "cache":
            continue
        above = outlook.above(number)
        random = next((each for each in above if each.mapped is not None and each.mapped.random), None)
        if random is not None and random.call != "filter":
            assert random.mapped is not None
            yield Finding(
                kind="cache-after-random",
                severity="warning",
                place=row.place,
                message=f"this cache keeps what the random function of .{random.call} at line "
                f"{random.place.line} made "
                "in the first epoch: every later epoch sees the same variant of each element.",
                fix=f"# put .cache() before the .{random.call} at line {random.place.line}",
                measure="variety",
                predicted_gain=[1.0, 4.0],
                sure="read",
            )
        name = row.arguments.get("filename") or ""
        cut = _cut_short(facts, number)
        if cut is not None:
            yield Finding(
                kind="cache-unfinished",
                severity="warning",
                place=row.place,
                message=f"the .{cut.call} at line {cut.place.line} takes a part of what this cache is "
                "filled with, so "
                "that it never sees the end and is thrown away: each epoch does all the work again."
                + (f" Its file {os.path.basename(name)} stays unfinished." if name else ""),
                fix=f"# put .cache({name and '...'}) behind the .{cut.call}",
                predicted_gain=outlook.gain(_free_above(facts, outlook, number)),
                sure="modelled",
                changes=[],
            )
        elif name and _locked(name):
            yield Finding(
                kind="cache-unfinished",
                severity="warning",
                place=row.place,
                message=f"{name}.lockfile is there, but no finished cache: a run that filled it was cut "
                "off, and "
                "others can't use or fill it.",
                fix=f"rm {name}*  # then let one whole epoch run",
                predicted_gain=1.0,
                sure="read",
            )
        size_mib = _epoch_mib(facts, number)
        if not name and size_mib is not None and size_mib > LARGE_SHARE * 2 * facts.memory_mib:
            small = next(
                (
                    facts.rows[each.inputs[0]]
                    for each in (row, *above)
                    if _expands(facts, each) and each.inputs
                ),
                None,
            )
            decoding = next((each for each in above if _expands(facts, each)), None)
            after = (
                size_mib * (small.rate.bytes / row.rate.bytes) if small and small.rate and row.rate else 0.0
            )
            yield Finding(
                kind="cache-too-large",
                severity="error" if size_mib > facts.memory_mib else "warning",
                place=row.place,
                message=f"this cache will hold {size_mib:.4g} MiB; the machine has {facts.memory_mib:.4g} "
                "MiB.",
                fix=f"# put .cache() before .{decoding.call} at line {decoding.place.line}"
                if decoding is not None
                else "# cache to a file: .cache('/path/to/file')",
                measure="memory",
                predicted_gain=[size_mib, after],
                sure="modelled",
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
        epoch = _epoch_elements(facts, repeat.inputs[0])
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


def unused_bytes(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Features that are read with every record, and that nothing looks at."""
    for number, row in enumerate(facts.rows):
        if row.mapped is None or not row.mapped.parsed_features or not facts.features:
            continue
        used = sum(size for name, size in facts.features.items() if name in row.mapped.parsed_features)
        total = sum(facts.features.values())
        if not total or used > total / 2 or used == 0:
            continue
        reader = next(
            (
                n
                for n in _numbers_above(facts, number)
                if facts.rows[n].call in ("TFRecordDataset", "interleave", "flat_map")
            ),
            None,
        )
        if reader is None:
            continue
        stages = outlook.stages
        for each in (reader, *(n for n in _numbers_above(facts, number) if n > reader)):
            stage = outlook.stage(each)
            stages = capacity.changed(
                stages, each, cpu_s=stage.cpu_s * used / total, wall_s=stage.wall_s * used / total
            )
        parse = outlook.stage(number)
        stages = capacity.changed(
            stages,
            number,
            cpu_s=parse.cpu_s * _parse_share(row, used / total),
            wall_s=parse.wall_s * _parse_share(row, used / total),
        )
        gain = outlook.gain(stages)
        if gain < WARNING_GAIN:
            continue
        unused = sorted(name for name in facts.features if name not in row.mapped.parsed_features)
        place: Place = facts.rows[reader].place
        yield Finding(
            kind="unused-bytes",
            severity=severity_of(gain),
            place=place,
            message=f"each record of {total / 1024:.4g} KiB is read whole, {used / total:.0%} of it is used: "
            f"{', '.join(unused[:3])} {'are' if len(unused) > 1 else 'is'} never looked at.",
            fix="# write shards without " + ", ".join(unused[:3]),
            predicted_gain=gain,
            sure="modelled",
            limit_after=outlook.limit_after(stages),
        )


RULES = (shuffle_after_batch, shuffle_memory, caches, repeat_before_shuffle, unused_bytes)


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


def _held(facts: Facts, number: int) -> float:
    """Elements that a shuffle holds: its buffer, or all there are where that is less."""
    buffer = float(facts.rows[number].arguments.get("buffer_size") or 0)
    epoch = _epoch_elements(facts, facts.rows[number].inputs[0])
    return buffer if epoch is None or epoch <= 0 else min(buffer, epoch)


def _epoch_elements(facts: Facts, number: int) -> float | None:
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


def _epoch_mib(facts: Facts, number: int) -> float | None:
    row = facts.rows[number]
    elements = _epoch_elements(facts, number)
    if elements is None:
        elements = _epoch_elements(facts, row.inputs[0]) if row.inputs else None
    return elements * row.rate.bytes / 2**20 if elements is not None and row.rate is not None else None


def _expands(facts: Facts, row: Row) -> bool:
    """Whether a map makes elements much larger than those that it is given, as decoding does."""
    if row.mapped is None or row.rate is None or not row.inputs or row.call not in ("map",):
        return False
    before = facts.rows[row.inputs[0]].rate
    if before is None or not before.bytes or not row.records:
        return False
    scale = row.records / (facts.rows[row.inputs[0]].records or 1.0)
    return row.rate.bytes > DECODED_RATIO * before.bytes * scale


def _cut_short(facts: Facts, number: int) -> Row | None:
    """The take behind a cache that ends before the cache has seen all."""
    for later, row in enumerate(facts.rows):
        if row.call != "take" or not _reads(facts, later, number):
            continue
        count = row.arguments.get("count")
        whole = _epoch_elements(facts, facts.rows[number].inputs[0])
        per = (row.records or 1.0) / (facts.rows[number].records or 1.0)
        if count is not None and count >= 0 and (whole is None or count * per < whole):
            return row
    return None


def _reads(facts: Facts, number: int, wanted: int) -> bool:
    frontier = list(facts.rows[number].inputs)
    while frontier:
        each = frontier.pop()
        if each == wanted:
            return True
        frontier += facts.rows[each].inputs
    return False


def _free_above(facts: Facts, outlook: Outlook, number: int) -> list[capacity.Stage]:
    return [
        capacity.changed([stage], stage.row, cpu_s=0.0, wall_s=0.0)[0]
        if stage.row == number or _reads(facts, number, stage.row)
        else stage
        for stage in outlook.stages
    ]


def _locked(name: str) -> bool:
    folder, base = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except OSError:
        return False
    return f"{base}.index" not in there and any(
        each.startswith(base) and "lockfile" in each for each in there
    )


def _feeds(facts: Facts, row: Row, call: str, below: int) -> bool:
    """Whether an interleave stands between ``row`` and row ``below``: then files are repeated, not
    records."""
    at = facts.rows.index(row)
    return any(
        each.call in (call, "flat_map") and _reads(facts, number, at) and _reads(facts, below, number)
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


def _numbers_above(facts: Facts, number: int) -> list[int]:
    found, frontier = [], list(facts.rows[number].inputs)
    while frontier:
        each = frontier.pop(0)
        found.append(each)
        frontier += facts.rows[each].inputs
    return found


def _parse_share(row: Row, used: float) -> float:
    """Of a parsing function's time that stays when records hold only what is used: parsing runs over all
    bytes."""
    assert row.mapped is not None
    parsing = sum(each.share for each in row.mapped.costs if each.type.startswith("Parse"))
    return 1.0 - parsing * (1.0 - used)
