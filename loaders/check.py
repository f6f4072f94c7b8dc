"""What a record must be before any backend may read it.

DALI checks neither checksums nor the length or type of a feature (a short list gives
uninitialised memory), and tf.data names no record when something fails. So every shard
is checked once, on its first use, by the same rules for both; what was found sound is
remembered in the user's cache folder for as long as the file does not change.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from loaders import example, png, records
from loaders.atomic import write_beside
from loaders.config import LoaderConfig
from loaders.example import Kind, parse_example
from loaders.index import Index, index_of
from loaders.png import check_png, read_header
from loaders.records import FRAME_BYTES, Frame, ShardError, read_records
from loaders.shards import Shard
from loaders.spec import MAX_CODES, Schema

log = logging.getLogger(__name__)

_SAY_EVERY_S = 2.0
"""A check that takes longer than this says how far it is."""
_WINDOW_RECORDS = 256
"""Records held in memory at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What every record must satisfy."""

    schema: Schema
    target_dtype: str
    id_bytes: int
    needed: tuple[str, ...]
    """Features that may not be absent, besides the image, which never may."""

    @classmethod
    def of(cls, config: LoaderConfig, schema: Schema) -> Rules:
        optional = (schema.target_feature, *((schema.id_feature,) if schema.id_feature else ()))
        return cls(
            schema=schema,
            target_dtype=config.target_dtype,
            id_bytes=config.id_bytes,
            needed=optional if config.missing == "error" else (),
        )


def check_shards(shards: Sequence[Shard], rules: Rules) -> list[Index]:
    """Check every record of every shard that was not found sound before; the shards' indexes.

    Errors: ValueError that names shard, record, feature, rule and value; OSError.
    """
    indexes = [_recall(shard, rules) for shard in shards]
    unknown = [number for number, index in enumerate(indexes) if index is None]
    said = time.monotonic()
    for done, number in enumerate(unknown):
        index = _check_shard(shards[number], rules)
        _remember(shards[number], rules, index)
        indexes[number] = index
        if time.monotonic() - said > _SAY_EVERY_S:
            log.info("checking the records before their first use: %d of %d shards", done + 1, len(unknown))
            said = time.monotonic()
    return [index for index in indexes if index is not None]


def scan_shards(shards: Sequence[Shard]) -> list[Index]:
    """The shards' indexes from their record headers alone, for data that is trusted."""
    return [index_of(shard.path) for shard in shards]


def check_record(record: bytes, rules: Rules) -> str | None:
    """Why ``record`` (a serialized Example) can't be used, or None when it can."""
    try:
        features = parse_example(record)
        _check_image(features, rules.schema)
        _check_target(features, rules)
        if rules.schema.id_feature is not None:
            _check_id(features, rules)
    except ValueError as error:
        return str(error)
    return None


def find_bad_record(shards: Sequence[Shard], rules: Rules, decode: Callable[[bytes], object]) -> str | None:
    """The first record that breaks a rule or that ``decode`` (of the PNG's bytes) refuses.

    For the moment after a backend failed, to name what it choked on: "shard: record n ...",
    or None when every record is sound.
    """

    def reason(record: bytes) -> str | None:
        broken = check_record(record, rules)
        if broken is None:
            image = parse_example(record)[rules.schema.image_feature][1][0]
            try:
                decode(image)
            except Exception as error:
                words = str(error).strip() or type(error).__name__
                broken = (
                    f"feature {rules.schema.image_feature!r}: the PNG can't be decoded: "
                    f"{words.splitlines()[0]}"
                )
        return broken

    for shard in shards:
        for frame, broken in _map_records(shard, reason):
            if broken is not None:
                return _sentence(shard, frame, broken)
    return None


def _check_shard(shard: Shard, rules: Rules) -> Index:
    pairs = []
    for frame, broken in _map_records(shard, lambda record: check_record(record, rules)):
        if broken is not None:
            raise ShardError(_sentence(shard, frame, broken))
        pairs.append((frame.offset, frame.size))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _map_records(shard: Shard, reason: Callable[[bytes], str | None]) -> Iterator[tuple[Frame, str | None]]:
    """Each record's frame and what ``reason`` says of it, in order, on all cores.

    Inflating and checksums run outside of Python's lock, so threads are enough.
    """
    framed = read_records(shard.path)
    with ThreadPoolExecutor() as pool:
        # A window at a time, so that memory stays bounded whatever the shard's size.
        while window := list(islice(framed, _WINDOW_RECORDS)):
            frames = [frame for frame, _ in window]
            yield from zip(frames, pool.map(reason, (record for _, record in window)), strict=True)


def _sentence(shard: Shard, frame: Frame, broken: str) -> str:
    return f"{shard.path}: record {frame.record} at byte {frame.offset}: {broken}"


Features = dict[str, tuple[Kind, Sequence[Any]]]


def _check_image(features: Features, schema: Schema) -> None:
    name = schema.image_feature
    if name not in features:
        raise ValueError(f"feature {name!r} is missing{_there(features)}")
    (image,) = _values(features, name, "bytes_list", 1)
    raw_bytes = schema.height * schema.width * schema.channels
    try:
        header = read_header(image)
    except ValueError as error:
        hint = " (as many bytes as raw pixels: they must be PNG files)" if len(image) == raw_bytes else ""
        raise ValueError(f"feature {name!r}: the image {error}{hint}") from None
    if (header.height, header.width) != (schema.height, schema.width):
        raise ValueError(
            f"feature {name!r}: the image must be {schema.height} x {schema.width} pixels (height x width): "
            f"{header.height} x {header.width}"
        )
    try:
        check_png(image, header)
    except ValueError as error:
        raise ValueError(f"feature {name!r}: the image {error}") from None


def _check_target(features: Features, rules: Rules) -> None:
    schema, name = rules.schema, rules.schema.target_feature
    if name not in features:
        if name in rules.needed:
            raise ValueError(f"feature {name!r} is missing{_there(features)}")
        return
    codes = _values(features, name, "int64_list", schema.max_len, " (--max-len)")
    limit = min(schema.num_classes, MAX_CODES[rules.target_dtype])
    for code in codes:
        if not 0 <= code < limit:
            which = "--num-classes" if limit == schema.num_classes else f"--target-dtype {rules.target_dtype}"
            raise ValueError(f"feature {name!r}: a code must be from 0 to {limit - 1} ({which}): {code}")


def _check_id(features: Features, rules: Rules) -> None:
    name = rules.schema.id_feature
    assert name is not None
    if name not in features:
        if name in rules.needed:
            raise ValueError(f"feature {name!r} is missing{_there(features)}")
        return
    (image_id,) = _values(features, name, "bytes_list", 1)
    if len(image_id) > rules.id_bytes:
        raise ValueError(
            f"feature {name!r}: an id may have {rules.id_bytes} bytes (--id-bytes): {len(image_id)}"
        )


def _values(features: Features, name: str, kind: Kind, count: int, flag: str = "") -> Sequence[Any]:
    stored, values = features[name]
    if stored != kind:
        held = stored or "no value"
        raise ValueError(f"feature {name!r} must be a {kind}: it is {'a ' if stored else ''}{held}")
    if len(values) != count:
        raise ValueError(f"feature {name!r} must hold {count} values{flag}: {len(values)}")
    return values


def _there(features: Features) -> str:
    return f"; there are {', '.join(map(repr, sorted(features)))}" if features else "; the record has none"


def _recall(shard: Shard, rules: Rules) -> Index | None:
    """The index of a shard that was found sound before and has not changed since."""
    try:
        # Plain numbers: a format with a header of its own could be damaged in more ways.
        stored = np.frombuffer(_memory_path(shard, rules).read_bytes(), "<i8")
        index = stored.astype(np.int64).reshape(-1, 2)
    except (OSError, ValueError):
        return None
    offsets, sizes = index.T
    # Frames fill a file without a gap, or the remembered index is not this file's.
    sound = bool((sizes >= FRAME_BYTES).all()) and int(sizes.sum()) == shard.size
    return index if sound and np.array_equal(offsets, np.cumsum(sizes) - sizes) else None


def _remember(shard: Shard, rules: Rules, index: Index) -> None:
    path = _memory_path(shard, rules)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_beside(path) as file:
            file.write(index.astype("<i8").tobytes())
    except OSError:
        # No cache folder (a read-only home, a full disk): the check runs again next time.
        return


@cache
def _checker_version() -> str:
    """Changes with the code that checks, so that a new rule is applied to every shard again."""
    sources = (
        Path(str(module.__file__)).read_bytes() for module in (sys.modules[__name__], png, records, example)
    )
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _memory_path(shard: Shard, rules: Rules) -> Path:
    status = os.stat(shard.path)
    facts = {
        "path": os.path.realpath(shard.path),
        # ctime cannot be set back by a program, mtime can.
        "file": (status.st_size, status.st_mtime_ns, status.st_ctime_ns),
        "rules": asdict(rules),
        "checker": _checker_version(),
    }
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("feedline")) / "checked" / f"{name}.index"
