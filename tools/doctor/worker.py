"""The measuring process: ``python -m tools.doctor.worker JOB FACTS``.

It appends to FACTS a line of JSON for each thing that it found out, and one for each thing that it begins, so
that what it knew is not lost when it hangs or dies.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import IO, Any

from loaders.reference import load_reference
from training.native_log import NativeLog, ask_for_compile_log

USERS_ERROR = 4
"""Exit status when the user's code raised; what and where stands in the last line of the facts."""


class Reporter:
    """Writes what is known, a line at a time."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def tell(self, doing: str) -> None:
        self._write({"doing": doing, "at": time.time()})

    def found(self, **known: Any) -> None:
        self._write({"found": {name: _plain(value) for name, value in known.items()}})

    def failed(self, sentence: str, *, status: int) -> None:
        self._write({"failed": sentence, "status": status})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def main(job_path: str, facts_path: str) -> int:
    job = json.loads(Path(job_path).read_text())
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if job["compile_log"]:
        ask_for_compile_log()
    with Path(facts_path).open("a", encoding="utf-8") as file:
        reporter = Reporter(file)
        with NativeLog() as log:
            try:
                return _run(job, reporter, log)
            except ValueError as error:
                reporter.failed(str(error), status=2)
            except Exception as error:
                from tools.doctor.jobs import PipelineFailed

                told = str(error) if isinstance(error, PipelineFailed) else sentence_of(error)
                reporter.failed(told, status=1)
    return USERS_ERROR


def _run(job: dict[str, Any], reporter: Reporter, log: NativeLog) -> int:
    from tools.doctor import jobs

    reporter.tell("importing TensorFlow")
    import tensorflow as tf  # noqa: F401

    work = {"dataset": jobs.dataset, "step": jobs.step, "rate": jobs.rate}[job["kind"]]
    work(job, reporter, log)
    return 0


def sentence_of(error: BaseException) -> str:
    """What an exception says, in one sentence, with the user's line that it came from."""
    from tools.doctor.sites import is_users

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    words = " ".join(str(getattr(error, "message", error)).split())
    if len(words) > 400:
        words = words[:400] + "..."
    return f"{type(error).__name__}{at}: {words}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def load(text: str, flag: str) -> Any:
    """The user's function. Errors: ValueError, in one sentence."""
    function = load_reference(text, flag=flag)
    if not callable(function):
        raise ValueError(f"{flag} {text}: it must be a function: {type(function).__name__}")
    return function


if __name__ == "__main__":
    # The user's threads and TensorFlow's must not keep the process from ending.
    status = main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
