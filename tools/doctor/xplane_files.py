"""The files of a TensorFlow profile: the newest run under a log folder, and what is in them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

_MOST_BYTES = 2**31 - 1
"""No protobuf message may be longer."""
_TIMED_RUN = re.compile(r"\d{4}(_\d\d){5}")


def newest_run(folder: Path) -> tuple[str, list[Path]]:
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to look for a profile in")
    runs: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*.xplane.pb")):
        if path.is_file():
            runs[path.parent].append(path)
    if not runs:
        raise ValueError(f"{folder} has no profile: no plugins/profile/RUN/HOST.xplane.pb in or under it")
    # A run's name is the time of its start, and copying a folder keeps it.
    newest = max(runs, key=lambda run: (run.name if _TIMED_RUN.match(run.name) else "", _time_of(run)))
    return newest.name, runs[newest]


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def parse(path: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ValueError(f"{path} can't be parsed: {size} bytes, and a profile has at most {_MOST_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    if not data:
        raise ValueError(f"{path} is empty: the job ended before its profile was written")
    try:
        return xplane_pb2.XSpace.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{path} can't be parsed: it is damaged, or no TensorFlow profile") from error
