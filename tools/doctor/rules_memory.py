"""Faults that cost memory: buffers and caches that hold more than they need to."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tools.doctor import capacity
from tools.doctor.facts import Facts, Row
from tools.doctor.findings import Finding
from tools.doctor.outlook import Outlook
from tools.doctor.rows import epoch_elements, expands, reads

LARGE_MIB = 256.0
"""Of a shuffle's buffer: from here on it is worth a word, where less would do."""
LARGE_SHARE = 0.25
"""Of the machine's memory: from here on it is a danger."""
DECODED_MIB = 32.0


def shuffle_memory(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A shuffle that holds more than it needs to: decoded images, or far too many elements."""
    for number, row in enumerate(facts.rows):
        if row.call != "shuffle" or row.rate is None or not row.inputs:
            continue
        held_mib = _held(facts, number) * row.rate.bytes / 2**20
        above = outlook.above(number)
        decoding = next((each for each in above if expands(facts, each)), None)
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
                    if expands(facts, each) and each.inputs
                ),
                None,
            )
            decoding = next((each for each in above if expands(facts, each)), None)
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


RULES = (shuffle_memory, caches)


def _held(facts: Facts, number: int) -> float:
    """Elements that a shuffle holds: its buffer, or all there are where that is less."""
    buffer = float(facts.rows[number].arguments.get("buffer_size") or 0)
    epoch = epoch_elements(facts, facts.rows[number].inputs[0])
    return buffer if epoch is None or epoch <= 0 else min(buffer, epoch)


def _epoch_mib(facts: Facts, number: int) -> float | None:
    row = facts.rows[number]
    elements = epoch_elements(facts, number)
    if elements is None:
        elements = epoch_elements(facts, row.inputs[0]) if row.inputs else None
    return elements * row.rate.bytes / 2**20 if elements is not None and row.rate is not None else None


def _cut_short(facts: Facts, number: int) -> Row | None:
    """The take behind a cache that ends before the cache has seen all."""
    for later, row in enumerate(facts.rows):
        if row.call != "take" or not reads(facts, later, number):
            continue
        count = row.arguments.get("count")
        whole = epoch_elements(facts, facts.rows[number].inputs[0])
        per = (row.records or 1.0) / (facts.rows[number].records or 1.0)
        if count is not None and count >= 0 and (whole is None or count * per < whole):
            return row
    return None


def _free_above(facts: Facts, outlook: Outlook, number: int) -> list[capacity.Stage]:
    return [
        capacity.changed([stage], stage.row, cpu_s=0.0, wall_s=0.0)[0]
        if stage.row == number or reads(facts, number, stage.row)
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
