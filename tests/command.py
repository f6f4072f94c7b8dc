"""Runs the project's commands as a user does: in a process of their own, through the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(
    *arguments: str | Path, timeout_s: float = 240, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python ARGUMENTS`` in the repository's root."""
    import os

    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def train(*arguments: str | Path, **options: float) -> subprocess.CompletedProcess[str]:
    return run("-m", "training", *arguments, **options)  # type: ignore[arg-type]


def sentence(done: subprocess.CompletedProcess[str], status: int = 2) -> str:
    """The one sentence of a run that a user's mistake ended, checked to be nothing else."""
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert ": error: " in last, done.stderr
    return last.split(": error: ", 1)[1]
