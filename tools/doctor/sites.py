"""Which line of the user's code made a dataset, a function or a tensor."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).parent)
_DECORATORS = ("util/deprecation.py", "util/dispatch.py", "util/traceback_utils.py", "util/tf_decorator.py")
"""TensorFlow's wrappers of its own functions: they are not what was called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A place in the user's code."""

    file: str
    line: int
    """Of a chained call over several lines, that of the method's name."""
    code: str = ""
    """That line, as the user wrote it."""

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """How a dataset came to be."""

    site: Site
    call: str
    """What the user called: 'map', 'TFRecordDataset', 'DALIDataset'."""
    entry: FrameType
    """The outermost frame that is not the user's. Datasets that one call makes one of another have it
    in common; kept, so that no other frame takes its identity."""
    deterministic: bool | None = None
    """What the call was told of its order: an interleave keeps that nowhere else."""


class Recorder:
    """While open, notes for each dataset that is made the user's call behind it.

    Only ``DatasetV2.__init__`` is wrapped: every dataset passes it, also those that other
    packages derive from it.
    """

    def __init__(self) -> None:
        self.made: dict[int, Made] = {}
        self._kept: list[Any] = []

    def __enter__(self) -> Recorder:
        from tensorflow.python.data.ops import dataset_ops

        self._class = dataset_ops.DatasetV2
        self._init = init = self._class.__init__

        def recording(dataset: Any, *arguments: Any, **named: Any) -> None:
            self._note(dataset)
            init(dataset, *arguments, **named)

        self._class.__init__ = recording
        return self

    def __exit__(self, *_: object) -> None:
        self._class.__init__ = self._init

    def _note(self, dataset: Any) -> None:
        outer = user_frame(sys._getframe(2))
        if outer is None:
            return
        user, entry = outer
        call = entry.f_code.co_name
        if call in ("__init__", "__new__"):
            call = type(entry.f_locals.get("self", dataset)).__name__.removesuffix("V2").removesuffix("V1")
        told = entry.f_locals.get("deterministic")
        self.made[id(dataset)] = Made(
            site=site_of(user),
            call=call.lstrip("_"),
            entry=entry,
            deterministic=told if isinstance(told, bool) else None,
        )
        self._kept.append(dataset)


def user_frame(frame: FrameType | None) -> tuple[FrameType, FrameType] | None:
    """The first frame, from ``frame`` outwards, of the user's own code, and the one that it called
    (without TensorFlow's decorators)."""
    called = frame
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            assert called is not None
            return frame, called
        if not frame.f_code.co_filename.endswith(_DECORATORS):
            called = frame
        frame = frame.f_back
    return None


def is_users(file: str) -> bool:
    """Whether a source file is neither Python's, nor an installed package's, nor the doctor's."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return False
    if "__autograph_generated_file" in file:
        return False
    return not file.startswith((*_INSTALLED, _OURS))


def site_of(frame: FrameType) -> Site:
    """Where ``frame`` stands: of a chained call over several lines, the line of the method's name."""
    return _site(frame.f_code.co_filename, frame.f_lineno)


def site_of_code(code: CodeType) -> Site:
    """Where a function begins."""
    return _site(code.co_filename, code.co_firstlineno)


def site_of_traceback(traceback: Any) -> Site | None:
    """The user's innermost line in a TensorFlow op's traceback; None where all of it is installed code."""
    for entry in reversed(list(traceback)):
        if is_users(entry.filename):
            return _site(entry.filename, entry.lineno)
    return None


def site_of_function(function: Any) -> Site | None:
    """Where a Python function that was given to TensorFlow begins; None for what is no Python code."""
    for _ in range(8):
        code = getattr(function, "__code__", None)
        if code is not None and is_users(code.co_filename):
            return site_of_code(code)
        function = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if function is None:
            return None
    return None


def _site(file: str, line: int) -> Site:
    return Site(file=file, line=line, code=linecache.getline(file, line).strip())
