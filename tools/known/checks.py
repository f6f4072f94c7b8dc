"""The checks of tools/selftest.py: each prints what was measured beside the truth, and tells if it held."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tools.dataset.config import DatasetConfig
from tools.dataset.make import make_dataset
from tools.known.config import SelftestConfig
from tools.measure.config import CompareConfig
from tools.measure.run import compare
from tools.measure.verdict import limit_of

_HERE = Path(__file__).parent
_PACED_LOADER = f"{_HERE / 'paced.py'}:make_loader"
_PACED_MODEL = f"{_HERE / 'paced.py'}:make_model"
_SLOWED = f"{_HERE / 'slowed.py'}:make_loader"

_BATCH = 60
_TRUTH = (
    (50, 0.3), (80, 0.3), (120, 0.3), (170, 0.3), (190, 0.3), (200, 0.3),
    (210, 0.3), (240, 0.3), (400, 0.3), (1000, 0.3), (100, 0.6), (400, 0.15),
)  # fmt: skip
"""Images a second of the loader, seconds of the step. A step of 0.3 s is 200 images a second; what a step
does besides sleeping, about 2 ms, is under 2 % of the shortest."""
_TRUE_WITHIN = 0.03
_MOVES_WITHIN = 0.05


def truth(config: SelftestConfig) -> bool:
    """Loader alone, step alone and both, for known speeds: each within 3 %, and the right verdict."""
    held = True
    data = _tiny_data()
    print(f"{'loader':>8} {'step':>8} | {'loader':>8} {'step':>8} {'both':>8} {'true both':>9}  verdict")
    for rate, step_s in _TRUTH[: config.pairs]:
        with _environment(FEEDLINE_TEST_RATE=rate, FEEDLINE_TEST_STEP_S=step_s):
            result = _compare(
                data=(data,),
                loader=(_PACED_LOADER,), model=_PACED_MODEL, xla=("off",), rounds=1, batch_size=_BATCH,
                measure_s=config.measure_s, allow_different=True,
            )  # fmt: skip
        measured = {cell["kind"]: cell["images_per_s"] for cell in result["cells"]}
        step_rate = _BATCH / step_s
        true = {"loader": rate, "ceiling": step_rate, "train": min(rate, step_rate)}
        right = result["limit"] == limit_of(true["train"], true["loader"], true["ceiling"])
        near = all(abs(measured[kind] / true[kind] - 1) <= _TRUE_WITHIN for kind in true)
        held = held and right and near
        mark = "" if right and near else "  WRONG"
        print(
            f"{rate:8.1f} {step_rate:8.1f} | {measured['loader']:8.1f} {measured['ceiling']:8.1f} "
            f"{measured['train']:8.1f} {true['train']:9.1f}  {result['limit']}{mark}",
            flush=True,
        )
    return _say(held, "every rate within 3 % of the truth, and every verdict right")


def compare_with_itself(config: SelftestConfig) -> bool:
    """A loader and its copy: equal in at least nine of ten comparisons."""
    equal = 0
    for number in range(config.times):
        ratio = _ratio(config, 0.0, rounds=8)
        equal += bool(ratio["equal"])
        print(f"{number + 1:3d}  {_words(ratio)}  {'equal' if ratio['equal'] else 'DIFFERENT'}", flush=True)
    return _say(equal >= 0.9 * config.times, f"equal in {equal} of {config.times}")


def find_slower(config: SelftestConfig) -> bool:
    """A loader slowed by 5 % is found within 5 minutes, one slowed by 10 % within 2."""
    held = True
    # Most of a cell is its process's start. Two minutes are just enough for the eight pairs that an interval
    # needs; in five, longer measurements tell more than additional pairs: windows of one process vary by 6 %.
    for share, limit_s, rounds, measure_s in (
        (0.10, 120, 8, config.measure_s / 4),
        (0.05, 300, 20, config.measure_s * 2),
    ):
        began = time.monotonic()
        ratio = _ratio(config, share, rounds=rounds, budget_s=limit_s - 3.0, measure_s=measure_s)
        took_s = time.monotonic() - began
        found = ratio["equal"] is False and took_s < limit_s
        held = held and found
        print(f"{100 * share:.0f} % more to decode: {_words(ratio)}, {took_s:.0f} s", flush=True)
    return _say(held, "both found, in time")


def stay_true_beside_a_busy_process(config: SelftestConfig) -> bool:
    """The ratio of a loader to its copy slowed by 20 % hardly moves, and disturbed rounds are told."""
    quiet = _ratio(config, 0.20, rounds=8)
    print(f"quiet: {_words(quiet)}, {quiet['disturbed']} rounds disturbed", flush=True)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        beside = _ratio(config, 0.20, rounds=8)
    finally:
        busy.kill()
        busy.wait()
    print(f"beside a busy process: {_words(beside)}, {beside['disturbed']} rounds disturbed", flush=True)
    moved = abs(beside["value"] / quiet["value"] - 1)
    held = moved < _MOVES_WITHIN and beside["disturbed"] > 0
    return _say(held, f"the ratio moved by {100 * moved:.1f} %; disturbed rounds were told")


CHECKS: dict[str, Callable[[SelftestConfig], bool]] = {
    "truth": truth,
    "self": compare_with_itself,
    "slower": find_slower,
    "busy": stay_true_beside_a_busy_process,
}


@cache
def _tiny_data() -> str:
    """A folder with a few small images, so that a step costs hardly more than it sleeps."""
    folder = tempfile.mkdtemp(prefix="feedline-selftest-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_dataset(
        DatasetConfig(
            out=Path(folder), records=2 * _BATCH, shards=1, height=16, width=32, max_len=4, workers=1
        )
    )
    return folder


def _ratio(
    config: SelftestConfig,
    share: float,
    *,
    rounds: int,
    budget_s: float | None = None,
    measure_s: float | None = None,
) -> dict[str, Any]:
    """The paired ratio of the tf.data loader slowed by ``share`` to itself, each alone."""
    with _environment(FEEDLINE_TEST_SLOWER=share):
        result = _compare(
            loader=(_SLOWED, "tfdata"), kinds=("loader",), rounds=rounds, batch_size=100,
            measure_s=measure_s or config.measure_s, budget_s=budget_s,
        )  # fmt: skip
    (ratio,) = result["comparisons"]
    return {**ratio, "disturbed": sum(cell["disturbed_rounds"] for cell in result["cells"])}


def _compare(**flags: Any) -> dict[str, Any]:
    return compare(CompareConfig(**flags), say=lambda sentence: None, tell=lambda progress: None)


def _words(ratio: dict[str, Any]) -> str:
    if ratio["low"] is None:
        return f"ratio {ratio['value']:.3f} from {ratio['pairs']} pairs: too few for an interval"
    interval = f"99 % interval {ratio['low']:.3f} to {ratio['high']:.3f}"
    return f"ratio {ratio['value']:.3f}, {interval} ({ratio['pairs']} pairs)"


@contextmanager
def _environment(**values: float) -> Iterator[None]:
    """Variables for the processes that are started meanwhile."""
    names = {name: str(value) for name, value in values.items()}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _say(held: bool, words: str) -> bool:
    print(f"{'held' if held else 'NOT HELD'}: {words}", flush=True)
    return held
