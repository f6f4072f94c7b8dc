"""Compares the loaders under every XLA mode: uv run tools/compare.py [--data PATTERN...]."""

from __future__ import annotations

import json
import sys

from loaders.atomic import check_can_write, write_beside
from loaders.cli import run_cli
from tools.measure.config import CompareConfig

DESCRIPTION = (
    "Proves that the loaders give the same batches, measures each with the same training step under every "
    "XLA mode, and says what limits the run. Without --data it makes a small data set and uses that."
)


def main(config: CompareConfig) -> int:
    from rich.console import Console

    from tools.measure.run import compare
    from tools.present.table import print_result

    check_can_write("--out", config.out)
    result = compare(config, tell=lambda line: print(line, file=sys.stderr, flush=True))
    with write_beside(config.out) as file:
        file.write(json.dumps(result).encode())
    print_result(result, Console())
    print(f"result: {config.out}")
    return 0 if result["complete"] else 130


if __name__ == "__main__":
    run_cli(main, CompareConfig, prog="compare.py", description=DESCRIPTION)
