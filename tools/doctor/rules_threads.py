"""Faults that leave cores idle: work on one thread, work in Python, pools and queues that are too small."""

from __future__ import annotations

from collections.abc import Iterator

from tools.doctor import capacity
from tools.doctor.facts import Facts, Row
from tools.doctor.findings import WARNING_GAIN, Finding, severity_of
from tools.doctor.outlook import Outlook
from tools.doctor.rows import argument, cost, dearest, measured

DISPATCH_S = 60e-6
"""CPU time for one call of a mapped function, above which the function's own work counts for more than
calling it: measured 15 to 40 us for functions of a few ops (TensorFlow 2.21)."""


def serial_map(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A map that one thread runs, and that TensorFlow may not make parallel of its own accord."""
    for number, row in measured(facts, "map"):
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
            message=f"this map runs on one core: {why}. {cost(outlook, number)}{dearest(mapped)}",
            fix=".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
            predicted_gain=gain,
            sure="modelled",
            changes=[argument(row, "num_parallel_calls", -1)],
            limit_after=outlook.limit_after(stages),
        )


def serial_loop(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A map_fn whose iterations wait for each other, in a map that can't run beside itself."""
    for number, row in measured(facts, "map"):
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
                    f"elements to run beside itself. {cost(outlook, number)}{dearest(row.mapped)}",
                    fix="tf.map_fn(..., parallel_iterations=16)",
                    predicted_gain=gain,
                    sure="modelled",
                    limit_after=outlook.limit_after(stages),
                )


def serial_interleave(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """Files that are read and decoded one after another."""
    for number, row in measured(facts, "interleave", "flat_map"):
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
                f"accord only outside. {cost(outlook, number)}{dearest(inner.mapped)}",
                fix=".map(..., num_parallel_calls=tf.data.AUTOTUNE)",
                predicted_gain=gain,
                sure="modelled",
                changes=[argument(inner, "num_parallel_calls", -1)],
                limit_after=outlook.limit_after(stages),
            )
        elif row.call == "interleave":
            yield Finding(
                kind="serial-interleave",
                severity=severity_of(gain),
                place=row.place,
                message="this interleave takes one input at a time, on one core. " + cost(outlook, number),
                fix=".interleave(..., cycle_length=tf.data.AUTOTUNE, num_parallel_calls=tf.data.AUTOTUNE)",
                predicted_gain=gain,
                sure="modelled",
                changes=[
                    argument(row, "num_parallel_calls", -1),
                    *([argument(row, "cycle_length", 4)] if row.arguments.get("cycle_length") == 1 else []),
                ],
                limit_after=outlook.limit_after(stages),
            )


def python_function(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A mapped function that calls back into Python, where one thread runs at a time."""
    for number, row in measured(facts, "map", "filter"):
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
                f"parallel. {cost(outlook, number)} The gain is what it would be worth if it were free.",
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
    for number, row in measured(facts, "DALIDataset"):
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
                    f"{facts.cores} cores. {cost(outlook, number)}",
                    fix=f"DALIDataset(..., num_threads={facts.cores})",
                    predicted_gain=gain,
                    sure="modelled",
                    changes=[],
                )


def map_before_batch(facts: Facts, outlook: Outlook) -> Iterator[Finding]:
    """A small function that is called for each element, where it could be called for a batch."""
    rows = facts.rows
    for number, row in measured(facts, "batch"):
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
    python_function,
    no_prefetch,
    few_threads,
    map_before_batch,
)


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


def _dear_inner_map(row: Row) -> Row | None:
    """The map inside an interleave that takes most of its time."""
    maps = [each for each in row.inner if each.call == "map" and each.rate is not None]
    if not maps:
        return None
    dearest = max(maps, key=lambda each: each.rate.cpu_s if each.rate else 0.0)
    return dearest if dearest.arguments.get("num_parallel_calls") in (None, 1) else None


def _same_shapes(rows: list[Row], number: int) -> bool:
    return all("?" not in part and "..." not in part for part in rows[number].element)


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
