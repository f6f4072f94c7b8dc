"""From patterns to shards: which files are data, in which order."""

from __future__ import annotations

import glob
import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

NOT_SHARDS = (".idx", ".json", ".txt", ".md")
"""Endings of files that lie beside shards; a pattern that catches them leaves them out."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A file of records, not empty; whether it is sound is for ``check`` to say."""

    path: str
    size: int
    """Bytes."""


def find_shards(patterns: Sequence[str]) -> list[Shard]:
    """The shards that ``patterns`` name, each once, sorted by name.

    A pattern is a file, a folder (every file in it) or a glob; a file whose own name
    holds brackets is taken as it is. Empty shards are left out with a warning, indexes
    and notes with a note.

    Errors: ValueError for no pattern, a pattern that matches nothing, a file that can't
    be read, and nothing but empty shards.
    """
    if not patterns:
        raise ValueError("--data must name the shards, for example --data 'shards/train-*'")
    # The same file may be caught by several patterns, spelled differently ("a", "./a").
    spellings = {_entry(path): path for pattern in reversed(patterns) for path in _expand(pattern)}
    paths = sorted(spellings.values())
    left_out = [path for path in paths if path.endswith(NOT_SHARDS)]
    if left_out:
        names = ", ".join(os.path.basename(path) for path in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        log.info("left out %d files that are no shards: %s%s", len(left_out), names, more)
    files = [Shard(path=path, size=_size(path)) for path in paths if path not in set(left_out)]
    if not files:
        raise ValueError(f"--data {_quote(patterns)} matches no shard, only {', '.join(NOT_SHARDS)} files")
    shards = [shard for shard in files if shard.size]
    if not shards:
        raise ValueError(f"--data {_quote(patterns)}: all {len(files)} shards are empty (0 bytes)")
    for shard in files:
        if not shard.size:
            log.warning("%s: the shard is empty (0 bytes) and is left out", shard.path)
    return shards


def _expand(pattern: str) -> list[str]:
    pattern = os.path.expanduser(pattern)
    if os.path.isdir(pattern):
        found = glob.glob(os.path.join(glob.escape(pattern), "*"))
    elif os.path.lexists(pattern):
        found = [pattern]
    else:
        found = glob.glob(pattern, recursive=True)
    files = [path for path in found if not os.path.isdir(path)]
    if not files:
        hint = "; in a pattern [ ] stand for one of several characters" if "[" in pattern else ""
        raise ValueError(f"--data {pattern!r} matches no file{hint}")
    return files


def _entry(path: str) -> str:
    """The folder's entry that ``path`` names, in one spelling; a link to a file is an entry of its own."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _size(path: str) -> int:
    try:
        # Opening a pipe would wait for somebody to write to it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"{path}: is no file that can be read twice (a pipe or a device)")
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ValueError(f"{path}: can't be read: {error.strerror}") from error


def _quote(patterns: Sequence[str]) -> str:
    return " ".join(repr(pattern) for pattern in patterns)
