"""Holds the comparison itself against what is known: uv run tools/selftest.py truth|self|slower|busy."""

from __future__ import annotations

import logging

from loaders.cli import run_cli
from tools.known.config import SelftestConfig

DESCRIPTION = (
    "Measures what is known beforehand, and says whether the comparison found it: truth (loaders and steps "
    "of exact speeds), self (a loader against its copy), slower (a loader slowed by 5 % and 10 %), busy (a "
    "ratio with a busy process beside it)."
)


def main(config: SelftestConfig) -> int:
    from tools.known.checks import CHECKS

    # The notes on the data that every comparison begins with would stand between the figures.
    logging.getLogger("loaders").setLevel(logging.WARNING)

    return 0 if CHECKS[config.check](config) else 1


if __name__ == "__main__":
    run_cli(main, SelftestConfig, prog="selftest.py", description=DESCRIPTION)
