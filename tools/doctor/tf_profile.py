"""What an existing TensorFlow profile tells, for a job that can't be run here: the newest run under a log
folder, read from the files that ``tf.profiler.experimental.start`` or the TensorBoard callback wrote.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.doctor.xplane_files import newest_run
from tools.doctor.xplane_host import Host, clean, hands_over, read_host

TOP = 15
"""How many ops a report holds."""
LIMITS = (
    "A profile names ops and no lines of code, and it lacks what began before it or ended after it: for the "
    "file and line of each call and what a fix is worth, run `uv run tools/diagnose.py "
    "path/to/file.py:make_dataset --step path/to/file.py:train_step` where the pipeline can run."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TfDataOp:
    """One op of a tf.data pipeline, over all its iterators."""

    name: str
    """As in ``MapAndBatch``; what TensorFlow fused is one op."""
    path: str
    """From the consumer on: ``Prefetch::MapAndBatch``."""
    dataset: str
    """TensorFlow's name of the dataset; its number counts from the source: ``MapDataset:4``."""
    thread: str
    """The kind of thread that asked it for elements for the longest time."""
    calls: int
    total_s: float
    """From being asked for an element to giving it, summed."""
    self_s: float
    """The same without the ops that it asked on the same thread; waiting for other threads is in it."""
    work_s: float
    """What it cost: the functions that it ran, on any thread, and its own time unless that is waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpTime:
    """Time of all runs of the ops of one type and name, without ops inside them."""

    type: str
    """``XLA:MatMul`` for an op inside of what XLA compiled."""
    name: str
    where: str
    """``host``, or the device whose plane shows it."""
    calls: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiles:
    """What one function, or one cluster of auto-clustering, cost to trace and to compile."""

    name: str
    calls: int
    """Calls from Python; 0 for what other functions call."""
    count: int
    """How often XLA compiled it."""
    seconds: float
    """From the start of the op that compiled to the run of what came out."""
    traces: int
    trace_s: float
    """Building its graph in Python; the functions that it traced in turn are in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Steps that the program marked with ``tf.profiler.experimental.Trace(name, step_num=...)``."""

    name: str
    count: int
    mean_s: float
    longest_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileReport:
    """One run's profile. Of several hosts ops and compiles are summed."""

    run: str
    hosts: tuple[str, ...]
    seconds: float
    """How long the profiler watched; of several hosts the longest."""
    busy_threads: float
    """How many threads of a host ran ops, compiled or read on average; sleeping inside an op counts too."""
    device_busy_s: float | None
    """How long the busiest device ran anything; None without a device's events."""
    waiting_s: float | None
    """How long the consumer was inside its get-next, on the host that waited most; one that runs beside the
    step counts too. None where no iterator is in the profile."""
    compile_s: float
    """How long something was being compiled, on the host that compiled most."""
    trace_s: float
    """The same for tracing."""
    tfdata_ops: tuple[TfDataOp, ...]
    """Dearest first, by ``work_s`` and then ``self_s``."""
    ops: tuple[OpTime, ...]
    """The dearest, dearest first."""
    compiles: tuple[Compiles, ...]
    steps: tuple[Steps, ...]
    notes: tuple[str, ...] = ()
    """What the profiler itself had to say about the profile."""

    @property
    def verdict(self) -> str:
        """One sentence in figures."""
        share = 1 / self.seconds
        waiting = (
            "waiting for input: no iterator in the profile"
            if self.waiting_s is None
            else f"waiting for input {min(1.0, self.waiting_s * share):.1%}"
        )
        return (
            f"{waiting}, compiling {min(1.0, self.compile_s * share):.1%}, tracing "
            f"{min(1.0, self.trace_s * share):.1%} of {self.seconds:.3g} s"
        )

    def to_json(self) -> dict[str, Any]:
        """Figures as they are, the verdict, and what a profile can't tell."""
        return {**dataclasses.asdict(self), "verdict": self.verdict, "limits": LIMITS}


def read_profile(folder: Path | str) -> ProfileReport:
    """The newest run of all profiles under ``folder``, as TensorBoard's ``--logdir`` takes it.

    Errors: ValueError for a folder that is none or has no profile, and for a file that is no profile.
    """
    run, paths = newest_run(Path(folder))
    hosts = [read_host(path) for path in paths]
    waits = [host.waiting for host in hosts if host.waiting is not None]
    device = [host.device for host in hosts if host.device is not None]
    return ProfileReport(
        run=clean(run),
        hosts=tuple(host.name for host in hosts),
        seconds=max(host.window for host in hosts) / 1e12,
        busy_threads=sum(host.busy / host.window for host in hosts) / len(hosts),
        device_busy_s=max(device) / 1e12 if device else None,
        waiting_s=max(waits) / 1e12 if waits else None,
        compile_s=max(host.compiling for host in hosts) / 1e12,
        trace_s=max(host.tracing for host in hosts) / 1e12,
        tfdata_ops=_tfdata_ops(hosts),
        ops=_ops(hosts),
        compiles=_compiles(hosts),
        steps=_steps(hosts),
        notes=tuple(note for host in hosts for note in host.notes),
    )


def _tfdata_ops(hosts: Sequence[Host]) -> tuple[TfDataOp, ...]:
    found = []
    for path in {path: None for host in hosts for path in host.iterators if "::" in path}:
        having = [host for host in hosts if path in host.iterators]
        calls, total, own = (sum(column) for column in zip(*(h.iterators[path] for h in having), strict=True))
        produced = sum(host.produced.get(path, 0) for host in having)
        threads = having[0].threads[path]
        found.append(
            TfDataOp(
                name=path.rpartition("::")[2],
                path=path.partition("::")[2],
                dataset=having[0].datasets[path],
                thread=max(threads, key=lambda each: threads[each]),
                calls=calls,
                total_s=total / 1e12,
                self_s=own / 1e12,
                work_s=(produced if hands_over(path) else max(own, produced)) / 1e12,
            )
        )
    return tuple(sorted(found, key=lambda op: (-op.work_s, -op.self_s, op.path)))


def _ops(hosts: Sequence[Host]) -> tuple[OpTime, ...]:
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for host in hosts:
        for key, (calls, time) in host.ops.items():
            sums[key][0] += calls
            sums[key][1] += time
    found = [
        OpTime(type=kind, name=name, where=where, calls=calls, seconds=time / 1e12)
        for (where, kind, name), (calls, time) in sums.items()
    ]
    return tuple(sorted(found, key=lambda op: (-op.seconds, op.type, op.name))[:TOP])


def _compiles(hosts: Sequence[Host]) -> tuple[Compiles, ...]:
    sums: dict[str, list[int]] = {}
    for host in hosts:
        for name, figures in host.compiles.items():
            sums[name] = [a + b for a, b in zip(sums.get(name, [0] * 5), figures, strict=True)]
    found = [
        Compiles(
            name=name, calls=calls, count=count, seconds=time / 1e12, traces=traces, trace_s=traced / 1e12
        )
        for name, (calls, count, time, traces, traced) in sums.items()
        if count or traces
    ]
    return tuple(sorted(found, key=lambda each: (-each.seconds, -each.trace_s, each.name)))


def _steps(hosts: Sequence[Host]) -> tuple[Steps, ...]:
    times: dict[str, list[int]] = defaultdict(list)
    for host in hosts:
        for name, each in host.steps.items():
            times[name] += each
    return tuple(
        Steps(name=name, count=len(each), mean_s=sum(each) / len(each) / 1e12, longest_s=max(each) / 1e12)
        for name, each in sorted(times.items())
    )
