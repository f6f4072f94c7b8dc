"""What writes a shard: the tf.train.Example message, the framing, the index beside it.

The message is encoded here, without TensorFlow, and always to the same bytes: the
features by name, the numbers packed. Source of the field numbers:
tensorflow/core/example/{example,feature}.proto; of the encoding:
https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loaders.atomic import write_beside
from loaders.index import index_path, write_index
from loaders.records import frame_record
from loaders.spec import Schema

_LENGTH_DELIMITED = 2
_BYTES_LIST, _INT64_LIST = 1, 3


def bytes_feature(values: Sequence[bytes]) -> bytes:
    """A Feature message that holds a bytes_list."""
    return _field(_BYTES_LIST, b"".join(_field(1, value) for value in values))


def int64_feature(values: Sequence[int]) -> bytes:
    """A Feature message that holds an int64_list.

    Errors: ValueError for a number that 64 bits with a sign cannot hold.
    """
    for value in values:
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"an int64 feature must be from -2^63 to 2^63 - 1: {value}")
    # A negative number is written as its 64-bit two's complement, ten bytes long.
    packed = b"".join(_varint(value % 2**64) for value in values)
    return _field(_INT64_LIST, _field(1, packed) if values else b"")


def encode_example(features: Mapping[str, bytes]) -> bytes:
    """A tf.train.Example of features that ``bytes_feature`` and ``int64_feature`` made.

    Equal features give equal bytes, in whatever order they come.
    """
    entries = (
        _field(1, _field(1, name.encode("utf-8")) + _field(2, feature))
        for name, feature in sorted(features.items())
    )
    return _field(1, b"".join(entries))


def encode_record(schema: Schema, *, image: bytes, codes: Sequence[int], image_id: bytes) -> bytes:
    """The Example of one record under the names of ``schema``.

    ``image`` is a PNG file, ``codes`` has up to max_len codes and is padded with zeros here.

    Errors: ValueError for more codes than max_len, or a code outside of num_classes.
    """
    if len(codes) > schema.max_len:
        raise ValueError(f"a record must have at most max_len {schema.max_len} codes: {len(codes)}")
    wrong = next((code for code in codes if not 0 <= code < schema.num_classes), None)
    if wrong is not None:
        raise ValueError(f"a code must be from 0 to {schema.num_classes - 1}: {wrong}")
    padded = [*codes, *[0] * (schema.max_len - len(codes))]
    features = {schema.image_feature: bytes_feature([image]), schema.target_feature: int64_feature(padded)}
    if schema.id_feature is not None:
        features[schema.id_feature] = bytes_feature([image_id])
    return encode_example(features)


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenShard:
    """A shard as it lies on disk."""

    name: str
    """File name, without its folder."""
    records: int
    """How many records it holds."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Checksum of the whole file, in hexadecimal."""


def write_shard(path: Path, records: Iterable[bytes]) -> WrittenShard:
    """Write a shard and then its index, each whole or not at all.

    Errors: OSError that names the file; whatever ``records`` raises passes through.
    """
    index: list[tuple[int, int]] = []
    checksum = hashlib.sha256()
    offset = 0
    with write_beside(path) as file:
        for record in records:
            frame = frame_record(record)
            file.write(frame)
            checksum.update(frame)
            index.append((offset, len(frame)))
            offset += len(frame)
    write_index(index_path(str(path)), index)
    return WrittenShard(name=path.name, records=len(index), bytes=offset, sha256=checksum.hexdigest())


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: its tag, its length and ``payload``."""
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    """``value`` (0 to 2^64 - 1), seven bits a byte, the low ones first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
