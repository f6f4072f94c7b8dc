"""The table of a user's own images: a CSV file of file names and texts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tools.dataset.config import MAX_ID_BYTES

_HEADERS = (("file", "text"), ("filename", "text"), ("file_name", "text"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One line of the table."""

    name: str
    """The image's file name as it serves as id, with forward slashes."""
    text: str
    """What the image shows; it may be empty."""
    place: str
    """File and line of the table, to begin a complaint with."""


def read_labels(path: Path) -> list[Label]:
    """Every line of the table, in its order, without its header and empty lines.

    Errors: ValueError that names the file and the line: not UTF-8, not two columns, a
    name that is empty, too long for an id, taken already or outside of the folder; OSError.
    """
    if not path.is_file():
        raise ValueError(f"--labels must be a CSV file of file names and texts; there is none at '{path}'")
    labels: list[Label] = []
    lines: dict[str, int] = {}
    for number, row in _rows(path):
        place = f"{path}: line {number}"
        if len(row) != 2:
            raise ValueError(f"{place} must have two columns, file name and text: it has {len(row)}")
        name = _checked_name(row[0], place)
        if name in lines:
            raise ValueError(f"{place}: {name!r} was on line {lines[name]} already")
        lines[name] = number
        labels.append(Label(name=name, text=row[1], place=place))
    if not labels:
        raise ValueError(f"{path}: holds no line with a file name and a text")
    return labels


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The table's rows with the number of the line that each begins on."""
    # utf-8-sig takes the mark that spreadsheets put first, and does without it too.
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        number = 1
        try:
            for row in reader:
                if row and not (number == 1 and tuple(field.strip().lower() for field in row) in _HEADERS):
                    yield number, row
                number = reader.line_num + 1
        except UnicodeDecodeError:
            raise ValueError(f"{path}: must be UTF-8, which it is not near line {number}") from None
        except csv.Error as error:
            raise ValueError(f"{path}: line {number} is no CSV: {error}") from None


def _checked_name(name: str, place: str) -> str:
    path = PurePath(name)
    if not name or not path.parts:
        raise ValueError(f"{place}: the file name is empty")
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{place}: the file must be inside of --from-folder: {name!r}")
    name = path.as_posix()
    id_bytes = len(name.encode("utf-8"))
    if id_bytes > MAX_ID_BYTES:
        raise ValueError(
            f"{place}: the file name becomes the record's id, at most {MAX_ID_BYTES} bytes, "
            f"and has {id_bytes}: {name!r}"
        )
    return name
