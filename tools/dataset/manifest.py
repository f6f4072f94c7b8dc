"""dataset.json, which says that the shards it lists are whole, and whose names are taken.

A folder may hold several sets (train, test) under different names; they share one
dataset.json and its schema, so that the same codes mean the same characters in all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loaders.atomic import write_beside
from loaders.guess import DATASET_FILE, read_dataset_file
from loaders.spec import Schema

_SHARD = r"-(\d{5})-of-\d{5}\.tfrecord"


def shard_name(name: str, shard: int, shards: int) -> str:
    """File name of shard ``shard`` (from 0) of ``shards``."""
    return f"{name}-{shard:05d}-of-{shards:05d}.tfrecord"


def claim(out: Path, name: str, schema: Schema, *, overwrite: bool) -> None:
    """Make ``out`` ready for a set of this name: the folder is there, no file of such a set is.

    Errors: ValueError when ``out`` is a file, holds a set of this name without
    ``overwrite``, holds a set of another schema, or somebody else's dataset.json; OSError.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"OUT must be a folder: '{out}'")
    content = _content(out)
    files = files_of(out, name)
    if (files or name in content["options"]) and not overwrite:
        whole = "a data set" if name in content["options"] else "shards of an unfinished data set"
        raise ValueError(f"'{out}' holds {whole} named {name!r} already: give --overwrite to replace it")
    _check_same_schema(out, _without(content, name), schema)
    out.mkdir(parents=True, exist_ok=True)
    withdraw(out, name)


def publish(
    out: Path, name: str, schema: Schema, *, shards: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> Path:
    """List the finished set ``name`` in dataset.json and return its path. Errors: ValueError, OSError."""
    content = _without(_content(out), name)
    content["schema"] = asdict(schema)
    content["shards"] = sorted([*content["shards"], *shards], key=lambda shard: str(shard["name"]))
    content["records"] = sum(shard["records"] for shard in content["shards"])
    content["options"] = {**content["options"], name: dict(options)}
    _store(out, content)
    return out / DATASET_FILE


def shards_listed(path: Path, name: str) -> list[dict[str, Any]]:
    """What the dataset.json at ``path`` says of the shards of set ``name``."""
    return [shard for shard in read_dataset_file(path)["shards"] if _is_shard_of(name, shard["name"])]


def files_of(out: Path, name: str) -> list[Path]:
    """The shards of set ``name``, their indexes, and what a killed run left of them."""
    exact = re.compile(rf"{re.escape(name)}{_SHARD}(\.idx)?")
    partial = re.compile(rf"\.{re.escape(name)}{_SHARD}(\.idx)?\.[a-z0-9_]+\.part")
    entries = out.iterdir() if out.is_dir() else ()
    return sorted(entry for entry in entries if exact.fullmatch(entry.name) or partial.fullmatch(entry.name))


def withdraw(out: Path, name: str) -> None:
    """Take the set off dataset.json and remove ``files_of`` it, nothing else. Errors: ValueError, OSError."""
    content = _content(out)
    others = _without(content, name)
    # Before the shards, so that what is listed is always whole.
    if others != content:
        _store(out, others)
    for path in files_of(out, name):
        path.unlink(missing_ok=True)


def _content(out: Path) -> dict[str, Any]:
    """The dataset.json in ``out``, or one that lists nothing."""
    path = out / DATASET_FILE
    if not path.exists():
        return {
            "format": "feedline-dataset",
            "version": 1,
            "schema": {},
            "records": 0,
            "shards": [],
            "options": {},
        }
    content = read_dataset_file(path)
    for field, kind in (("schema", dict), ("shards", list), ("options", dict)):
        if not isinstance(content.get(field), kind):
            raise ValueError(f"{path}: field {field!r} must be there as {kind.__name__}: choose another OUT")
    for shard in content["shards"]:
        if not isinstance(shard, dict) or not isinstance(shard.get("name"), str) or "records" not in shard:
            raise ValueError(f"{path}: field 'shards' must list names and records: choose another OUT")
    return content


def _without(content: dict[str, Any], name: str) -> dict[str, Any]:
    shards = [shard for shard in content["shards"] if not _is_shard_of(name, shard["name"])]
    options = {other: value for other, value in content["options"].items() if other != name}
    records = sum(shard["records"] for shard in shards)
    return {**content, "shards": shards, "options": options, "records": records}


def _store(out: Path, content: Mapping[str, Any]) -> None:
    """Write dataset.json, or remove it when it would list nothing."""
    path = out / DATASET_FILE
    if not content["options"]:
        path.unlink(missing_ok=True)
        return
    with write_beside(path) as file:
        file.write(json.dumps(content, indent=2).encode("ascii") + b"\n")


def _check_same_schema(out: Path, others: Mapping[str, Any], schema: Schema) -> None:
    if not others["options"]:
        return
    for field, value in asdict(schema).items():
        there = others["schema"].get(field)
        if there != value:
            raise ValueError(
                f"'{out}' holds {' and '.join(map(repr, others['options']))} with {field} {there!r}, not "
                f"{value!r}: sets in one folder must have one schema, so give the same flags or another OUT"
            )


def _is_shard_of(name: str, file: str) -> bool:
    return re.fullmatch(re.escape(name) + _SHARD, file) is not None
