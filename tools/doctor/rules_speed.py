"""Faults of the pipeline that cost time: work on one thread, work in Python, reads that can't run beside
each other."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tools.doctor import capacity
from tools.doctor.facts import Facts, Mapped, Row
from tools.doctor.findings import WARNING_GAIN, Finding, severity_of
from tools.doctor.outlook import Outlook

DISPATCH_S = 60e-6
"""CPU time for one call of a mapped function, above which the function's own work counts for more than
calling it: measured 15 to 40 us for functions of a few ops (TensorFlow 2.21)."""
FEW_RECORDS = 8
"""Records in a file, below which opening it may cost more than reading them."""
RECORD_S = 5e-6
READ_BYTES_PER_S = 1e9
"""CPU time of reading a record from the page cache, with its checksum: for each record, and by its bytes
(measured 9 us for 13 KB and 44 us for 131 KB)."""
UNEVEN = 3.0
"""A shard so many times the mean is read to its end by one thread while the others have nothing to do."""


def serial_map(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A map that one thread runs, and that TensorFlow may not make parallel of its own accord."""
    for number, row in _measured(facts, "map"):
        mapped = row.mapped
        if mapped is None or mapped.python or capacity.threads_of(row, facts) not in (None, 1):
            continue
        if row.arguments.get("num_parallel_calls") not in (None, 1):
            continue
        stages = capacity.changed(outlook.stages, number, threads=_most(row, facts))
        gain = outlook.gain(stages)
        if gain < WARNING_GAIN:
            continue
        why = (
            "its function is stateful, so TensorFlow may not run it in parallel of its own accord"
            if mapped.stateful
            else "TensorFlow's optimisations are switched off, so it stays as it is written"
        )
        yield Finding(
            kind="serial-map",
            severity=severity_of(gain),
            place=row.place,
            message=f"this map runs on one core: {why}. {_cost(outlook, number)}{_dearest(mapped)}",
            fix=".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
            predicted_gain=gain,
            sure="modelled",
            changes=[_argument(row, "num_parallel_calls", -1)],
            limit_after=outlook.limit_after(stages),
        )


def serial_loop(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A map_fn whose iterations wait for each other, in a map that can't run beside itself."""
    for number, row in _measured(facts, "map"):
        if row.mapped is None or (capacity.threads_of(row, facts) or 1) > 1:
            continue
        for loop in row.mapped.loops:
            if loop.parallel_iterations != 1 or loop.place is None:
                continue
            stages = capacity.changed(
                outlook.stages, number, wall_s=outlook.stage(number).cpu_s / facts.cores
            )
            gain = outlook.gain(stages)
            if gain >= WARNING_GAIN:
                yield Finding(
                    kind="serial-map-fn",
                    severity=severity_of(gain),
                    place=loop.place,
                    message="this map_fn runs one iteration at a time, and the map around it has too few "
                    f"elements to run beside itself. {_cost(outlook, number)}{_dearest(row.mapped)}",
                    fix="tf.map_fn(..., parallel_iterations=16)",
                    predicted_gain=gain,
                    sure="modelled",
                    limit_after=outlook.limit_after(stages),
                )


def serial_interleave(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Files that are read and decoded one after another."""
    for number, row in _measured(facts, "interleave", "flat_map"):
        if (capacity.threads_of(row, facts) or 1) > 1 and row.arguments.get("cycle_length") != 1:
            continue
        stages = capacity.changed(outlook.stages, number, threads=facts.cores)
        gain = outlook.gain(stages)
        if gain < WARNING_GAIN:
            continue
        inner = _dear_inner_map(row)
        if inner is not None and row.arguments.get("cycle_length") != 1:
            yield Finding(
                kind="serial-map",
                severity=severity_of(gain),
                place=inner.place,
                message=f"this map inside .{row.call} runs on one core: TensorFlow parallelises a map of "
                "its own "
                f"accord only outside. {_cost(outlook, number)}{_dearest(inner.mapped)}",
                fix=".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
                predicted_gain=gain,
                sure="modelled",
                changes=[_argument(inner, "num_parallel_calls", -1)],
                limit_after=outlook.limit_after(stages),
            )
        elif row.call == "interleave":
            yield Finding(
                kind="serial-interleave",
                severity=severity_of(gain),
                place=row.place,
                message="this interleave takes one input at a time, on one core. " + _cost(outlook, number),
                fix=".interleave(..., cycle_length=tf.data.AUTOTUNE, num_parallel_calls=tf.data.AUTOTUNE)",
                predicted_gain=gain,
                sure="modelled",
                changes=[
                    _argument(row, "num_parallel_calls", -1),
                    *([_argument(row, "cycle_length", 4)] if row.arguments.get("cycle_length") == 1 else []),
                ],
                limit_after=outlook.limit_after(stages),
            )


def reading(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Records that one thread reads: decompressing them, or waiting for a slow disk."""
    for number, row in _measured(facts, "TFRecordDataset"):
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
            + _cost(outlook, number),
            fix=f"tf.data.TFRecordDataset(files, num_parallel_reads={threads})",
            predicted_gain=gain,
            sure="modelled",
            changes=[_argument(row, "num_parallel_reads", threads)],
            limit_after=outlook.limit_after(stages),
        )


def python_function(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A mapped function that calls back into Python, where one thread runs at a time."""
    for number, row in _measured(facts, "map", "filter"):
        if row.mapped is None or not row.mapped.python:
            continue
        stages = capacity.changed(outlook.stages, number, cpu_s=0.0, wall_s=0.0)
        gain = outlook.gain(stages)
        if gain >= WARNING_GAIN:
            yield Finding(
                kind="py-function",
                severity=severity_of(gain),
                place=row.place,
                message="this map calls Python, whose lock lets one thread run at a time, however many "
                "calls are "
                f"parallel. {_cost(outlook, number)} The gain is what it would be worth if it were free.",
                fix="# write the function with TensorFlow's ops, or do this work once, when the shards "
                "are written",
                predicted_gain=gain,
                sure="modelled",
                limit_after=outlook.limit_after(stages),
            )


def no_prefetch(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A dataset that rests while the step works."""
    if facts.step is None or outlook.overlaps or not facts.rows:
        return
    gain = outlook.gain(overlap=True)
    if gain < WARNING_GAIN:
        return
    last = facts.rows[-1]
    yield Finding(
        kind="no-prefetch",
        severity=severity_of(gain),
        place=last.place,
        message="nothing prefetches, and TensorFlow may not add it: dataset and step take turns "
        f"({facts.step.loader_per_s:.4g} and {facts.step.step_per_s:.4g} a second alone, "
        f"{facts.step.coupled_per_s:.4g} together).",
        fix=".prefetch(tf.data.AUTOTUNE)  # as the last call, before with_options",
        predicted_gain=gain,
        sure="modelled",
        changes=[
            {
                "kind": "insert",
                "call": last.call,
                "file": last.place.file,
                "line": last.place.line,
                "name": "prefetch",
                "value": 2,
            }
        ],
    )


def few_threads(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A pool, or a DALI pipeline, with fewer threads than the machine has cores."""
    pool = facts.options.get("threading.private_threadpool_size")
    if pool and int(pool) < facts.cores:
        place = next(
            (row.place for row in facts.rows if "threading.private_threadpool_size" in row.options), None
        )
        wide = _with_cores(facts, outlook)
        gain = outlook.gain(wide, cores=facts.cores)
        if gain >= WARNING_GAIN and place is not None:
            yield Finding(
                kind="private-threadpool",
                severity=severity_of(gain),
                place=place,
                message=f"the pipeline runs in a pool of {pool} of its own: {facts.cores} cores are there, "
                "and it "
                f"kept {facts.real.cores if facts.real else 0:.2f} of them busy.",
                fix=f"options.threading.private_threadpool_size = 0  # or {facts.cores}",
                predicted_gain=gain,
                sure="modelled",
                changes=[
                    {
                        "kind": "option",
                        "call": "with_options",
                        "file": place.file,
                        "line": place.line,
                        "name": "threading.private_threadpool_size",
                        "value": facts.cores,
                    }
                ],
                limit_after=outlook.limit_after(wide, facts.cores),
            )
    for number, row in _measured(facts, "DALIDataset"):
        yield from _shallow_queue(facts, outlook, row)
        threads = int(row.arguments.get("num_threads", 1))
        if threads < facts.cores:
            gain = outlook.gain(capacity.changed(outlook.stages, number, threads=facts.cores))
            if gain >= WARNING_GAIN:
                yield Finding(
                    kind="dali-threads",
                    severity=severity_of(gain),
                    place=row.place,
                    message=f"DALI decodes with {threads} thread{'s' if threads > 1 else ''} on a machine of "
                    f"{facts.cores} cores. {_cost(outlook, number)}",
                    fix=f"DALIDataset(..., num_threads={facts.cores})",
                    predicted_gain=gain,
                    sure="modelled",
                    changes=[],
                )


def _shallow_queue(facts: Facts, outlook: Outlook, row: Row) -> Iterator[Finding]:
    """A DALI pipeline that may not work ahead of an uneven step."""
    depth, step = row.arguments.get("prefetch_queue_depth"), facts.step
    if depth != 1 or step is None or not step.coupled_per_s:
        return
    steady_per_s = step.coupled_per_s / max(0.05, 1 - step.compile_share)
    gain = min(step.loader_per_s, step.step_per_s) / steady_per_s
    if gain >= WARNING_GAIN:
        yield Finding(
            kind="dali-prefetch",
            severity=severity_of(gain),
            place=row.place,
            message="prefetch_queue_depth=1 lets DALI prepare one batch and wait: alone it gives "
            f"{step.loader_per_s:.4g} batches a second, the step takes {step.step_per_s:.4g}, together "
            "they do "
            f"{steady_per_s:.4g}.",
            fix="DALIDataset(..., prefetch_queue_depth=4)",
            predicted_gain=gain,
            sure="measured",
        )


def shards(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Files of a shape that parallel reads can't do anything with."""
    if len(facts.files) < 2:
        return
    for number, row in _measured(facts, "interleave", "TFRecordDataset", "flat_map"):
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
                    f"{1e6 * reading_s:.0f}. {_cost(outlook, number)}",
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
                    + _cost(outlook, number),
                    fix="# write shards of equal size",
                    predicted_gain=gain,
                    sure="modelled",
                )


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
            f"{len(facts.files)} is {heavy:.1f} times as heavy as the others. " + _cost(outlook, number),
            fix=".interleave(..., deterministic=False)  # where the order of records does not matter",
            predicted_gain=gain,
            sure="modelled",
            changes=[_argument(row, "deterministic", False)],
        )


def map_before_batch(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A small function that is called for each element, where it could be called for a batch."""
    rows = facts.rows
    for number, row in _measured(facts, "batch"):
        above = rows[row.inputs[0]]
        mapped = above.mapped
        size = row.arguments.get("batch_size")
        if (
            above.call != "map"
            or mapped is None
            or mapped.python
            or mapped.decodes
            or mapped.random
            or not size
        ):
            continue
        stage = outlook.stage(row.inputs[0])
        each_s = stage.cpu_s / float(size)
        if each_s > DISPATCH_S or mapped.ops > 60 or not _same_shapes(rows, row.inputs[0]):
            continue
        stages = capacity.changed(
            outlook.stages, row.inputs[0], cpu_s=stage.cpu_s * 0.1, wall_s=stage.wall_s * 0.1
        )
        stages = capacity.changed(
            stages, number, cpu_s=outlook.stage(number).cpu_s, wall_s=outlook.stage(number).wall_s
        )
        gain = outlook.gain(stages)
        if gain >= 1.15:
            yield Finding(
                kind="map-before-batch",
                severity=severity_of(gain),
                place=above.place,
                message=f"this function takes {1e6 * each_s:.0f} us an element, most of it for being "
                "called: behind "
                f"the batch it would be called once for {size}.",
                fix=".batch(...).map(...)  # with a function that takes whole batches",
                predicted_gain=gain,
                sure="modelled",
                changes=[
                    {
                        "kind": "behind",
                        "call": "map",
                        "file": above.place.file,
                        "line": above.place.line,
                        "name": "batch",
                        "value": [row.place.file, row.place.line],
                    }
                ],
                limit_after=outlook.limit_after(stages),
            )


RULES = (
    serial_map,
    serial_loop,
    serial_interleave,
    reading,
    python_function,
    no_prefetch,
    few_threads,
    shards,
    map_before_batch,
)


def _measured(facts: Facts, *calls: str) -> Iterator[tuple[int, Row]]:
    for number, row in enumerate(facts.rows):
        if row.rate is not None and row.call in calls:
            yield number, row


def _most(row: Row, facts: Facts) -> int:
    return max(1, min(capacity.pool_size(facts), capacity.elements_at_once(row)))


def _with_cores(facts: Facts, outlook: Outlook) -> list[capacity.Stage]:
    """The stages in a pool that has all cores."""
    import copy

    wide = copy.copy(facts)
    wide.options = {name: value for name, value in facts.options.items() if "private_threadpool" not in name}
    return [
        capacity.changed([stage], stage.row, threads=capacity.threads_of(facts.rows[stage.row], wide))[0]
        for stage in outlook.stages
    ]


def _cost(outlook: Outlook, number: int) -> str:
    stage, row = outlook.stage(number), outlook.facts.rows[number]
    records = outlook.facts.rows[-1].records or 1.0
    each_us = 1e6 * stage.wall_s / records
    unit = "record" if records > 1 else "element"
    assert row.rate is not None
    return f"It takes {each_us:.4g} us a {unit}, {outlook.share(number):.0%} of the pipeline's CPU time."


def _dearest(mapped: Mapped | None) -> str:
    if mapped is None or not mapped.costs:
        return ""
    first = mapped.costs[0]
    where = f" (line {first.place.line})" if first.place else ""
    return f" Most of it is {first.type}{where}, {first.share:.0%}."


def _dear_inner_map(row: Row) -> Row | None:
    """The map inside an interleave that takes most of its time."""
    maps = [each for each in row.inner if each.call == "map" and each.rate is not None]
    if not maps:
        return None
    dearest = max(maps, key=lambda each: each.rate.cpu_s if each.rate else 0.0)
    return dearest if dearest.arguments.get("num_parallel_calls") in (None, 1) else None


def _argument(row: Row, name: str, value: object) -> dict[str, object]:
    return {
        "kind": "argument",
        "call": row.call,
        "file": row.place.file,
        "line": row.place.line,
        "name": name,
        "value": value,
    }


def _records_per_file(facts: Facts, row: Row) -> float | None:
    if row.rate is None or not row.rate.bytes or row.records != 1.0:
        return None
    # A record's frame takes 16 bytes (length, two CRCs).
    return statistics.mean(facts.files) / (row.rate.bytes + 16)


def _same_shapes(rows: list[Row], number: int) -> bool:
    return all("?" not in part and "..." not in part for part in rows[number].element)
