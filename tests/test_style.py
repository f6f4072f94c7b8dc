"""Style, types and import directions, so that the one test command runs them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# What the entry point `lint-imports` calls, without relying on where scripts are installed.
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("-m", "ruff", "check", "."), id="ruff check"),
        pytest.param(("-m", "ruff", "format", "--check", "."), id="ruff format"),
        pytest.param(("-m", "mypy"), id="mypy"),
        pytest.param(("-c", LINT_IMPORTS), id="lint-imports"),
    ],
)
def test_style(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)} exits with {done.returncode}\n{done.stdout}", pytrace=False)
