"""Records, shards and PNG files for the tests; each flaw that one of them can have is one argument away.

Shapes: H height, W width, S samples a pixel, as the PNG's colour type says.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
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


# PNG, after the specification's third edition, sections 5, 7 and 9.

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def encode_png(  # noqa: PLR0913 -- the parts of a PNG file
    samples_HWS: NDArray[Any],
    *,
    color_type: int = 2,
    bit_depth: int = 8,
    filters: Sequence[int] = (0,),
    interlaced: bool = False,
    palette: bytes = b"",
    before_pixels: bytes = b"",
    idat_bytes: int = 1 << 30,
    header_size: tuple[int, int] | None = None,
    rewrite: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """A PNG file of ``samples_HWS``; the rows take the ``filters`` in turn.

    ``before_pixels`` are whole chunks, ``header_size`` (height, width) is a lie in the
    header, and ``rewrite`` changes the filtered rows before they are compressed.
    """
    height, width, _ = samples_HWS.shape
    raw = b"".join(
        _filtered_rows(samples_HWS[y::y_step, x::x_step], bit_depth, filters)
        for x, y, x_step, y_step in (ADAM7 if interlaced else ((0, 0, 1, 1),))
    )
    stream = zlib.compress(rewrite(raw))
    said_height, said_width = header_size or (height, width)
    header = struct.pack(">IIBBBBB", said_width, said_height, bit_depth, color_type, 0, 0, interlaced)
    return b"".join(
        (
            SIGNATURE,
            chunk(b"IHDR", header),
            before_pixels,
            chunk(b"PLTE", palette) if palette else b"",
            *(
                chunk(b"IDAT", stream[begin : begin + idat_bytes])
                for begin in range(0, len(stream), idat_bytes)
            ),
            chunk(b"IEND", b""),
        )
    )


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def chunks_of(png: bytes) -> list[tuple[bytes, bytes]]:
    """Type and body of each chunk of a sound PNG file."""
    found = []
    offset = len(SIGNATURE)
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        found.append((kind, png[offset + 8 : offset + 8 + length]))
        offset += 12 + length
    return found


def join_chunks(chunks: Iterable[tuple[bytes, bytes]]) -> bytes:
    return SIGNATURE + b"".join(chunk(kind, body) for kind, body in chunks)


def odd_pngs(height: int = HEIGHT, width: int = WIDTH) -> dict[str, bytes]:
    """Every kind of PNG that the standard allows, by what it is; 16 bits left out.

    Decoders may round 16 bits to 8 in two ways; the cases have those.
    """
    found = {}
    for color_type, depths in COLOR_TYPES.items():
        for depth in depths[: None if color_type in (0, 3) else 1]:
            if depth == 16:
                continue
            for interlaced in (False, True):
                noise = np.random.default_rng(depth).integers(
                    0, 1 << depth, (height, width, SAMPLES[color_type]), np.uint16
                )
                palette = np.random.default_rng(7).bytes(3 << depth) if color_type == 3 else b""
                name = f"type {color_type}, {depth} bits{', interlaced' if interlaced else ''}"
                found[name] = encode_png(
                    noise,
                    color_type=color_type,
                    bit_depth=depth,
                    filters=(0, 1, 2, 3, 4),
                    interlaced=interlaced,
                    palette=palette,
                )
    return found


def _filtered_rows(samples_HWS: NDArray[Any], bit_depth: int, filters: Sequence[int]) -> bytes:
    """The rows of one pass, each behind its filter's number; nothing for an empty pass."""
    height, width, samples = samples_HWS.shape
    if not height or not width:
        return b""
    if bit_depth == 16:
        rows = samples_HWS.astype(">u2").tobytes()
        row_bytes = width * samples * 2
    elif bit_depth == 8:
        rows = samples_HWS.astype(np.uint8).tobytes()
        row_bytes = width * samples
    else:
        bits = (samples_HWS.reshape(height, -1, 1) >> np.arange(bit_depth - 1, -1, -1)) & 1
        packed = np.packbits(bits.reshape(height, -1).astype(np.uint8), axis=1)
        rows, row_bytes = packed.tobytes(), packed.shape[1]
    step = max(1, samples * bit_depth // 8)
    above = bytes(row_bytes)
    out = []
    for number in range(height):
        row = rows[number * row_bytes : (number + 1) * row_bytes]
        method = filters[number % len(filters)]
        out.append(bytes([method]) + _filter(method, row, above, step))
        above = row
    return b"".join(out)


def _filter(method: int, row: bytes, above: bytes, step: int) -> bytes:
    a = np.frombuffer(bytes(step) + row[:-step] if len(row) > step else bytes(len(row)), np.uint8).astype(int)
    b = np.frombuffer(above, np.uint8).astype(int)
    c = np.frombuffer(bytes(step) + above[:-step] if len(row) > step else bytes(len(row)), np.uint8)
    c = c.astype(int)
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    paeth = np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
    predicted = (0 * a, a, b, (a + b) // 2, paeth)[method]
    return ((np.frombuffer(row, np.uint8) - predicted) % 256).astype(np.uint8).tobytes()
