"""Compares the loaders under every XLA mode: uv run tools/compare.py [--data PATTERN...]."""

from __future__ import annotations

import sys
from pathlib import Path

from loaders.atomic import check_can_write
from loaders.cli import run_cli
from tools.measure.config import CompareConfig

DESCRIPTION = (
    "Proves that the loaders give the same batches, measures each with the same training step under every "
    "XLA mode, and says what limits the run. Without --data it makes a small data set and uses that."
)


def main(config: CompareConfig) -> int:
    from rich.console import Console

    from tools.measure.against import compare_results, parse_percent, slower_than
    from tools.measure.result import read_result, write_result
    from tools.measure.run import compare
    from tools.present.page import write_html
    from tools.present.progress import ProgressLines
    from tools.present.table import print_against, print_result

    page = config.html or str(Path(config.out).with_suffix(".html"))
    check_can_write("--out", config.out)
    check_can_write("--html", page)
    old = read_result(config.against) if config.against else None
    with ProgressLines() as progress:
        result = compare(config, say=progress.say, tell=progress.tell)
    write_result(config.out, result)
    if not result["complete"]:
        print(f"interrupted: what was finished is in {config.out}", file=sys.stderr)
        print(f"show it with: uv run tools/report.py {config.out}", file=sys.stderr)
        return 130
    write_html(page, [result])
    console = Console()
    print_result(result, console)
    print(f"result: {config.out}\npage: {page}")
    if old is None:
        return 0
    against = compare_results(old, result)
    print_against(against, console)
    limit = parse_percent(config.fail_if_slower) if config.fail_if_slower else None
    return 1 if limit is not None and slower_than(against, limit) else 0


if __name__ == "__main__":
    run_cli(main, CompareConfig, prog="compare.py", description=DESCRIPTION)
