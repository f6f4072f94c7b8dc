"""All counters of the machine at one moment, and the difference of two such readings: a sample.

A sample describes the whole interval between its readings; only memory and what NVML averages
itself are as they stand at its end. Moments are those of time.perf_counter: the monotonic clock
of the system (CLOCK_MONOTONIC on Linux), the same in every process, so that a child's own
stamps can be held against them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from tools.measure.energy import EnergyReading, ProcessorEnergy, Source, joules_between
from tools.measure.nvidia import GPU_SERIES, NvidiaGpus
from tools.measure.process_tree import ProcessReading, ProcessTree, cpu_s_between, read_bytes_between


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """All counters, as they stand at one moment."""

    at: float
    """On time.perf_counter's clock, seconds."""
    cores: tuple[tuple[float, float], ...]
    """For each core, seconds it was busy and seconds in all."""
    processes: Mapping[Hashable, ProcessReading]
    """The observed process and its descendants."""
    own_s: float
    """CPU time of the observing process, seconds."""
    energy: EnergyReading


def read(tree: ProcessTree, gpus: NvidiaGpus | None, processors: ProcessorEnergy | None) -> Reading:
    """Read all counters, as close together as can be.

    Errors: psutil.NoSuchProcess when the observed process has ended.
    """
    tree.search()
    return Reading(
        at=time.perf_counter(),
        cores=tuple(busy_and_total(core) for core in psutil.cpu_times(percpu=True)),
        processes=tree.read(),
        own_s=time.process_time(),
        energy=EnergyReading(
            processor_j=processors.read_j() if processors else None,
            gpu=gpus.read() if gpus else None,
        ),
    )


def sample(
    before: Reading, now: Reading, began: float = 0.0, energy_of: Sequence[Source] = ()
) -> dict[str, Any]:
    """One sample: what happened between two readings, under the names of ``Sampler.samples``."""
    seconds = now.at - before.at
    busy = [late[0] - early[0] for early, late in zip(before.cores, now.cores, strict=True)]
    total = [late[1] - early[1] for early, late in zip(before.cores, now.cores, strict=True)]
    # Cores count in ticks of about 10 ms: a share of their own total is nearer the truth than one of the
    # wall time, and neither is sure to lie between 0 and 1.
    shares = [min(1.0, max(0.0, b / t)) if t > 0 else 0.0 for b, t in zip(busy, total, strict=True)]
    # Some containers show cores that never count.
    counted = any(t > 0 for t in total)
    process_cores = cpu_s_between(before.processes, now.processes) / seconds
    observed_itself = os.getpid() in {getattr(process, "pid", None) for process in now.processes}
    own_cores = 0.0 if observed_itself else (now.own_s - before.own_s) / seconds
    read_bytes = read_bytes_between(before.processes, now.processes)
    joules = joules_between(before.energy, now.energy, seconds, energy_of)
    other_cores = max(0.0, sum(shares) - process_cores - own_cores) if counted else None
    rss_bytes = sum(process.rss_bytes for process in now.processes.values())
    gpu = now.energy.gpu
    return {
        "at_s": round(now.at - began, 4),
        "cores_busy": [round(share, 4) for share in shares] if counted else None,
        "process_cores": round(process_cores, 4),
        "other_cores": _rounded(other_cores),
        "rss_mib": round(rss_bytes / 2**20, 4),
        "read_mib": _rounded(None if read_bytes is None else read_bytes / 2**20),
        "gpu": {name: _rounded(getattr(gpu, name)) if gpu else None for name in GPU_SERIES},
        "energy_j": _rounded(joules),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def busy_and_total(core: Any) -> tuple[float, float]:
    """Seconds of a core. Linux counts a guest's time in `user` already; time that a hypervisor took
    (steal) is busy time: someone had the core."""
    times = core._asdict()
    guest = times.get("guest", 0.0) + times.get("guest_nice", 0.0)
    total = sum(times.values()) - guest
    return total - times["idle"] - times.get("iowait", 0.0), total
