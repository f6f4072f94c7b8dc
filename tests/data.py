"""Records and shards for the tests; each flaw that a record can have is one argument away.

Shapes: H height, W width, S samples a pixel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaders.config import LoaderConfig
from loaders.factory import make_loader
from loaders.records import frame_record
from loaders.spec import Schema
from loaders.writer import bytes_feature, encode_example, int64_feature
from tests.pngs import encode_png

HEIGHT, WIDTH, MAX_LEN, NUM_CLASSES = 32, 96, 4, 11
SCHEMA = Schema(max_len=MAX_LEN, height=HEIGHT, width=WIDTH, num_classes=NUM_CLASSES)
SHARD_RECORDS = (64, 70, 23)
"""Records of each shard of the small data set: unequal, and no multiple of a batch."""

Value = bytes | Sequence[bytes] | Sequence[int] | Sequence[float] | None
"""What ``feature`` encodes, by its type; None is a feature without a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """A data set on disk, and what it must give."""

    folder: Path
    paths: tuple[Path, ...]
    images: NDArray[np.uint8]
    """[records, H, W, 3], in the planned order."""
    codes: NDArray[np.int64]
    """[records, MAX_LEN]."""
    ids: tuple[str, ...]

    @property
    def pattern(self) -> str:
        return str(self.folder / "train-*.tfrecord")


def make_data(folder: Path, counts: Sequence[int] = SHARD_RECORDS) -> Data:
    """Write shards of ``counts`` records each; record numbers go on from shard to shard."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    first = 0
    for shard, count in enumerate(counts):
        path = folder / f"train-{shard:05d}-of-{len(counts):05d}.tfrecord"
        write_shard(path, [record(number) for number in range(first, first + count)])
        paths.append(path)
        first += count
    return Data(
        folder=folder,
        paths=tuple(paths),
        images=np.stack([pixels(number) for number in range(first)]),
        codes=np.array([codes(number) for number in range(first)], np.int64),
        ids=tuple(image_id(number) for number in range(first)),
    )


def write_shard(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(frame_record(each) for each in records))
    return path


def pixels(number: int, height: int = HEIGHT, width: int = WIDTH, samples: int = 3) -> NDArray[np.uint8]:
    """uint8 [H, W, S]: noise that is this record's own."""
    return np.random.default_rng(number).integers(0, 256, (height, width, samples), np.uint8)


def codes(number: int) -> list[int]:
    """MAX_LEN codes below NUM_CLASSES that tell records apart: the number's digits, plus 1."""
    return [int(digit) + 1 for digit in f"{number:0{MAX_LEN}d}"]


def image_id(number: int) -> str:
    return f"line-{number:04d}"


def record(number: int, changes: Mapping[str, Value] | None = None, without: Sequence[str] = ()) -> bytes:
    """The serialized Example ``number``, with some of its features other or left out."""
    values: dict[str, Value] = {
        "image": encode_png(pixels(number)),
        "some_text": codes(number),
        "image_id": image_id(number).encode(),
        **(changes or {}),
    }
    return encode_example({name: feature(value) for name, value in values.items() if name not in without})


def feature(value: Value) -> bytes:
    """A Feature message of the kind that ``value`` is."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return bytes_feature([value])
    if value and isinstance(value[0], bytes):
        return bytes_feature(value)
    if value and isinstance(value[0], float):
        packed = struct.pack(f"<{len(value)}f", *value)
        # Field 2 of Feature is the float_list, field 1 of that its packed values.
        return b"\x12" + bytes([len(packed) + 2]) + b"\x0a" + bytes([len(packed)]) + packed
    return int64_feature(value)


def config(data: Path | str | Sequence[str], loader: str, **changes: Any) -> LoaderConfig:
    """A small batch and an explicit number of classes; all else by default."""
    patterns = (str(data),) if isinstance(data, Path | str) else tuple(data)
    return LoaderConfig(
        data=patterns,
        loader=loader,
        **{"batch_size": 16, "num_classes": NUM_CLASSES, **changes},
    )


def open_loader(data: Path | str | Sequence[str], loader: str, **changes: Any) -> Any:
    """make_loader of ``config(data, loader, **changes)``."""
    return make_loader(config(data, loader, **changes))


def collect(dataset: Any, batches: int | None = None) -> tuple[NDArray[Any], ...]:
    """The parts of a dataset's elements, [batches, B, ...] each."""
    elements = list(dataset if batches is None else dataset.take(batches))
    return tuple(np.stack([part.numpy() for part in parts]) for parts in zip(*elements, strict=True))


def ids_of(image_ids: NDArray[np.uint8], valid: NDArray[np.bool_] | None = None) -> list[str]:
    """The ids of [..., N] zero-padded bytes, of the valid rows only where ``valid`` [...] is given."""
    rows = image_ids.reshape(-1, image_ids.shape[-1])
    if valid is not None:
        rows = rows[valid.reshape(-1)]
    return [row.tobytes().rstrip(b"\0").decode() for row in rows]
