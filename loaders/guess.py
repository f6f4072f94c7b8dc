"""The schema of shards: from the flags, else from dataset.json, else from the first records."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Any

from loaders.config import DataFlags
from loaders.example import parse_example
from loaders.png import SIGNATURE, read_header
from loaders.records import read_records
from loaders.shards import Shard
from loaders.spec import Schema

log = logging.getLogger(__name__)

DATASET_FILE = "dataset.json"
_RECORDS = 1000
"""Records that a guess looks at, spread over the shards."""
_JPEG = b"\xff\xd8\xff"
_SCHEMA_FIELDS = tuple(field.name for field in fields(Schema))


def resolve_schema(flags: DataFlags, shards: Sequence[Shard]) -> Schema:
    """The schema of ``shards``, in which every flag that was given wins.

    Errors: ValueError that names what can't be guessed and the flag that says it.
    """
    given = {name: getattr(flags, name) for name in _SCHEMA_FIELDS if getattr(flags, name) is not None}
    described = _described(shards)
    if described is not None:
        # Flags that rename the features or codes make the file's other words about them void.
        merged = {**asdict(described), **given}
        if "num_classes" in given and "alphabet" not in given:
            merged["alphabet"] = _alphabet_that_fits(described.alphabet, merged["num_classes"])
        source = DATASET_FILE
    else:
        merged = {**_guess(given, shards), **given}
        source = f"the first {_RECORDS} records"
    try:
        schema = Schema(**merged)
    except ValueError as error:
        raise ValueError(f"the schema (flags and {source}): {error}") from None
    if not set(given) >= set(_SCHEMA_FIELDS) - {"alphabet", "id_feature"}:
        log.info("schema: %s (flags not given: from %s)", flags_of(schema), source)
    return schema


def flags_of(schema: Schema) -> str:
    """The schema as the flags that say it."""
    words = []
    for name in _SCHEMA_FIELDS:
        value = getattr(schema, name)
        if value is not None and not (name == "alphabet" and len(value) > 100):
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


def read_dataset_file(path: Path) -> dict[str, Any]:
    """The content of a dataset.json.

    Errors: ValueError that names the file and the field when it is damaged or foreign.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != "feedline-dataset":
        raise ValueError(f"{path}: field 'format' must be 'feedline-dataset'")
    if content.get("version") != 1:
        raise ValueError(f"{path}: field 'version' must be 1: {content.get('version')!r}")
    return content


def _described(shards: Sequence[Shard]) -> Schema | None:
    """The schema that a dataset.json beside the shards gives, if all of them have the same."""
    schemas = {}
    for folder in {Path(shard.path).parent for shard in shards}:
        path = folder / DATASET_FILE
        if not path.is_file():
            return None
        try:
            content = read_dataset_file(path)
        except ValueError as error:
            # Somebody else's dataset.json is no error: the records speak for themselves.
            log.warning("%s; the schema is guessed from the records", error)
            return None
        schemas[path] = _schema_of(content, path)
        _warn_of_missing_shards(content, path)
    different = list(dict.fromkeys(schemas.values()))
    if len(different) > 1:
        raise ValueError(
            f"the shards' schemas differ: {' and '.join(str(path) for path in sorted(schemas)[:2])}"
        )
    return different[0]


def _warn_of_missing_shards(content: dict[str, Any], path: Path) -> None:
    """Say which shards a data set has lost, or has otherwise than they were written."""
    listed = content.get("shards")
    for shard in listed if isinstance(listed, list) else ():
        name, size = (shard.get("name"), shard.get("bytes")) if isinstance(shard, dict) else (None, None)
        if not isinstance(name, str) or name != os.path.basename(name):
            continue
        file = path.parent / name
        if not file.is_file():
            log.warning("%s lists %s, and it is not there: its records are missing", path, name)
        elif isinstance(size, int) and file.stat().st_size != size:
            log.warning(
                "%s: has %d bytes, and %s lists it with %d", file, file.stat().st_size, path.name, size
            )


def _schema_of(content: dict[str, Any], path: Path) -> Schema:
    stored = content.get("schema")
    if not isinstance(stored, dict):
        raise ValueError(f"{path}: field 'schema' must be an object: {type(stored).__name__}")
    unknown = sorted(set(stored) - set(_SCHEMA_FIELDS))
    if unknown:
        raise ValueError(f"{path}: field 'schema' has the unknown field {unknown[0]!r}")
    try:
        return Schema(**stored)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: field 'schema': {error}") from None


def _alphabet_that_fits(alphabet: str | None, num_classes: int) -> str | None:
    return alphabet if alphabet is not None and len(alphabet) < num_classes else None


def _guess(given: dict[str, Any], shards: Sequence[Shard]) -> dict[str, Any]:
    examples = []
    each = max(1, _RECORDS // len(shards))
    for shard in shards:
        for frame, record in islice(read_records(shard.path), each):
            try:
                examples.append(parse_example(record))
            except ValueError as error:
                raise ValueError(
                    f"{shard.path}: record {frame.record} at byte {frame.offset}: {error}"
                ) from None
    first = next((example for example in examples if example), {})
    image = given.get("image_feature") or _guess_image(first)
    target = given.get("target_feature") or _guess_target(first)
    guess: dict[str, Any] = {"image_feature": image, "target_feature": target}
    guess["id_feature"] = _guess_id(first, image)
    guess.update(_guess_image_size(examples, image))
    codes = [
        list(example[target][1]) for example in examples if example.get(target, ("", ()))[0] == "int64_list"
    ]
    codes = [values for values in codes if values]
    if not codes:
        raise ValueError(
            f"feature {target!r} is no int64_list in the first records: name it with --target-feature"
        )
    guess["max_len"] = max(len(values) for values in codes)
    guess["num_classes"] = max(1, 1 + max(max(values) for values in codes))
    return guess


def _guess_image(example: dict[str, tuple[str, Sequence[Any]]]) -> str:
    if "image" in example:
        return "image"
    pngs = [
        name
        for name, (kind, values) in example.items()
        if kind == "bytes_list" and values and values[0].startswith(SIGNATURE)
    ]
    if not pngs:
        for name, (kind, values) in example.items():
            if kind == "bytes_list" and values and values[0].startswith(_JPEG):
                raise ValueError(f"feature {name!r} holds JPEGs, and only PNGs are read: convert them first")
    return _only(pngs, example, "a PNG", "--image-feature")


def _guess_target(example: dict[str, tuple[str, Sequence[Any]]]) -> str:
    if "some_text" in example:
        return "some_text"
    numbers = [name for name, (kind, _) in example.items() if kind == "int64_list"]
    words = ("text", "label", "target", "class", "token", "code")
    telling = [name for name in numbers if any(word in name.lower() for word in words)]
    return _only(telling or numbers, example, "the target (int64)", "--target-feature")


def _guess_id(example: dict[str, tuple[str, Sequence[Any]]], image: str) -> str | None:
    if "image_id" in example:
        return "image_id"
    texts = [name for name, (kind, _) in example.items() if kind == "bytes_list" and name != image]
    telling = [
        name for name in texts if name.lower().rsplit("/", 1)[-1] in ("id", "key", "filename", "file_name")
    ]
    return telling[0] if len(telling) == 1 else None


def _guess_image_size(examples: Sequence[dict[str, tuple[str, Sequence[Any]]]], image: str) -> dict[str, int]:
    """Height and width of the first sound PNG; whether the others agree is for the check."""
    why = ""
    for example in examples:
        kind, values = example.get(image, ("", ()))
        if kind == "bytes_list" and len(values) == 1:
            try:
                header = read_header(values[0])
            except ValueError as error:
                why = why or f" (an image {error})"
                continue
            return {"height": header.height, "width": header.width}
    if not any(image in example for example in examples):
        there = ", ".join(sorted({repr(name) for example in examples for name in example})) or "none"
        raise ValueError(
            f"--image-feature {image}: the first records have no such feature; there are {there}"
        )
    raise ValueError(
        f"feature {image!r} holds no PNG in the first records{why}: name it with --image-feature"
    )


def _only(names: Sequence[str], example: dict[str, tuple[str, Sequence[Any]]], what: str, flag: str) -> str:
    if len(names) == 1:
        return names[0]
    there = (
        ", ".join(f"{name!r} ({kind or 'empty'})" for name, (kind, _) in sorted(example.items())) or "none"
    )
    found = f"several features could be {what}" if names else f"no feature holds {what}"
    raise ValueError(f"{found}: name it with {flag}; there are {there}")
