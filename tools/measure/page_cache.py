"""How much of files lies in the page cache, and getting it out of there.

After mincore(2) and posix_fadvise(2). No page of a file is ever touched: that would read it
in, and end the process if somebody cut the file short meanwhile.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence

import numpy as np

COLD_SHARE = 0.05
"""Share of pages up to which files count as evicted: a few stay that others have mapped or that are not
written back yet."""

_LOOK_AT_BYTES = 64 * 2**20
"""Of each file. A larger one is looked at in windows, spread evenly over it."""
_WINDOWS = 16
_FILES = 256
"""Looked at, at most; of more, some that are spread evenly over the list."""


def page_cache_share(paths: Sequence[str]) -> float | None:
    """Share of the files' bytes that lie in the page cache, from 0 to 1; each file counts by its size.

    None where it can't be told: not on Linux, no such file, only empty files, or files that are
    neither the user's own nor writable (of those Linux 5.2 and newer says that all is cached).
    """
    if sys.platform != "linux":
        return None
    looked_at = min(len(paths), _FILES)
    sampled = [paths[number * len(paths) // looked_at] for number in range(looked_at)]
    cached_bytes = size = 0.0
    try:
        for path in sampled:
            file_size, share = _size_and_share(path)
            size += file_size
            cached_bytes += file_size * share
    except (OSError, ValueError):
        return None
    return cached_bytes / size if size else None


def evict(paths: Sequence[str]) -> bool:
    """Ask the system to drop the files from the page cache; whether they are out of it then.

    False where that can't be told, and where pages stay: those of a file system in memory, those
    that a process has mapped, those of a file that was written a moment ago and is not on the
    disk yet.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    try:
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    except OSError:
        return False
    share = page_cache_share(paths)
    return share is not None and share <= COLD_SHARE


def windows(size: int) -> list[tuple[int, int]]:
    """Which (offset, bytes) of a file of ``size`` bytes are looked at; offsets are those of pages."""
    if size <= _LOOK_AT_BYTES:
        return [(0, size)] if size else []
    length = _LOOK_AT_BYTES // _WINDOWS
    last = size - length
    offsets = [number * last // (_WINDOWS - 1) for number in range(_WINDOWS)]
    return [(offset - offset % mmap.ALLOCATIONGRANULARITY, length) for offset in offsets]


def _size_and_share(path: str) -> tuple[int, float]:
    """Bytes of the file, and the share of those looked at that are cached.

    Errors: OSError; ValueError when the file was cut short meanwhile.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if os.geteuid() not in (0, status.st_uid) and not os.access(path, os.W_OK):
            raise PermissionError(f"what is cached of {path} is told only to those who may write it")
        parts = [_resident(file.fileno(), offset, length) for offset, length in windows(status.st_size)]
    pages = np.concatenate([np.zeros(0, bool), *parts])
    return status.st_size, float(pages.mean()) if pages.size else 0.0


def _resident(descriptor: int, offset: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each page of a part of a file, whether it is in memory.

    Errors: OSError; ValueError when the file ends before the part does.
    """
    mapped = mmap.mmap(descriptor, length, prot=mmap.PROT_READ, offset=offset)
    try:
        pages = np.zeros(-(-length // mmap.PAGESIZE), np.uint8)
        # An array knows the address without a look at what lies there.
        address = np.frombuffer(mapped, np.uint8).ctypes.data
        mincore = ctypes.CDLL(None, use_errno=True).mincore
        mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        if mincore(address, length, pages.ctypes.data) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        # The other bits of each byte are reserved.
        return (pages & 1).astype(bool)
    finally:
        mapped.close()
