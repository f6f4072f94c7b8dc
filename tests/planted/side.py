"""One side of a planted fault, measured in a process of its own: ``python -m tests.planted.side FILE SIDE``.

SIDE is ``faulty`` or ``fixed``, and the figure is the last line of the output; or ``prepare``, and the last
line is what the environment of both must hold, as JSON. What a user's loop would do is done here: a plain
``for``, with the step where there is one.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil

from tests.planted import data

WARM_UP_S, WINDOW_S = 2.0, 2.0
WINDOWS = 10
QUIET_CORES = 0.1
"""What other processes may take of the machine in a window; a busier one is measured again."""
MEMORY_S, MEMORY_PASSES, MEMORY_GROWTH_MIB = 5.0, 2, 1500
"""Memory is watched until one of these is reached."""
STEPS = 40
EPOCHS = 4
RECORDS_READ = 2048


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


class Side:
    """The faulty or the fixed twin of a module."""

    def __init__(self, module: ModuleType, side: str) -> None:
        suffix = "_fixed" if side == "fixed" else ""
        self.make_dataset: Callable[[], Any] = getattr(module, f"make_dataset{suffix}", module.make_dataset)
        step = getattr(module, "train_step", None)
        self._step = getattr(module, f"train_step{suffix}", step)

    def use(self, element: Any) -> Any:
        """What the loop does with an element."""
        if self._step is None:
            return element
        return self._step(*element) if isinstance(element, tuple) else self._step(element)


def elements_per_s(side: Side) -> float:
    """Elements a second, over as many passes as the time allows; the warm-up is not counted.

    A serial pipeline is as fast as a parallel one while something else has the other cores. So of several
    windows the first quiet one counts, else the one in which other processes took least.
    """
    elements = used_elements(side)
    rate_of(elements, WARM_UP_S)
    windows = []
    while len(windows) < WINDOWS:
        before = foreign_cpu_s()
        began_at = time.perf_counter()
        rate = rate_of(elements, WINDOW_S)
        windows.append(((foreign_cpu_s() - before) / (time.perf_counter() - began_at), rate))
        if windows[-1][0] <= QUIET_CORES:
            break
    foreign_cores, rate = min(windows)
    print(f"{rate:.4g}/s beside {foreign_cores:.2f} cores of others", file=sys.stderr)
    return rate


def used_elements(side: Side) -> Iterator[Any]:
    """Goes through the data set again and again, and gives what using each element gives."""
    dataset = side.make_dataset()
    while True:
        for element in dataset:
            yield side.use(element)


def rate_of(results: Iterator[Any], least_s: float) -> float:
    """Results a second, over ``least_s`` and until the last of them is there."""
    began_at = time.perf_counter()
    count = 0
    while True:
        last = next(results)
        count += 1
        if time.perf_counter() >= began_at + least_s:
            wait_for(last)
            return count / (time.perf_counter() - began_at)


def foreign_cpu_s() -> float:
    """CPU time that the machine's other processes have taken, since some moment."""
    machine, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle_s = machine.idle + getattr(machine, "iowait", 0.0)
    # Linux counts a guest's time into user and nice already.
    guest_s = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)
    return float(sum(machine) - guest_s - idle_s - own.user - own.system)


def wait_for(result: Any) -> None:
    """Until the device has computed ``result``."""
    import tensorflow as tf

    for part in tf.nest.flatten(result):
        if hasattr(part, "numpy"):
            part.numpy()


def growth_mib(side: Side) -> float:
    """What the process's memory grows by at its peak, from before the data set is made."""
    process = psutil.Process()
    gc.collect()
    before = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    dataset = side.make_dataset()
    end_at = time.perf_counter() + MEMORY_S
    for _ in range(MEMORY_PASSES):
        for element in dataset:
            side.use(element)
            if time.perf_counter() > end_at or peak - before > MEMORY_GROWTH_MIB * 2**20:
                break
    done.set()
    watcher.join()
    return (peak - before) / 2**20


def s_to_first(side: Side) -> float:
    """Seconds from asking for the first element until it is there."""
    dataset = side.make_dataset()
    began_at = time.perf_counter()
    wait_for(side.use(next(iter(dataset))))
    return time.perf_counter() - began_at


def traces(side: Side) -> float:
    """How many times Python functions are traced in 40 steps."""
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    def count() -> int:
        functions = [each for each in gc.get_objects() if isinstance(each, Function)]
        return sum(each.experimental_get_tracing_count() for each in functions)

    dataset = side.make_dataset()
    before = count()
    run_steps(side, dataset)
    return count() - before


def compiles(side: Side) -> float:
    """Runs 40 steps; XLA itself writes a line for each compile, which ``twins`` counts."""
    run_steps(side, side.make_dataset())
    return 0.0


def steps_that_run(side: Side) -> float:
    """How many of 40 steps XLA agrees to."""
    import tensorflow as tf

    try:
        run_steps(side, side.make_dataset())
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
        return 0.0
    return STEPS


def run_steps(side: Side, dataset: Any) -> None:
    steps = 0
    while steps < STEPS:
        for element in dataset:
            side.use(element)
            steps += 1
            if steps == STEPS:
                break


def neighbours_apart(side: Side) -> float:
    """The share of records whose successor in the shard is in another batch; 1 is well mixed."""
    batch_of: dict[int, int] = {}
    for batch, element in enumerate(side.make_dataset()):
        numbers = record_numbers(element)
        if batch_of.keys() & set(numbers):
            break
        batch_of.update(dict.fromkeys(numbers, batch))
    pairs = [number for number in batch_of if number + 1 in batch_of]
    return sum(batch_of[number] != batch_of[number + 1] for number in pairs) / len(pairs)


def variants(side: Side) -> float:
    """How many different images a record gives in four epochs, on average."""
    seen: defaultdict[int, set[int]] = defaultdict(set)
    times: Counter[int] = Counter()
    for element in passes(side.make_dataset()):
        images = next(part for part in arrays(element) if part.ndim >= 3)
        for number, image in zip(record_numbers(element), images, strict=True):
            times[number] += 1
            if times[number] <= EPOCHS:
                seen[number].add(hash(image.tobytes()))
        if min(times.values()) >= EPOCHS:
            break
    return sum(map(len, seen.values())) / len(seen)


def distinct_share(side: Side) -> float:
    """The share of all records that the first epoch's worth of elements has."""
    read: list[int] = []
    for element in passes(side.make_dataset()):
        read += record_numbers(element)
        if len(read) >= RECORDS_READ:
            break
    records = len(set(read))
    return len(set(read[:records])) / records


def passes(dataset: Any) -> Iterator[Any]:
    while True:
        yield from dataset


def record_numbers(element: Any) -> list[int]:
    """The numbers of a batch's records, from their texts or their ids."""
    for part in arrays(element):
        if part.dtype == object:
            return [int(image_id.decode().rsplit("-")[-1]) for image_id in part.reshape(-1)]
        if np.issubdtype(part.dtype, np.integer) and part.shape[-1:] == (data.MAX_LEN,):
            digits = part.reshape(-1, data.MAX_LEN)[:, : data.NUMBER_CODES].astype(int) - 1
            return [int("".join(map(str, row))) for row in digits]
    raise ValueError("neither a text nor an id in the element")


def arrays(element: Any) -> list[Any]:
    import tensorflow as tf

    return [part.numpy() for part in tf.nest.flatten(element)]


MEASURES: dict[tuple[str, str | None], Callable[[Side], float]] = {
    ("throughput", None): elements_per_s,
    ("memory", None): growth_mib,
    ("time-to-first", None): s_to_first,
    ("compiles", None): compiles,
    ("compiles", "retraces"): traces,
    ("compiles", "not-compilable"): steps_that_run,
    ("variety", None): variants,
    ("variety", "shuffle-after-batch"): neighbours_apart,
    ("order", None): distinct_share,
}
"""By PROOF, and by KIND where that kind has a figure of its own."""


def main() -> None:
    path, name = Path(sys.argv[1]), sys.argv[2]
    module = load(path)
    if name == "prepare":
        print(f"\n{json.dumps(module.prepare(data.root()) or {})}")
        return
    measure = MEASURES.get((module.PROOF, module.KIND)) or MEASURES[module.PROOF, None]
    print(f"\n{measure(Side(module, name))}", flush=True)


if __name__ == "__main__":
    main()
