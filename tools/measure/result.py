"""The result file: written beside and renamed, read with suspicion (docs/result.md describes it).

What a file may hold stands in ``result_fields``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from loaders.atomic import write_beside
from tools.measure.json_checks import Wrong, shown
from tools.measure.result_fields import FORMAT, RESULT, VERSION

__all__ = ["FORMAT", "VERSION", "read_result", "write_result"]

LARGEST_BYTES = 512 * 2**20
"""Larger files are refused before they are parsed: a comparison of many cells is some ten megabytes."""
_MOST_CONTAINERS = 2_000_000
"""Objects and lists in a file. An empty one takes two bytes there and thirty times as many in memory."""
Result = dict[str, Any]


def read_result(path: str | os.PathLike[str]) -> Result:
    """The result in the file ``path``; optional fields that it lacks are null in it.

    Errors: ValueError, one line, when there is no such file, or it is no whole result that this
    version reads, with the field, the rule and the value; OSError when it can't be read.
    """
    try:
        result = _parse(_read(path))
        _check_format(result)
        RESULT(result)
    except Wrong as wrong:
        raise ValueError(f"{os.fspath(path)}: {wrong}") from None
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: is no result file: it is nested too deeply") from None
    assert isinstance(result, dict)
    return result


def write_result(path: str | os.PathLike[str], result: Mapping[str, Any]) -> None:
    """Write ``result`` to ``path``: beside it first, then renamed, so that it is whole or not there.

    Errors: OSError; ValueError where a number is not finite.
    """
    content = json.dumps(result, allow_nan=False, separators=(",", ":"))
    with write_beside(path) as file:
        file.write(content.encode("ascii"))


def _read(path: str | os.PathLike[str]) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise Wrong("there is no such file") from None
    except IsADirectoryError:
        raise Wrong("is a folder, and not a result file") from None
    if len(content) > LARGEST_BYTES:
        raise Wrong(f"is larger than {LARGEST_BYTES // 2**20} MiB, which no result file is")
    if not content.strip():
        raise Wrong("is empty")
    if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
        raise Wrong(f"holds more than {_MOST_CONTAINERS} objects and lists, which no result file does")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Wrong(f"is damaged, or no JSON: byte {error.start} is not UTF-8") from None


def _parse(content: str) -> Any:
    try:
        return json.loads(content, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise Wrong(
            f"is damaged, cut short, or no JSON: {error.msg} at character {error.pos} of {len(content)}"
        ) from None


def _finite(text: str) -> float:
    """A number, with NaN, Infinity and what is larger than a float as NaN: no check lets it through."""
    value = float(text)
    return value if math.isfinite(value) else math.nan


def _whole(text: str) -> float:
    return int(text) if len(text) < 20 else _finite(text)


def _check_format(result: Any) -> None:
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        found = f": {shown(result.get('format'))}" if isinstance(result, dict) and "format" in result else ""
        raise Wrong(f"is no result of tools/compare.py: its format is not {FORMAT!r}{found}")
    version = result.get("version")
    if type(version) is int and version > VERSION:
        raise Wrong(
            f"version must be at most {VERSION}, the newest that this feedline reads: {shown(version)}"
        )
