"""What TensorFlow's C++ code writes to stderr: XLA's compiles are counted, noise is dropped.

XLA's own log is the only place that tells each compile with its time. TensorFlow writes
it to file descriptor 2, so that is turned into a pipe for as long as the log is open.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import IO

# device_compilation_profiler.cc: "Compiled NAME 2 times, compile time: 70805 us, cumulative: ..."
_COMPILED = re.compile(r"\] Compiled (?P<name>\S+) (?P<count>\d+) times, compile time: (?P<time_us>\d+) us")
_INFO = re.compile(r"^(I\d{4} |\d{4}-\d\d-\d\d \S+: I )")
_START_UP_NOISE = (
    "All log messages before absl::InitializeLog()",
    "To enable the following instructions:",
    "oneDNN custom operations are on",
    "Could not find cuda drivers",
    "failed call to cuInit",
    "Cannot dlopen some GPU libraries",
    "Skipping registering GPU devices",
    "Unable to register cu",
    "computation placer already registered",
    "Local rendezvous is aborting with status: OUT_OF_RANGE",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compile:
    """One XLA compile, as its log tells it."""

    name: str
    """The function (jit) or cluster (auto) that was compiled."""
    seconds: float
    at: float
    """When the line was read, on time.perf_counter's clock."""


def ask_for_compile_log() -> None:
    """Make TensorFlow log each XLA compile; to be called before it is imported."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    wanted = "device_compilation_profiler=1"
    there = os.environ.get("TF_CPP_VMODULE")
    if wanted not in (there or ""):
        os.environ["TF_CPP_VMODULE"] = f"{there},{wanted}" if there else wanted


class NativeLog:
    """While open, reads file descriptor 2, keeps the compiles and passes on what matters."""

    def __init__(self) -> None:
        self.compiles: list[Compile] = []

    def __enter__(self) -> NativeLog:
        sys.stderr.flush()
        self._python_stderr = sys.stderr
        self._terminal = os.dup(2)
        read_end, write_end = os.pipe()
        os.dup2(write_end, 2)
        os.close(write_end)
        # Python's own words go straight to the terminal, in order and without a filter.
        sys.stderr = os.fdopen(os.dup(self._terminal), "w", buffering=1, errors="backslashreplace")
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(read_end, "rb"),), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.stderr.close()
        sys.stderr = self._python_stderr
        os.dup2(self._terminal, 2)
        # The pipe's last writer is gone now (but for child processes), so the reader ends.
        self._reader.join(timeout=2.0)
        os.close(self._terminal)

    def settle(self) -> None:
        """Wait until lines that were written before this call have been read."""
        time.sleep(0.05)

    @property
    def compile_s(self) -> float:
        """Seconds that XLA spent compiling so far."""
        return sum(compile_.seconds for compile_ in self.compiles)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for raw in pipe:
                line = raw.decode(errors="backslashreplace")
                found = _COMPILED.search(line)
                if found is not None:
                    seconds = int(found["time_us"]) / 1e6
                    self.compiles.append(Compile(name=found["name"], seconds=seconds, at=time.perf_counter()))
                elif not _is_noise(line):
                    os.write(self._terminal, raw)


def _is_noise(line: str) -> bool:
    return bool(_INFO.match(line)) or any(words in line for words in _START_UP_NOISE)
