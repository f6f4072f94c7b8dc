"""Runs a measuring process for a limited time, and keeps what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loaders.cli import RunFailed
from tools.measure.sampler import Sampler, usage

_POLL_S = 0.05
_GRACE_S = 3.0


@dataclass(kw_only=True, slots=True)
class Said:
    """What a measuring process found."""

    found: dict[str, Any] = field(default_factory=dict)
    cut_off_while: str | None = None
    """What it was doing when its time was over."""
    other_cores: float | None = None
    """Cores that other processes kept busy meanwhile, on average; None where it was too short to tell."""


def measure(job: dict[str, Any], *, timeout_s: float, tell: Callable[[str], None]) -> Said:
    """Run ``job`` in a fresh process, which ends with this call.

    Errors: ValueError for a mistake of the user's and RunFailed for code of the user's that raised, each in
    one sentence; RunFailed for a process that died.
    """
    said = Said()
    with tempfile.TemporaryDirectory(prefix="feedline-doctor-") as folder:
        job_path, facts_path, words_path = (Path(folder) / name for name in ("job.json", "facts", "words"))
        job_path.write_text(json.dumps(job))
        facts_path.touch()
        command = [sys.executable, "-P", "-m", "tools.doctor.worker", str(job_path), str(facts_path)]
        doing, failed, deadline = "starting", None, time.monotonic() + timeout_s
        with words_path.open("wb") as words, facts_path.open("rb") as facts:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
            try:
                with Sampler(process.pid) as watch:
                    pending = b""
                    while True:
                        ended = process.poll() is not None
                        pending += facts.read()
                        *lines, pending = pending.split(b"\n")
                        for line in map(json.loads, lines):
                            if "doing" in line:
                                doing = line["doing"]
                                tell(doing)
                            elif "found" in line:
                                said.found |= line["found"]
                            else:
                                failed = line
                        if ended:
                            break
                        if time.monotonic() > deadline:
                            said.cut_off_while = doing
                            break
                        time.sleep(_POLL_S)
            finally:
                end(process)
        samples = watch.samples()
        if samples["at_s"]:
            said.other_cores = usage(samples, 0.0, samples["at_s"][-1], 0)["other_cores"]
        if said.cut_off_while is not None:
            return said
        if failed is not None:
            raise (ValueError if failed["status"] == 2 else RunFailed)(failed["failed"])
        if process.returncode != 0:
            raise RunFailed(_why(process.returncode, doing, words_path.read_text(errors="backslashreplace")))
    return said


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started: all of its own session."""
    import signal

    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _why(status: int, doing: str, words: str) -> str:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    last = next((line for line in reversed(words.splitlines()) if line.strip()), "it said nothing")
    return f"the measuring process {how} while {doing}: {last}"
