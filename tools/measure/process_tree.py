"""CPU time, memory and disk reads of a process and all of its descendants.

After proc(5): /proc/PID/stat has a process's own CPU time and that of its children that
ended and were waited for; /proc/PID/io counts what was really read from a disk, with the
same children in it. psutil reads both, and their counterparts on other systems.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import psutil

_SEARCH_SHARE = 0.004
"""What looking for descendants may cost, as CPU time over wall time: it reads a file for every process of
the machine, so where there are thousands it is not done for every sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessReading:
    """A process's counters as they stand at one moment."""

    own_s: float
    """CPU time of its threads, user and system, in seconds since it began."""
    with_ended_s: float
    """The same, and that of its descendants that ended and were waited for."""
    rss_bytes: int
    read_bytes: int | None
    """Read from disks, not from the page cache, by it and its waited-for descendants; None where the system
    doesn't tell (only Linux does, and only about one's own processes)."""


class ProcessTree:
    """The process ``pid`` and its descendants, also those whose parent has ended since.

    Errors: psutil.NoSuchProcess when there is no process ``pid``.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._descendants: set[psutil.Process] = set()
        self._search_after = 0.0

    def search(self) -> None:
        """Look for new descendants, unless it was done so recently that it would cost too much.

        Errors: psutil.NoSuchProcess when the root has ended.
        """
        now = time.perf_counter()
        if now < self._search_after:
            return
        began_s = time.thread_time()
        found = set(self._root.children(recursive=True))
        # What outlives its parent is no longer below the root, but it still belongs to it.
        adopted = {process for process in self._descendants - found if process.is_running()}
        self._descendants = found | adopted
        self._search_after = now + (time.thread_time() - began_s) / _SEARCH_SHARE

    def read(self) -> dict[Hashable, ProcessReading]:
        """Read every process that is known and still there.

        Errors: psutil.NoSuchProcess when the root has ended, also while nobody has waited for it yet.
        """
        if self._root.status() == psutil.STATUS_ZOMBIE:
            raise psutil.NoSuchProcess(self._root.pid)
        readings: dict[Hashable, ProcessReading] = {self._root: _read(self._root)}
        for process in tuple(self._descendants):
            try:
                readings[process] = _read(process)
            except psutil.Error:
                # It has ended, or it belongs to another user now.
                self._descendants.discard(process)
        return readings


def cpu_s_between(before: Mapping[Hashable, ProcessReading], now: Mapping[Hashable, ProcessReading]) -> float:
    """Seconds of CPU time that a tree took between two readings; never negative.

    What ended in between is in the times of whoever waited for it. Where nobody did, its last
    interval is lost, and what the others took is what is left to tell.
    """
    total = sum(each.with_ended_s for each in now.values())
    total -= sum(each.with_ended_s for each in before.values())
    known = 0.0
    for process, reading in now.items():
        earlier = before.get(process)
        known += reading.own_s - (earlier.own_s if earlier else 0.0)
    return max(total, known, 0.0)


def read_bytes_between(
    before: Mapping[Hashable, ProcessReading], now: Mapping[Hashable, ProcessReading]
) -> int | None:
    """Bytes that a tree read from disks between two readings; never negative, None where unknown."""
    counts = [[each.read_bytes for each in readings.values()] for readings in (before, now)]
    then, later = ([count for count in each if count is not None] for each in counts)
    if len(then) < len(before) or len(later) < len(now):
        return None
    return max(0, sum(later) - sum(then))


def _read(process: psutil.Process) -> ProcessReading:
    with process.oneshot():
        times = process.cpu_times()
        rss_bytes = process.memory_info().rss
    own_s = times.user + times.system
    ended_s = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return ProcessReading(
        own_s=own_s, with_ended_s=own_s + ended_s, rss_bytes=rss_bytes, read_bytes=_read_bytes(process)
    )


def _read_bytes(process: psutil.Process) -> int | None:
    # On Windows the counter of the same name has what came from the cache in it.
    if not psutil.LINUX:
        return None
    try:
        return int(process.io_counters().read_bytes)
    except (psutil.AccessDenied, OSError, NotImplementedError, RuntimeError):
        # Another user's process, or a kernel without task I/O accounting.
        return None
