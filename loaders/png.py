"""What can be said of a PNG file without decoding it: its header, and whether its data is whole.

Source: the PNG specification, third edition, sections 5 (datastream), 8.1 (Adam7), 9 (filters)
and 11 (chunks).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Colour type to the bit depths that the standard allows (PNG, third edition, table 11.1)."""

_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type to samples a pixel."""

_BACKGROUND_BYTES = {0: 2, 2: 6, 3: 1, 4: 2, 6: 6}
"""Colour type to the length of a bKGD chunk (section 11.3.4.1)."""

_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column, first row, column step, row step of each pass of an interlaced image."""

_SPARE_BYTES = 1 << 16
"""Inflated at a time behind the last row, so that a bomb there takes no memory."""
_FILTERS = b"\x00\x01\x02\x03\x04"
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")

_OTHER_FILES = (
    (b"\xff\xd8\xff", "a JPEG"),
    (b"GIF8", "a GIF"),
    (b"BM", "a BMP"),
    (b"RIFF", "a WebP or another RIFF file"),
    (b"II*\x00", "a TIFF"),
    (b"MM\x00*", "a TIFF"),
    (b"\x00\x00\x00\x0cjP", "a JPEG 2000"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PngHeader:
    """What the IHDR chunk says."""

    width: int
    height: int
    bit_depth: int
    color_type: int
    """0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha."""
    interlaced: bool


def read_header(data: bytes) -> PngHeader:
    """The header of the PNG file ``data`` (its first 33 bytes are enough).

    Errors: ValueError whose words go on after "the image ", such as "is empty (0 bytes)".
    """
    if not data:
        raise ValueError("is empty (0 bytes)")
    if not data.startswith(SIGNATURE):
        kind = next((f"it is {name}" for magic, name in _OTHER_FILES if data.startswith(magic)), None)
        raise ValueError(f"is no PNG file: {kind or f'it begins with {data[:8]!r}'}")
    if len(data) < 33:
        raise ValueError(f"is cut off: its header takes 33 bytes, {len(data)} are there")
    length, chunk = struct.unpack(">I4s", data[8:16])
    if chunk != b"IHDR" or length != 13:
        raise ValueError(f"is damaged: the first chunk must be IHDR of 13 bytes, not {chunk!r} of {length}")
    width, height, depth, color_type, compression, filters, interlace = struct.unpack(">IIBBBBB", data[16:29])
    if not (0 < width < 2**31 and 0 < height < 2**31):
        raise ValueError(f"is damaged: its header says {height} x {width} pixels (height x width)")
    if depth not in _DEPTHS.get(color_type, ()):
        raise ValueError(f"is damaged: colour type {color_type} with {depth} bits is not allowed")
    if compression or filters or interlace > 1:
        raise ValueError("is damaged: its header names an unknown compression, filter or interlace method")
    return PngHeader(
        width=width, height=height, bit_depth=depth, color_type=color_type, interlaced=bool(interlace)
    )


def check_png(data: bytes, header: PngHeader) -> None:
    """Check that the image data of a PNG is whole: chunks, checksums, inflated size, filters.

    The caller has compared ``header`` with the size it expects: that bounds the memory
    (the inflated rows).
    Errors: ValueError whose words go on after "the image ".
    """
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    for kind in (b"IHDR", b"PLTE"):
        if kinds.count(kind) > 1:
            raise ValueError(f"is damaged: it has more than one {_name(kind)} chunk")
    pixels = kinds.index(b"IDAT") if b"IDAT" in kinds else len(kinds)
    behind = pixels + kinds.count(b"IDAT")
    if kinds[pixels:behind] != [b"IDAT"] * (behind - pixels):
        raise ValueError("is damaged: another chunk stands between its IDAT chunks")
    _check_palette(header, chunks[:pixels])
    _check_hints(header, chunks[:pixels], frames=kinds.count(b"fcTL"))
    rows = _row_bytes(header)
    expected = sum(count * (1 + size) for count, size in rows)
    stream = b"".join(body for _, body in chunks[pixels:behind])
    _check_filters(_inflate(stream, expected), rows)


def _check_palette(header: PngHeader, before_pixels: list[tuple[bytes, bytes]]) -> None:
    palette = dict(before_pixels).get(b"PLTE")
    if palette is None:
        if header.color_type == 3:
            raise ValueError("is damaged: it has palette colours and no palette (PLTE) before its pixels")
        return
    # Where the pixels are no indexes, a palette is a hint, which decoders pass over unless it is empty.
    indexed, hint = header.color_type == 3, header.color_type in (2, 6)
    if (indexed and (len(palette) % 3 or not 3 <= len(palette) <= 3 * 256)) or (hint and not palette):
        raise ValueError(f"is damaged: a palette holds 1 to 256 colours of 3 bytes: {len(palette)} bytes")


def _check_hints(header: PngHeader, before_pixels: list[tuple[bytes, bytes]], frames: int) -> None:
    """Chunks that libpng passes over when they are wrong, and DALI's decoder does not.

    It fails on them, or gives a frame of a broken animation instead of the image.
    """
    whole_image = struct.pack(">IIII", header.width, header.height, 0, 0)
    for kind, body in before_pixels:
        if kind == b"bKGD" and len(body) != _BACKGROUND_BYTES[header.color_type]:
            raise ValueError(f"is damaged: its background chunk (bKGD) has {len(body)} bytes")
        if kind == b"acTL" and (len(body) != 8 or struct.unpack(">I", body[:4]) != (frames,) or not frames):
            raise ValueError("is damaged: its animation chunk (acTL) does not fit its frames")
        if kind == b"fcTL" and (len(body) != 26 or body[4:20] != whole_image):
            raise ValueError("is damaged: its first animation frame (fcTL) is not the whole image")


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and body of each chunk up to IEND; what stands behind IEND is nobody's."""
    offset = len(SIGNATURE)
    while True:
        if offset + 12 > len(data):
            raise ValueError(f"is cut off: it ends at byte {len(data)} without an IEND chunk")
        length, kind = struct.unpack_from(">I4s", data, offset)
        end = offset + 8 + length
        if not kind.isalpha() or not kind[2:3].isupper():
            raise ValueError(f"is damaged: no chunk can have the name {kind!r} (at byte {offset})")
        if end + 4 > len(data):
            raise ValueError(f"is cut off: it ends at byte {len(data)}, inside its {_name(kind)} chunk")
        # A decoder may pass over an unknown chunk whose name begins with a small letter, and
        # over a wrong checksum in it.
        if kind[:1].isupper():
            if kind not in _CRITICAL:
                raise ValueError(f"needs the chunk {_name(kind)}, which is no part of the standard")
            (stored,) = struct.unpack_from(">I", data, end)
            if stored != zlib.crc32(memoryview(data)[offset + 4 : end]):
                raise ValueError(
                    f"is damaged: the checksum of its {_name(kind)} chunk at byte {offset} is wrong"
                )
        if kind == b"IEND":
            return
        yield kind, data[offset + 8 : end]
        offset = end + 4


def _name(kind: bytes) -> str:
    return kind.decode("ascii", "backslashreplace")


def _row_bytes(header: PngHeader) -> list[tuple[int, int]]:
    """(rows, bytes of a row without its filter byte) of each pass; one pass unless interlaced."""
    bits = _SAMPLES[header.color_type] * header.bit_depth
    passes = _ADAM7 if header.interlaced else ((0, 0, 1, 1),)
    rows = []
    for x, y, x_step, y_step in passes:
        columns = max(0, -(-(header.width - x) // x_step))
        if columns:
            rows.append((max(0, -(-(header.height - y) // y_step)), -(-columns * bits // 8)))
    return rows


def _inflate(stream: bytes, expected: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # Room for one byte more, so that the stream's own checksum is reached and compared.
        raw = inflater.decompress(stream, expected + 1)
        # Decoders pass over bytes behind the last row, but not over a stream without an end.
        while not inflater.eof and inflater.decompress(inflater.unconsumed_tail, _SPARE_BYTES):
            pass
    except zlib.error as error:
        raise ValueError(f"is damaged: its pixels can't be inflated ({error})") from None
    if len(raw) < expected:
        raise ValueError(f"has too few rows: {expected} bytes of pixels are needed, {len(raw)} are there")
    if not inflater.eof:
        raise ValueError("is cut off: its compressed pixels have no end")
    return raw


def _check_filters(raw: bytes, rows: list[tuple[int, int]]) -> None:
    begin = 0
    for count, size in rows:
        end = begin + count * (1 + size)
        wrong = raw[begin : end : 1 + size].translate(None, _FILTERS)
        if wrong:
            raise ValueError(f"is damaged: a row names filter {wrong[0]}; there are 0 to 4")
        begin = end
