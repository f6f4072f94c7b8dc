"""Watches the machine from outside while a process runs, and tells what a window of that time used.

Cores, memory, disk reads, GPUs and energy are sampled; what a sample is stands in `readings`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tools.measure.energy import POWERCAP, ProcessorEnergy, Source, sources
from tools.measure.nvidia import GPU_SERIES, NvidiaGpus
from tools.measure.process_tree import ProcessTree
from tools.measure.readings import read, sample

COST_LIMIT = 0.01
"""CPU time of the sampling over wall time: it stays below that."""
_COST_TARGET = 0.8 * COST_LIMIT
"""What it aims at, so that one sample dearer than the last does not exceed it."""

_LEAST_INTERVAL_S = 0.05
"""The system counts a core's time in ticks of up to 10 ms."""

DISTURBED_SHARE = 0.10
"""Share of the machine's CPU capacity above which other processes count as a disturbance. A tenth is well
above what an idle desktop or the ticks in which cores are counted amount to (each about 0.01), and below
the one busy process that makes two loaders of a small machine change places."""

_SERIES = ("cores_busy", "process_cores", "other_cores", "rss_mib", "read_mib", "energy_j")


class Sampler:
    """Samples while the process ``pid`` and its descendants run, in a thread of this process.

    Sampling ends with the ``with`` block, or with the process. ``interval_s`` is the shortest
    time between two samples; where samples are dear (very many cores or processes), the time
    between them grows, so that the sampling costs less than ``COST_LIMIT``. Opening the sources
    comes before the first reading, while the process still starts, and is not counted in it.
    """

    def __init__(
        self,
        pid: int,
        *,
        interval_s: float = 0.25,
        began_monotonic: float | None = None,
        powercap: Path = POWERCAP,
    ) -> None:
        """``began_monotonic``: the moment, on time.perf_counter's clock, from which ``at_s`` counts; this one
        if left out. ``powercap``: the folder of the processors' energy counters.

        Errors: ValueError for an interval in which a core's counter hardly moves.
        """
        if interval_s < _LEAST_INTERVAL_S:
            raise ValueError(f"interval_s must be at least {_LEAST_INTERVAL_S}: {interval_s}")
        self._pid = pid
        self._interval_s = interval_s
        self._began = time.perf_counter() if began_monotonic is None else began_monotonic
        self._powercap = powercap
        self._rows: list[dict[str, Any]] = []
        self._first_at: float | None = None
        self._energy_of: list[Source] = []
        self._cpu_s = 0.0
        self._wall_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def cost_share(self) -> float:
        """CPU time of the sampling over the wall time that was sampled."""
        return self._cpu_s / self._wall_s if self._wall_s else 0.0

    def samples(self) -> dict[str, Any]:
        """What was sampled, ready for JSON: lists over time, one value for each interval.

        ``at_s``: the interval's end, in seconds from ``began_monotonic``; it began at the one
        before, the first at ``first_from_s`` (None before the first reading).
        ``cores_busy``: share of each core, with time stolen by a hypervisor.
        ``process_cores``, ``other_cores``: CPU time over wall time, of the observed tree and of
        all others but this process.
        ``rss_mib``: of the tree; pages that its processes share count once for each.
        ``read_mib``: read by the tree from disks in the interval.
        ``gpu``: lists by the names of ``nvidia.GPU_SERIES``.
        ``energy_j``: spent in the interval by the whole machine as far as ``energy_of`` names it.
        A series with an interval that could not be measured is None.
        """
        rows = list(self._rows)
        gpu = {name: _series([row["gpu"][name] for row in rows]) for name in GPU_SERIES}
        return {
            "began_monotonic": self._began,
            "first_from_s": None if self._first_at is None else round(self._first_at - self._began, 4),
            "at_s": [row["at_s"] for row in rows],
            **{name: _series([row[name] for row in rows]) for name in _SERIES},
            "gpu": gpu if any(gpu.values()) else None,
            "energy_of": list(self._energy_of),
        }

    def _observe(self) -> None:
        gpus = NvidiaGpus.open()
        try:
            self._sample(ProcessTree(self._pid), gpus, ProcessorEnergy.open(self._powercap))
        except (psutil.Error, OSError):
            # The process has ended, and with it what there was to observe.
            return
        finally:
            if gpus:
                gpus.close()

    def _sample(self, tree: ProcessTree, gpus: NvidiaGpus | None, processors: ProcessorEnergy | None) -> None:
        cpu_began, wall_began = time.thread_time(), time.perf_counter()
        before = read(tree, gpus, processors)
        self._first_at = before.at
        self._energy_of = sources(before.energy)
        while True:
            last_s = time.thread_time() - cpu_began - self._cpu_s
            self._cpu_s += last_s
            now = time.perf_counter()
            pause = pause_s(
                interval_s=self._interval_s,
                since_reading_s=now - before.at,
                spent_s=self._cpu_s,
                next_s=last_s,
                elapsed_s=now - wall_began,
            )
            stopped = self._stop.wait(pause)
            self._wall_s = time.perf_counter() - wall_began
            if stopped:
                return
            now_read = read(tree, gpus, processors)
            if len(now_read.cores) != len(before.cores):
                # Cores were switched on or off: it's no longer the machine that was sampled.
                return
            self._rows.append(sample(before, now_read, self._began, self._energy_of))
            before = now_read


def pause_s(
    *, interval_s: float, since_reading_s: float, spent_s: float, next_s: float, elapsed_s: float
) -> float:
    """Seconds to the next sample: the interval, or as long as it takes until the CPU time that was spent, and
    ``next_s`` that the next sample will cost, are no more than their share of the wall time."""
    by_cost_s = (spent_s + next_s) / _COST_TARGET - elapsed_s
    return max(interval_s - since_reading_s, by_cost_s, 0.0)


def usage(samples: Mapping[str, Any], from_s: float, to_s: float, images: int) -> dict[str, Any]:
    """Means over [``from_s``, ``to_s``], moments on the clock of ``at_s``, in which ``images`` were fed.

    An interval counts by how much of it lies in the window; what could not be measured, or was
    not sampled in the window, is None. The keys are those of `usage` in docs/result.md.
    """
    weights = _overlaps(samples, from_s, to_s)
    gpu = samples["gpu"]
    watts = _mean(_per_second(samples, "energy_j"), weights)
    return {
        "cores_busy": _mean_of_each(samples["cores_busy"], weights),
        "process_cores": _mean(samples["process_cores"], weights),
        "other_cores": _mean(samples["other_cores"], weights),
        "rss_mib": _mean(samples["rss_mib"], weights),
        "read_mib_per_s": _mean(_per_second(samples, "read_mib"), weights),
        "gpu": {name: _mean(gpu[name], weights) for name in GPU_SERIES} if gpu else None,
        "joules_per_1000_images": (
            watts * (to_s - from_s) / images * 1000 if watts is not None and images > 0 else None
        ),
    }


def is_disturbed(samples: Mapping[str, Any], from_s: float, to_s: float) -> bool:
    """Whether other processes took more than ``DISTURBED_SHARE`` of all cores, on average over the window.

    False where nothing was sampled in it.
    """
    other_cores = _mean(samples["other_cores"], _overlaps(samples, from_s, to_s))
    if other_cores is None:
        return False
    return other_cores > DISTURBED_SHARE * len(samples["cores_busy"][0])


def _series(values: list[Any]) -> list[Any] | None:
    return None if not values or any(value is None for value in values) else values


def _begins_and_ends(samples: Mapping[str, Any]) -> list[tuple[float, float]]:
    ends: list[float] = samples["at_s"]
    return list(zip([samples["first_from_s"], *ends], ends, strict=False))


def _overlaps(samples: Mapping[str, Any], from_s: float, to_s: float) -> list[float]:
    """Seconds of each interval that lie in the window."""
    return [max(0.0, min(end, to_s) - max(begin, from_s)) for begin, end in _begins_and_ends(samples)]


def _per_second(samples: Mapping[str, Any], name: str) -> list[float] | None:
    """Amounts in intervals, as rates."""
    amounts = samples[name]
    if amounts is None:
        return None
    intervals = _begins_and_ends(samples)
    return [amount / (end - begin) for amount, (begin, end) in zip(amounts, intervals, strict=True)]


def _mean(series: Sequence[float] | None, weights: Sequence[float]) -> float | None:
    return None if series is None or sum(weights) <= 0 else _weighted(series, weights)


def _mean_of_each(series: Sequence[Sequence[float]] | None, weights: Sequence[float]) -> list[float] | None:
    if series is None or sum(weights) <= 0:
        return None
    return [_weighted(core, weights) for core in zip(*series, strict=True)]


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
