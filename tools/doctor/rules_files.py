"""Faults of the files and of how they are read."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tools.doctor import capacity
from tools.doctor.facts import Facts, Place, Row
from tools.doctor.findings import WARNING_GAIN, Finding, severity_of
from tools.doctor.outlook import Outlook
from tools.doctor.rows import argument, cost, measured, rows_above

FEW_RECORDS = 8
"""Records in a file, below which opening it may cost more than reading them."""
RECORD_S = 5e-6
READ_BYTES_PER_S = 1e9
"""CPU time of reading a record from the page cache, with its checksum: for each record, and by its bytes
(measured 9 us for 13 KB and 44 us for 131 KB)."""
UNEVEN = 3.0
"""A shard so many times the mean is read to its end by one thread while the others have nothing to do."""


def reading(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Records that one thread reads: decompressing them, or waiting for a slow disk."""
    for number, row in measured(facts, "TFRecordDataset"):
        if capacity.threads_of(row, facts) is not None or len(facts.files) < 2:
            continue
        stage = outlook.stage(number)
        waits = stage.wall_s > 2 * stage.cpu_s
        threads = min(16, len(facts.files)) if waits else min(facts.cores, len(facts.files))
        stages = capacity.changed(outlook.stages, number, threads=threads)
        gain = outlook.gain(stages)
        compressed = row.arguments.get("compression_type")
        if gain < WARNING_GAIN or not (waits or compressed):
            continue
        assert row.rate is not None
        what = (
            f"the thread that reads these files waits for the disk {1 - stage.cpu_s / stage.wall_s:.0%} of "
            "its time"
            if waits
            else f"one thread decompresses all files ({compressed})"
        )
        yield Finding(
            kind="slow-storage" if waits else "serial-decompression",
            severity=severity_of(gain),
            place=row.place,
            message=f"{what}: {row.rate.per_s:.4g} records a second, {row.rate.cores:.2f} cores busy. "
            + cost(outlook, number),
            fix=f"tf.data.TFRecordDataset(files, num_parallel_reads={threads})",
            predicted_gain=gain,
            sure="modelled",
            changes=[argument(row, "num_parallel_reads", threads)],
            limit_after=outlook.limit_after(stages),
        )


def shards(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Files of a shape that parallel reads can't do anything with."""
    if len(facts.files) < 2:
        return
    for number, row in measured(facts, "interleave", "TFRecordDataset", "flat_map"):
        stage = outlook.stage(number)
        per_file = _records_per_file(facts, row)
        if per_file is not None and row.rate is not None and per_file < FEW_RECORDS:
            whole_s = stage.wall_s / (facts.rows[-1].records or 1.0)
            reading_s = RECORD_S + row.rate.bytes / READ_BYTES_PER_S
            stages = capacity.changed(
                outlook.stages,
                number,
                cpu_s=stage.cpu_s * reading_s / whole_s,
                wall_s=stage.wall_s * reading_s / whole_s,
            )
            gain = outlook.gain(stages)
            if whole_s > 4 * reading_s and gain >= WARNING_GAIN:
                yield Finding(
                    kind="tiny-shards",
                    severity=severity_of(gain),
                    place=row.place,
                    message=f"{len(facts.files)} files of {statistics.mean(facts.files) / 1024:.3g} KiB "
                    f"with about {per_file:.1f} records each: opening them takes the time, "
                    f"{1e6 * whole_s:.0f} us a record where reading one takes about "
                    f"{1e6 * reading_s:.0f}. {cost(outlook, number)}",
                    fix="# write fewer shards, of 100 MB or so",
                    predicted_gain=gain,
                    sure="modelled",
                    limit_after=outlook.limit_after(stages),
                )
            continue
        largest, total = max(facts.files), sum(facts.files)
        threads = capacity.threads_of(row, facts) or 1
        ordered = row.arguments.get("deterministic") == "true"
        if ordered and row.call == "interleave" and threads > 1:
            yield from _waits_for_order(facts, outlook, number)
        elif row.call == "interleave" and threads > 1 and largest > UNEVEN * total / len(facts.files):
            # Its thread goes on alone when the others are through.
            even = total / min(threads, facts.cores)
            ratio = largest / even
            if ratio <= 1:
                continue
            gain = outlook.run_gain(min(ratio, float(min(threads, facts.cores))))
            inner_s = stage.cpu_s
            if gain >= WARNING_GAIN and inner_s > 0.3 * outlook.cpu_s:
                yield Finding(
                    kind="uneven-shards",
                    severity=severity_of(gain),
                    place=row.place,
                    message=f"one of the {len(facts.files)} files holds {largest / total:.0%} of all "
                    "bytes: one "
                    "thread reads it to its end while the others have nothing left to do. "
                    + cost(outlook, number),
                    fix="# write shards of equal size",
                    predicted_gain=gain,
                    sure="modelled",
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
                for n in rows_above(facts, number)
                if facts.rows[n].call in ("TFRecordDataset", "interleave", "flat_map")
            ),
            None,
        )
        if reader is None:
            continue
        stages = outlook.stages
        for each in (reader, *(n for n in rows_above(facts, number) if n > reader)):
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


RULES = (reading, shards, unused_bytes)


def _waits_for_order(facts: Facts, outlook: Outlook, number: int) -> Iterator[Finding]:
    """An ordered interleave in which one input is slower than the others: all wait for their turn."""
    row, stage = facts.rows[number], outlook.stage(number)
    cycle = int(row.arguments.get("cycle_length", 1))
    cycle = min(len(facts.files), cycle if cycle > 0 else facts.cores)
    heavy = max(facts.files) / statistics.median(facts.files)
    threads = min(capacity.threads_of(row, facts) or 1, cycle)
    # In each round of the cycle one element of every input is due; the slowest takes its time alone.
    gain = outlook.run_gain(max(1.0, threads * heavy / (cycle - 1 + heavy)))
    if gain >= WARNING_GAIN and stage.cpu_s > 0.3 * outlook.cpu_s:
        yield Finding(
            kind="deterministic-order",
            severity=severity_of(gain),
            place=row.place,
            message=f"deterministic=True: each input waits for its turn, and one file of "
            f"{len(facts.files)} is {heavy:.1f} times as heavy as the others. " + cost(outlook, number),
            fix=".interleave(..., deterministic=False)  # where the order of records does not matter",
            predicted_gain=gain,
            sure="modelled",
            changes=[argument(row, "deterministic", False)],
        )


def _records_per_file(facts: Facts, row: Row) -> float | None:
    if row.rate is None or not row.rate.bytes or row.records != 1.0:
        return None
    # A record's frame takes 16 bytes (length, two CRCs).
    return statistics.mean(facts.files) / (row.rate.bytes + 16)


def _parse_share(row: Row, used: float) -> float:
    """Of a parsing function's time that stays when records hold only what is used: parsing runs over all
    bytes."""
    assert row.mapped is not None
    parsing = sum(each.share for each in row.mapped.costs if each.type.startswith("Parse"))
    return 1.0 - parsing * (1.0 - used)
