"""Runs a job in a fresh process and brings back its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loaders.cli import RunFailed
from tools.measure.sampler import Sampler
from training.config import TrainingConfig

FAILED = 3
"""Exit status of a process that said in its last line why it failed."""
_GRACE_S = 3.0
"""What a process may take to end when it is asked to."""


def run_job(
    kind: str, training: TrainingConfig, *, timeout_s: float, sampled: bool = True, **job: Any
) -> dict[str, Any]:
    """Run ``kind`` ('proof', 'train', 'loader' or 'ceiling') and return its raw result.

    With ``sampled`` the machine is watched meanwhile: ``samples`` and ``sampling_cost_share``.
    The process ends with this call, whatever happens.
    Errors: ValueError with the process's own sentence for a user's mistake; RunFailed
    for a process that died, failed or took longer than ``timeout_s``.
    """
    with tempfile.TemporaryDirectory(prefix="feedline-job-") as folder:
        job_path, result_path, said_path = (
            Path(folder) / name for name in ("job.json", "result.json", "said")
        )
        job_path.write_text(json.dumps({"kind": kind, "training": asdict(training), **job}))
        # -P: a folder named `tools` where the user stands must not be taken for this one.
        command = [sys.executable, "-P", "-m", "tools.measure.worker", str(job_path), str(result_path)]
        with said_path.open("wb") as said:
            # The process ends without tidying up; what it leaves goes with the folder.
            environment = {**os.environ, "TMPDIR": folder}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
            )
            watch = Sampler(process.pid) if sampled else nullcontext()
            try:
                with watch:
                    status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise RunFailed(f"the process for {kind} did not end within {timeout_s:.0f} s") from None
            finally:
                _end(process)
        if status == 0 and result_path.exists():
            result: dict[str, Any] = json.loads(result_path.read_bytes())
            if isinstance(watch, Sampler):
                result |= {"samples": watch.samples(), "sampling_cost_share": watch.cost_share}
            return result
        words = said_path.read_text(errors="backslashreplace").strip()
        if status == 2 and words:
            raise ValueError(words.splitlines()[-1])
        if status == FAILED and words:
            loader = f" ({training.loader})" if kind in ("train", "loader") else ""
            raise RunFailed(f"{kind}{loader}: {words.splitlines()[-1]}")
        raise RunFailed(_why(kind, status, words))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _why(kind: str, status: int, words: str) -> str:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    last = words.splitlines()[-1] if words else "it said nothing"
    return f"the process for {kind} {how}: {last}"
