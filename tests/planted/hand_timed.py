"""Holds the ladder against timings written by hand: ``python -m tests.planted.hand_timed [NAME…]``.

Each prefix of a pipeline is timed in turn by the ladder and by hand, three times, in one process. By hand
means a ``for`` loop, over windows of elements where these are so fast that Python would be timed. The
ratios of the medians are printed; the exit status is 1 where one is more than a tenth away from 1.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loaders.reference import load_reference
from tests.planted import data
from tests.planted.twins import HERE

NAMES = ("faults/original_report", "faults/serial_map", "faults/gzip_one_thread", "healthy/balanced")
SECONDS = 1.5
TIMES = 3
WITHIN = 0.10
WINDOW_S = 0.02
PYTHON_S = 3e-3
"""Time of an element from which on a loop in Python, 0.1 to 0.3 ms a turn, is no matter."""


def by_hand(make: Callable[[], Any], per_s: float) -> float:
    """Elements a second of a fresh dataset, behind its first tenth of a second."""
    dataset = make()
    each = 1 if per_s < 1 / PYTHON_S else max(2, int(per_s * WINDOW_S))
    if each > 1:
        # A window only holds what it is given: nothing is copied, and no function is called.
        dataset = dataset.repeat().window(each)
    counted, first_at, now = 0, 0.0, 0.0
    began = time.perf_counter()
    for _ in dataset:
        now = time.perf_counter()
        if first_at:
            counted += each
            if now - first_at > SECONDS:
                break
        elif now - began > 0.1:
            first_at = now
    return counted / (now - first_at)


def time_prefixes(path: Path) -> list[tuple[str, float, float]]:
    """(call, by the ladder, by hand) of each prefix, medians of elements a second."""
    from tools.doctor import ladder
    from tools.doctor.chain import build
    from tools.doctor.drain import without_optimisations

    make_dataset = load_reference(f"{path}:make_dataset", flag="the pipeline")

    rows = ladder.inspect(make_dataset)
    rates: list[tuple[list[float], list[float]]] = [([], []) for _ in rows]
    for _ in range(TIMES):
        for number in ladder.measure_rows(make_dataset, rows, seconds=SECONDS, tell=lambda _: None):
            rate = rows[number].rate
            assert rate is not None

            def make(number: int = number) -> Any:
                return without_optimisations(build(make_dataset)[1][number].dataset)

            rates[number][0].append(rate.per_s)
            rates[number][1].append(by_hand(make, rate.per_s))
    return [
        (row.call, statistics.median(ladder_s), statistics.median(hand_s))
        for row, (ladder_s, hand_s) in zip(rows, rates, strict=True)
    ]


def main(names: list[str]) -> int:
    for name in data.makers():
        data.folder(name)
    os.environ["PLANTED_DATA"] = str(data.root())
    far = 0
    for name in names or NAMES:
        print(name)
        for call, ladder_per_s, hand_per_s in time_prefixes(HERE / f"{name}.py"):
            ratio = ladder_per_s / hand_per_s
            far += abs(ratio - 1) > WITHIN
            print(
                f"  .{call:20} ladder {ladder_per_s:10.5g}  by hand {hand_per_s:10.5g}  ratio {ratio:.3f}",
                flush=True,
            )
    print("all within a tenth" if not far else f"{far} further than a tenth away")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
