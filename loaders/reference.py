"""The user's own functions, named on the command line as path/to/file.py:name or module:name."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_OURS = ("loaders", "training", "tools")
"""Common names; a reference to such a module never means this project's."""


def is_reference(text: str) -> bool:
    """Whether ``text`` names somebody's function, and not one of this project's choices."""
    return ":" in text


def load_reference(text: str, *, flag: str) -> Any:
    """The object that ``text`` names.

    A file is loaded under a name of its own, so that it never takes the place of one of
    this project's modules; its folder is searched last for what it imports.
    Errors: ValueError, in one sentence with ``flag``, when there is no such file, module or
    name, or when importing it fails.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"{flag} must be path/to/file.py:function or module:function: {text!r}")
    try:
        module = _load_file(place) if place.endswith(".py") else _load_module(place)
    except ValueError as error:
        raise ValueError(f"{flag} {text}: {error}") from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"{flag} {text}: importing it failed: {type(error).__name__}: {error}") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise ValueError(f"{flag} {text}: {place} has no {name!r}") from None


def call_reference(text: str, *arguments: Any, flag: str) -> Any:
    """What the function that ``text`` names returns for ``arguments``.

    Errors: as ``load_reference``, and ValueError with the flag for whatever the function raises.
    """
    function = load_reference(text, flag=flag)
    try:
        return function(*arguments)
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"it raised {type(error).__name__}: "
        raise ValueError(f"{flag} {text}: {kind}{error}") from error


def short_name(text: str) -> str:
    """A reference without its folders, for tables: 'file.py:function'."""
    place, colon, name = text.rpartition(":")
    return f"{os.path.basename(place)}{colon}{name}" if colon else text


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise ValueError(f"there is no file {place}")
    name = f"feedline_user_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    _search_last(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_module(place: str) -> ModuleType:
    package = place.split(".", maxsplit=1)[0]
    if package in _OURS:
        raise ValueError(f"{package!r} is a package of feedline too: name the file, as path/to/file.py:name")
    _search_last(Path.cwd())
    return importlib.import_module(place)


def _search_last(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
