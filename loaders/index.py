"""DALI's index of a TFRecord shard: a text file with one ``offset size`` line a
record, both in bytes, the size with the 16 bytes of framing.

An index also serves as a sampler: DALI honours lines that are left out, permuted
or repeated. The file beside a shard always lists all records in file order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loaders.atomic import write_beside
from loaders.records import FRAME_BYTES, read_frames

Index = NDArray[np.int64]
"""int64 [records, 2]: offset and size of each frame, in bytes."""


def index_of(path: str) -> Index:
    """The index of a shard, from its own headers. Errors: ShardError, OSError."""
    pairs = [(frame.offset, frame.size) for frame in read_frames(path)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def index_path(shard: str, index_dir: str | None = None) -> str:
    """Where the index of ``shard`` lies: beside it, or in ``index_dir`` under the same name."""
    if index_dir is None:
        return shard + ".idx"
    return str(Path(index_dir) / (Path(shard).name + ".idx"))


def own_index_path(shard: str, index_dir: str) -> str:
    """As ``index_path``, where the index there is that of another folder's shard of the same name."""
    folder = hashlib.sha256(os.fsencode(os.path.realpath(os.path.dirname(shard)))).hexdigest()[:16]
    return str(Path(index_dir) / f"{Path(shard).name}.{folder}.idx")


def write_index(path: str | os.PathLike[str], index: Index | Sequence[tuple[int, int]]) -> None:
    """Write an index file, whole or not at all. Errors: OSError."""
    lines = "".join(
        f"{offset} {size}\n" for offset, size in np.asarray(index, np.int64).reshape(-1, 2).tolist()
    )
    with write_beside(path) as file:
        file.write(lines.encode("ascii"))


def read_index(path: str | os.PathLike[str]) -> Index:
    """Read an index file.

    Errors: ValueError that names the file and the line, for anything but lines of
    two whole numbers from 0 to 2^63 - 1, the size at least 16; OSError.
    """
    data = Path(path).read_bytes()
    pairs: list[tuple[int, int]] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        fields = line.split()
        if len(fields) != 2 or not all(_is_int64(field) for field in fields):
            raise ValueError(
                f"{path}: line {number} must be two whole numbers, offset and size: {line[:60]!r}"
            )
        offset, size = int(fields[0]), int(fields[1])
        if size < FRAME_BYTES:
            raise ValueError(f"{path}: line {number}: a frame takes at least {FRAME_BYTES} bytes, not {size}")
        pairs.append((offset, size))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _is_int64(field: bytes) -> bool:
    """Whether ``field`` is a whole number from 0 to 2^63 - 1 in ASCII digits."""
    # isdigit on bytes is ASCII only; int() alone would take "1_0", "+1" and other scripts.
    return field.isdigit() and len(field) <= 19 and int(field) < 2**63
