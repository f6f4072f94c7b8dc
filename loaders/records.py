"""The framing of TFRecord files: 8 bytes length, 4 bytes its masked CRC32C, the
record, 4 bytes the record's masked CRC32C; all little-endian.

Source: the comment in tensorflow/core/lib/io/record_writer.h.
Nothing here trusts a length before it was compared with the file's size, and
nothing maps the file, so that a shard that shrinks meanwhile cannot kill the process.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

_MASK_DELTA = 0xA282EAD8


class ShardError(ValueError):
    """A shard whose bytes are not what they must be; the sentence names file and place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Where one record lies in its shard."""

    record: int
    """Number of the record in the shard, from 0."""
    offset: int
    """Byte at which the frame (the 12-byte header) begins."""
    length: int
    """Bytes of the record itself; the frame takes 16 more."""

    @property
    def size(self) -> int:
        """Bytes of the whole frame, as a DALI index counts them."""
        return self.length + FRAME_BYTES


def masked_crc(data: bytes) -> int:
    """CRC32C of ``data``, rotated and offset as TFRecord files store it (32 bits)."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame_record(record: bytes) -> bytes:
    """``record`` with the header and footer that a TFRecord file puts around it."""
    length = struct.pack("<Q", len(record))
    return b"".join(
        (length, struct.pack("<I", masked_crc(length)), record, struct.pack("<I", masked_crc(record)))
    )


def read_frames(path: str) -> Iterator[Frame]:
    """Walk the headers of a shard, without reading its records.

    Errors: ShardError that names the file, the record and the byte when a
    header's checksum is wrong or a record ends after the file does.
    """
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        file_bytes = os.fstat(descriptor).st_size
        offset = record = 0
        while offset < file_bytes:
            header = _pread(file, HEADER_BYTES, offset)
            frame = _parse_header(header, path=path, record=record, offset=offset, file_bytes=file_bytes)
            yield frame
            offset += frame.size
            record += 1


def read_records(path: str) -> Iterator[tuple[Frame, bytes]]:
    """Walk a shard and give each record's bytes, both checksums verified.

    Errors: as ``read_frames``, and ShardError for a record whose own checksum is wrong.
    """
    with open(path, "rb", buffering=1 << 20) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        offset = record = 0
        while offset < file_bytes:
            header = file.read(HEADER_BYTES)
            frame = _parse_header(header, path=path, record=record, offset=offset, file_bytes=file_bytes)
            data = file.read(frame.length)
            footer = file.read(FOOTER_BYTES)
            check_footer(data, footer, path=path, frame=frame)
            yield frame, data
            offset += frame.size
            record += 1


def check_footer(data: bytes, footer: bytes, *, path: str, frame: Frame) -> None:
    """Raise ShardError unless ``footer`` (4 bytes) is the masked CRC32C of ``data``."""
    if len(footer) != FOOTER_BYTES:
        raise ShardError(f"{path}: the file ends inside record {frame.record} at byte {frame.offset}")
    if struct.unpack("<I", footer)[0] != masked_crc(data):
        raise ShardError(
            f"{path}: record {frame.record} at byte {frame.offset}: "
            f"the checksum of its {frame.length} bytes is wrong"
        )


def _parse_header(header: bytes, *, path: str, record: int, offset: int, file_bytes: int) -> Frame:
    if len(header) < HEADER_BYTES:
        if record == 0:
            raise ShardError(f"{path}: is no TFRecord file ({file_bytes} bytes)")
        raise ShardError(
            f"{path}: the file ends inside record {record} at byte {offset}, "
            f"{len(header)} bytes into its 12-byte header ({record} records before it are sound)"
        )
    length, length_crc = struct.unpack("<QI", header)
    if length_crc != masked_crc(header[:8]):
        if record == 0:
            raise ShardError(f"{path}: is no TFRecord file{_looks_like(path)}")
        raise ShardError(f"{path}: record {record} at byte {offset}: the checksum of its length is wrong")
    if offset + FRAME_BYTES + length > file_bytes:
        raise ShardError(
            f"{path}: the file ends inside record {record} at byte {offset}: its header says "
            f"{length} bytes, {max(0, file_bytes - offset - HEADER_BYTES)} are there "
            f"({record} records before it are sound)"
        )
    return Frame(record=record, offset=offset, length=length)


def _looks_like(path: str) -> str:
    """What a file that is no TFRecord seems to be, from its first bytes; '' if unknown."""
    with open(path, "rb") as file:
        head = file.read(64)
    known = (
        (b"\x1f\x8b", "it is GZIP-compressed; decompress it first"),
        (b"version https://git-lfs", "it is a Git LFS pointer; run `git lfs pull`"),
        (b"\x89PNG", "it is a PNG; pack a folder of them with tools/make_dataset.py --from-folder"),
        (b"\xff\xd8\xff", "it is a JPEG"),
        (b"PK\x03\x04", "it is a ZIP archive"),
        (b"ARRAY_RECORD", "it is an ArrayRecord file"),
    )
    for magic, words in known:
        if head.startswith(magic):
            return f": {words}"
    if head and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head):
        return ": it is a text file"
    return ": the checksum of its first length is wrong"


def _pread(file: object, count: int, offset: int) -> bytes:
    # os.pread does not exist on Windows.
    file.seek(offset)  # type: ignore[attr-defined]
    return file.read(count)  # type: ignore[attr-defined,no-any-return]
