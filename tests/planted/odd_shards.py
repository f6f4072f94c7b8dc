"""The makers of unusual shards: uneven, tiny, heavy, compressed, padded with what nobody reads, slow.

Each maker fills the empty folder it is given; ``MAKERS`` says under which name. The plain
twin of an odd set (the same records, well laid out) is made here too, so that nothing but
the layout differs between the two.

Shapes: H height, W width, C channels.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loaders import writer
from loaders.records import frame_record
from loaders.writer import encode_example
from tests.data import feature
from tests.pngs import encode_png

SCAN_SIDE = 96
SCANS = 1200
SCAN_CLASSES = 10

Maker = Callable[[Path], None]


def scans_even(folder: Path) -> None:
    """The scans in 8 shards of one size."""
    _write_scans(folder, [SCANS // 8] * 8)


def scans_uneven(folder: Path) -> None:
    """The same scans: one shard holds nine in ten, eleven others the rest."""
    _write_scans(folder, [SCANS - 11 * 10, *[10] * 11])


def scans_one_heavy(folder: Path) -> None:
    """4 shards of 48 scans; those of the first have 30 times the pixels of the others."""
    sides = (528, SCAN_SIDE, SCAN_SIDE, SCAN_SIDE)
    for shard, side in enumerate(sides):
        numbers = range(shard * 48, shard * 48 + 48)
        _write(folder, shard, len(sides), [scan(number, side) for number in numbers])


def notes_tiny(folder: Path) -> None:
    """600 shards of 2 short texts each."""
    _write_notes(folder, [2] * 600)


def notes_few(folder: Path) -> None:
    """The same texts in 4 shards."""
    _write_notes(folder, [300] * 4)


def spectra_gzip(folder: Path) -> None:
    """4 shards of 160 spectra (8192 float32, 32 KB), GZIP as a whole."""
    for shard in range(4):
        frames = b"".join(frame_record(spectrum(number)) for number in range(shard * 160, shard * 160 + 160))
        (folder / f"spectra-{shard}.tfrecord.gz").write_bytes(gzip.compress(frames, compresslevel=6))


def visits_wide(folder: Path) -> None:
    """4 shards of 96 records whose ``preview`` of 256 KB is 300 times as large as all else."""
    _write_visits(folder, preview_bytes=256 * 1024)


def visits_slim(folder: Path) -> None:
    """The same records without their previews."""
    _write_visits(folder, preview_bytes=0)


def remote(folder: Path) -> None:
    """16 shards of 24 blocks of 32 KB, and the library that makes reads of them slow.

    A program that runs with the library in LD_PRELOAD and this folder's real path in
    THROTTLED_FOLDER sees it as a network file system: each read takes 4 ms and 20 ns a byte
    (50 MB/s), while reads through other descriptors go on. What waits is the thread that
    reads, in C, as with a true one.

    Where there is no gcc, the library is left out.
    """
    for shard in range(16):
        _write(folder, shard, 16, [block(number) for number in range(shard * 24, shard * 24 + 24)])
    source = folder / "throttle.c"
    source.write_text(THROTTLE)
    if shutil.which("gcc") is None:
        return
    command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(folder / "throttle.so"), str(source), "-ldl"]
    subprocess.run(command, check=True)


MAKERS: dict[str, Maker] = {
    "scans": scans_even,
    "scans-uneven": scans_uneven,
    "scans-one-heavy": scans_one_heavy,
    "notes-tiny": notes_tiny,
    "notes": notes_few,
    "spectra-gzip": spectra_gzip,
    "visits-wide": visits_wide,
    "visits": visits_slim,
    "remote": remote,
}
"""Name of the data set, and what makes it."""


def scan(number: int, side: int = SCAN_SIDE) -> bytes:
    """An Example of ``image`` (PNG, side x side x 3), ``label`` (below SCAN_CLASSES) and ``name``."""
    values = {
        "image": [encode_png(pixels_HWC(number, side))],
        "label": [number % SCAN_CLASSES],
        "name": [f"scan-{number:05d}".encode()],
    }
    return encode_example({name: feature(value) for name, value in values.items()})


def pixels_HWC(number: int, side: int) -> NDArray[np.uint8]:
    """uint8 [side, side, 3]: soft patches with a little grain, as a photograph compresses."""
    rng = np.random.default_rng(number)
    patches = rng.integers(0, 240, (side // 12, side // 12, 3), np.uint8)
    return np.kron(patches, np.ones((12, 12, 1), np.uint8)) + rng.integers(0, 16, (side, side, 3), np.uint8)


def note(number: int) -> bytes:
    """An Example of ``text`` (400 bytes) and ``label``."""
    text = np.random.default_rng(number).integers(97, 123, 400, np.uint8).tobytes()
    return encode_example({"text": feature(text), "label": feature([number % 7])})


def spectrum(number: int) -> bytes:
    """An Example of ``signal``: 8192 float32 of 12 random bits each, so that GZIP finds something, literal by
    literal."""
    signal = (np.random.default_rng(number).integers(0, 4096, 8192) / 64).astype(np.float32)
    return encode_example({"signal": feature(signal.tobytes()), "label": feature([number % 5])})


def block(number: int) -> bytes:
    """An Example of ``block``: 32 KB that nothing compresses."""
    return encode_example({"block": feature(np.random.default_rng(number).bytes(32 * 1024))})


def visit(number: int, preview_bytes: int) -> bytes:
    """An Example of ``clicks`` (64 numbers), ``bought`` and, where it has a size, ``preview``."""
    rng = np.random.default_rng(number)
    features = {
        "clicks": feature([int(each) for each in rng.integers(0, 5000, 64)]),
        "bought": feature([number % 2]),
    }
    if preview_bytes:
        features["preview"] = feature(rng.bytes(preview_bytes))
    return encode_example(features)


def _write_scans(folder: Path, counts: Sequence[int]) -> None:
    first = 0
    for shard, count in enumerate(counts):
        _write(folder, shard, len(counts), (scan(number) for number in range(first, first + count)))
        first += count


def _write_notes(folder: Path, counts: Sequence[int]) -> None:
    first = 0
    for shard, count in enumerate(counts):
        # Without the index and the flush to disk of a set that someone keeps.
        frames = b"".join(frame_record(note(number)) for number in range(first, first + count))
        (folder / f"notes-{shard:04d}.tfrecord").write_bytes(frames)
        first += count


def _write_visits(folder: Path, preview_bytes: int) -> None:
    for shard in range(4):
        numbers = range(shard * 96, shard * 96 + 96)
        _write(folder, shard, 4, (visit(number, preview_bytes) for number in numbers))


def _write(folder: Path, shard: int, shards: int, records: Iterable[bytes]) -> None:
    """A shard with its index."""
    writer.write_shard(folder / f"part-{shard:03d}-of-{shards:03d}.tfrecord", records)


THROTTLE = r"""
/* Reads below the folder $THROTTLED_FOLDER wait as those of a network file system do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define LATENCY_NS 4000000L
#define NS_PER_BYTE 20L

static int is_throttled(int fd) {
  const char *folder = getenv("THROTTLED_FOLDER");
  char link[64], path[PATH_MAX];
  if (folder == NULL) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  size_t prefix = strlen(folder);
  return strncmp(path, folder, prefix) == 0 && path[prefix] == '/';
}

static void wait_for(ssize_t bytes) {
  long ns = LATENCY_NS + (bytes > 0 ? bytes * NS_PER_BYTE : 0);
  struct timespec time = {ns / 1000000000L, ns % 1000000000L};
  nanosleep(&time, NULL);
}

#define THROTTLED(name, arguments, call)                              \
  ssize_t name arguments {                                            \
    static ssize_t(*real) arguments;                                  \
    if (real == NULL) real = (ssize_t(*) arguments)dlsym(RTLD_NEXT, #name); \
    ssize_t bytes = real call;                                        \
    if (is_throttled(fd)) wait_for(bytes);                            \
    return bytes;                                                     \
  }

THROTTLED(read, (int fd, void *buffer, size_t count), (fd, buffer, count))
THROTTLED(pread, (int fd, void *buffer, size_t count, off_t offset), (fd, buffer, count, offset))
THROTTLED(pread64, (int fd, void *buffer, size_t count, off_t offset), (fd, buffer, count, offset))
"""
