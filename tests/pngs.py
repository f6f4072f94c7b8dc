"""PNG files for the tests: every kind that the standard allows, and damaged ones.

An encoder of its own, so that each part of a file can be chosen. After the PNG
specification, third edition, sections 5 (datastream), 8.1 (Adam7) and 9 (filters).

Shapes: H height, W width, S samples a pixel, as the colour type says.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def encode_png(
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


def odd_pngs(height: int, width: int) -> dict[str, bytes]:
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


CHUNK_NAMES = (
    *(b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD"),
    *(b"hIST", b"pHYs", b"tIME", b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"cICP", b"acTL", b"fcTL", b"fdAT"),
    *(b"XXXX", b"abCd", b"abcd", b"a1B2", b"\0\0\0\0", b"IdAT", b"idat", b"CgBI"),
)
"""Chunks of the standard, of nobody, and names that no chunk may have."""


def mutate_png(png: bytes, random: Random) -> bytes:
    """``png`` (a sound file) with one or two changes that somebody's software might have made.

    Most keep the checksums right, so that what they break is met behind them.
    """
    chunks = chunks_of(png)
    for _ in range(random.randint(1, 2)):
        if chunks:
            random.choice(_MUTATIONS)(chunks, random)
    mutated = bytearray(join_chunks(chunks))
    if random.random() < 0.1:
        mutated[random.randrange(len(mutated))] = random.randrange(256)
    if random.random() < 0.05:
        del mutated[random.randrange(len(mutated)) :]
    return bytes(mutated)


Chunks = list[tuple[bytes, bytes]]


def _drop(chunks: Chunks, random: Random) -> None:
    del chunks[random.randrange(len(chunks))]


def _double(chunks: Chunks, random: Random) -> None:
    chunks.insert(random.randrange(len(chunks) + 1), random.choice(chunks))


def _swap(chunks: Chunks, random: Random) -> None:
    first, second = random.randrange(len(chunks)), random.randrange(len(chunks))
    chunks[first], chunks[second] = chunks[second], chunks[first]


def _insert(chunks: Chunks, random: Random) -> None:
    body = random.randbytes(random.choice((0, 1, 2, 3, 4, 6, 8, 9, 13, 26, 32)))
    chunks.insert(random.randrange(len(chunks) + 1), (random.choice(CHUNK_NAMES), body))


def _change_byte(chunks: Chunks, random: Random) -> None:
    number = random.randrange(len(chunks))
    kind, body = chunks[number]
    if body:
        place = random.randrange(len(body))
        chunks[number] = (kind, body[:place] + random.randbytes(1) + body[place + 1 :])


def _cut(chunks: Chunks, random: Random) -> None:
    number = random.randrange(len(chunks))
    kind, body = chunks[number]
    chunks[number] = (kind, body[: random.randrange(len(body) + 1)])


def _lengthen(chunks: Chunks, random: Random) -> None:
    number = random.randrange(len(chunks))
    kind, body = chunks[number]
    chunks[number] = (kind, body + random.randbytes(3))


def _compress_other_rows(chunks: Chunks, random: Random) -> None:
    """The pixels compressed anew: another byte, fewer rows, more of them, or another end of the stream."""
    try:
        rows = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    except zlib.error:
        return
    end = random.randrange(len(rows) + 1)
    rows = random.choice(
        (rows, rows[:end], rows + rows[:end], rows[:end] + random.randbytes(1) + rows[end + 1 :])
    )
    stream = zlib.compress(rows, random.choice((0, 1, 9)))
    stream = random.choice(
        (stream, stream, stream[: -random.randint(1, 5)], stream[:-4] + random.randbytes(4))
    )
    chunks[:] = [each for each in chunks if each[0] != b"IDAT"]
    chunks.insert(max(0, len(chunks) - 1), (b"IDAT", stream))


_MUTATIONS = (_drop, _double, _swap, _insert, _insert, _change_byte, _cut, _lengthen, _compress_other_rows)
