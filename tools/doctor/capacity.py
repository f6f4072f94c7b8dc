"""What a pipeline could give: a model of its calls, from which the worth of a change is predicted.

Calls run in stages. Within a stage one thread runs one call after another, so that their times add up; a call
that has threads of its own (a parallel map, interleave or batch, a prefetch) ends a stage. The slowest stage
sets the rate, and never can all calls together use more CPU time than the cores have. All times are seconds
for one element of the whole pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.doctor.facts import Facts, Row

ASYNCHRONOUS = ("prefetch",)
WAITING_CORES = 0.9
"""Cores that a chain on one thread keeps busy, below which it waits for something."""
WAITING_SHARE = 0.75
"""Of all cores, that a chain with parallel calls keeps busy, below which it waits for something."""
SLOWER = 1.1
"""So many times the time of what it reads: then a call sets the rate itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A call's own part."""

    row: int
    cpu_s: float
    """CPU time, whatever threads spend it."""
    wall_s: float
    """Time that one thread needs: CPU time, and waiting for a disk or a lock."""
    threads: int | None
    """Threads of its own; None where it runs in its consumer's."""


def stages_of(facts: Facts) -> list[Stage]:
    """A stage for each row that was measured, in order; costs above a cache are gone once it is full."""
    rows = facts.rows
    per_element = _elements_for_one(rows)
    stages: list[Stage] = []
    for number, row in enumerate(rows):
        if row.rate is None:
            break
        above = [each for each in row.inputs if rows[each].rate is not None and row.call != "cache"]
        above_cpu_s = sum(_cpu_s(rows[each]) * per_element[each] for each in above)
        above_wall_s = sum(_wall_s(rows[each]) * per_element[each] for each in above)
        own_cpu_s = max(0.0, row.rate.cpu_s * per_element[number] - above_cpu_s)
        wall_s = _wall_s(row) * per_element[number]
        stages.append(
            Stage(
                row=number,
                cpu_s=own_cpu_s,
                wall_s=_own_wall_s(row, facts, own_cpu_s=own_cpu_s, wall_s=wall_s, above_wall_s=above_wall_s),
                threads=threads_of(row, facts),
            )
        )
    return _without_what_is_cached(rows, stages)


def _own_wall_s(row: Row, facts: Facts, *, own_cpu_s: float, wall_s: float, above_wall_s: float) -> float:
    """Time that one of a call's threads needs for what the call itself does."""
    assert row.rate is not None
    written = threads_as_written(row, facts)
    if written is None:
        if own_cpu_s > wall_s:
            # It used several cores inside one call.
            return max(0.0, wall_s - above_wall_s)
        # What is no CPU time is waiting, for a disk or a lock.
        return max(own_cpu_s, wall_s - above_wall_s) if row.rate.cores < WAITING_CORES else own_cpu_s
    slower = wall_s > SLOWER * above_wall_s
    if row.call not in ASYNCHRONOUS and slower and row.rate.cores < WAITING_SHARE * facts.cores:
        # It sets the rate, and not for want of cores: its threads wait, for files or for each other.
        return max(own_cpu_s, written * wall_s)
    return own_cpu_s


def _cpu_s(row: Row) -> float:
    return row.rate.cpu_s if row.rate is not None else 0.0


def _wall_s(row: Row) -> float:
    return 1 / row.rate.per_s if row.rate is not None and row.rate.per_s else 0.0


def predict(stages: Sequence[Stage], cores: float) -> tuple[float, int]:
    """Elements a second, and the row that limits them; -1 where it is the cores together."""
    slowest_s, limit = sum(each.cpu_s for each in stages) / cores, -1
    together_s, dearest = 0.0, -1
    for stage in stages:
        if stage.threads is None:
            together_s += stage.wall_s
            if dearest < 0 or stage.wall_s > next(s.wall_s for s in stages if s.row == dearest):
                dearest = stage.row
            if together_s > slowest_s:
                slowest_s, limit = together_s, dearest
            continue
        own_s = stage.wall_s / max(1, stage.threads)
        if own_s > slowest_s:
            slowest_s, limit = own_s, stage.row
        together_s, dearest = 0.0, -1
    return (1 / slowest_s if slowest_s > 0 else float("inf")), limit


def changed(stages: Sequence[Stage], row: int, **changes: float | int | None) -> list[Stage]:
    """The stages with other figures for one row."""
    return [replace(each, **changes) if each.row == row else each for each in stages]  # type: ignore[arg-type]


def coupled(loader_per_s: float, step_per_s: float, *, overlap: bool, loader_cpu_s: float, step_cpu_s: float,
            cores: float) -> float:  # fmt: skip
    """Steps a second of dataset and step together: they share the cores, and wait for each other unless a
    prefetch stands between them."""
    if not overlap:
        return 1 / (1 / loader_per_s + 1 / step_per_s)
    return min(
        loader_per_s, step_per_s, cores / (loader_cpu_s + step_cpu_s) if loader_cpu_s + step_cpu_s else 1e12
    )


def threads_as_written(row: Row, facts: Facts) -> int | None:
    """Threads that a call asks for; None where it has none of its own."""
    if row.call in ASYNCHRONOUS:
        return 1
    if row.call == "DALIDataset":
        return int(row.arguments.get("num_threads", 1))
    asked = row.arguments.get("num_parallel_calls", row.arguments.get("num_parallel_reads"))
    if asked is None:
        return None
    most = facts.cores
    pool = facts.options.get("threading.private_threadpool_size")
    if pool:
        most = min(most, int(pool))
    threads = most if asked < 0 else min(int(asked), most)
    if row.call == "interleave" and row.arguments.get("cycle_length", -1) > 0:
        threads = min(threads, int(row.arguments["cycle_length"]))
    return max(1, min(threads, elements_at_once(row)))


def threads_of(row: Row, facts: Facts) -> int | None:
    """Threads that a call really has: TensorFlow makes a stateless map parallel of its own accord."""
    written = threads_as_written(row, facts)
    by_tensorflow = (
        written is None
        and row.call == "map"
        and row.mapped is not None
        and not row.mapped.stateful
        and optimised(facts, "map_parallelization")
    )
    return max(1, min(pool_size(facts), elements_at_once(row))) if by_tensorflow else written


def elements_at_once(row: Row) -> int:
    """No more calls can run beside each other than a pass has elements."""
    if row.rate is not None and row.rate.ended:
        return max(1, row.rate.elements)
    return 1 << 30


def pool_size(facts: Facts) -> int:
    """Threads of the pool that runs the pipeline."""
    pool = facts.options.get("threading.private_threadpool_size")
    return min(facts.cores, int(pool)) if pool else facts.cores


def optimised(facts: Facts, name: str) -> bool:
    """Whether TensorFlow applies one of its default optimisations."""
    if name in ("inject_prefetch", "map_parallelization"):
        told = facts.options.get(f"experimental_optimization.{name}")
        if told is not None:
            return bool(told)
    return bool(facts.options.get("experimental_optimization.apply_default_optimizations", True))


def _elements_for_one(rows: Sequence[Row]) -> list[float]:
    """Elements of each row that one element of the whole pipeline takes; 0 where that can't be told: files,
    whose cost is that of the call which reads them."""
    last = (rows[-1].records or 1.0) if rows else 1.0
    counts = []
    for number, row in enumerate(rows):
        if row.records is None or _feeds_files(rows, number):
            counts.append(0.0)
        else:
            counts.append(last / row.records)
    return counts


def _feeds_files(rows: Sequence[Row], number: int) -> bool:
    """Whether an interleave, flat_map or window stands between this row and the end."""
    for later in rows[number + 1 :]:
        if number in later.inputs:
            if later.call in ("interleave", "flat_map", "parallel_interleave"):
                return True
            return _feeds_files(rows, rows.index(later))
    return False


def _without_what_is_cached(rows: Sequence[Row], stages: list[Stage]) -> list[Stage]:
    above: set[int] = set()
    for row in rows:
        if row.call == "cache":
            frontier = list(row.inputs)
            while frontier:
                each = frontier.pop()
                above.add(each)
                frontier += rows[each].inputs
    return [replace(each, cpu_s=0.0, wall_s=0.0) if each.row in above else each for each in stages]
