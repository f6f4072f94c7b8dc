"""The process of one cell: python -P -m tools.measure.worker JOB.json RESULT.json

JOB.json holds a job of ``launch``; RESULT.json is written when all went well, else one
sentence stands on stderr and the exit status is 2 (a user's mistake) or 3.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from loaders.atomic import write_beside
from loaders.cli import RunFailed, log_to_stderr
from loaders.config import LoaderConfig
from loaders.contract import last_line
from loaders.cores import usable_cores
from tools.measure.launch import FAILED
from tools.measure.windows import Limits, Run, measure
from training.config import TrainingConfig
from training.devices import Device, choose_device, set_environment, set_seeds
from training.native_log import NativeLog, ask_for_compile_log

_COPIES = 20


def main(job_path: str, result_path: str) -> int:
    job = json.loads(Path(job_path).read_bytes())
    config = TrainingConfig(**{**job["training"], **_tuples(job["training"])})
    set_environment(config.xla)
    ask_for_compile_log()
    with NativeLog() as native_log:
        _import_tensorflow()
        device = choose_device(config.device)
        set_seeds(config)
        work = {"proof": _prove, "train": _train, "loader": _loader, "ceiling": _ceiling}[job["kind"]]
        result = work(config, device, job, native_log)
        native_log.settle()
        steps = result.pop("compile_steps", [])
        result["compiles"] = [
            {"name": each.name, "seconds": each.seconds, "step": step}
            for each, step in zip(native_log.compiles, steps, strict=False)
        ]
        result["device"] = device
        result["peak_rss_mib"] = _peak_rss_mib()
    with write_beside(result_path) as file:
        file.write(json.dumps(result).encode())
    return 0


def _import_tensorflow() -> None:
    """Import TensorFlow without matplotlib, which Keras imports for its galleries where it is installed:
    an eighth of the time that a process takes to start, in each round of each cell."""
    if "matplotlib" in sys.modules:
        return
    # Python's own way to say that a module is not there; from here on it is again.
    sys.modules["matplotlib"] = None  # type: ignore[assignment]
    try:
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
    finally:
        del sys.modules["matplotlib"]


def _prove(
    config: TrainingConfig, device: Device, job: dict[str, Any], native_log: NativeLog
) -> dict[str, Any]:
    from tools.measure.proof import prove_equal

    return prove_equal(
        config, device, job["loaders"], records=job["records"], allow_different=job["allow_different"]
    )


def _train(
    config: TrainingConfig, device: Device, job: dict[str, Any], native_log: NativeLog
) -> dict[str, Any]:
    from loaders.factory import make_loader
    from training.step import Trainer, fetch

    built = time.perf_counter()
    loader = make_loader(LoaderConfig.of(config, form="train", device=device))
    trainer = Trainer(config, loader.source.schema)
    batches = iter(loader.dataset())
    run = measure(
        lambda: next(batches),
        lambda batch: trainer.step(batch[0], batch[1]),
        fetch,
        _limits(job, _buffered_batches(config)),
        lambda: len(native_log.compiles),
    )
    return {"decode": loader.decode, "copy_s": _copy_s(batches, device), **_raw(run, built)}


def _loader(
    config: TrainingConfig, device: Device, job: dict[str, Any], native_log: NativeLog
) -> dict[str, Any]:
    from loaders.factory import make_loader

    built = time.perf_counter()
    loader = make_loader(LoaderConfig.of(config, form="train", device=device))
    batches = iter(loader.dataset())
    run = measure(
        lambda: next(batches), lambda batch: batch, _wait_for, _limits(job, _buffered_batches(config))
    )
    return {"decode": loader.decode, "copy_s": 0.0, **_raw(run, built)}


def _ceiling(
    config: TrainingConfig, device: Device, job: dict[str, Any], native_log: NativeLog
) -> dict[str, Any]:
    """The step on one batch that is on the device already: no input pipeline can be faster."""
    import tensorflow as tf

    from loaders.factory import make_loader
    from training.step import Trainer, fetch

    built = time.perf_counter()
    loader = make_loader(LoaderConfig.of(replace(config, loader=job["batch_from"]), form="train"))
    trainer = Trainer(config, loader.source.schema)
    batches = iter(loader.dataset())
    with tf.device(f"/{device}:0"):
        image_BHWC, tokens_BT = (tf.identity(part) for part in next(batches))
    # The pipeline must not go on in the background.
    del batches
    run = measure(
        lambda: (image_BHWC, tokens_BT),
        lambda batch: trainer.step(*batch),
        fetch,
        _limits(job, 0),
        lambda: len(native_log.compiles),
    )
    return {"decode": None, "copy_s": 0.0, **_raw(run, built)}


def _peak_rss_mib() -> float:
    """The most memory that this process had resident."""
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset / 2**20)
    import resource

    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _wait_for(batch: tuple[Any, ...]) -> None:
    """Wait until a batch is there: one number of it is fetched."""
    batch[1][0, 0].numpy()


def _copy_s(batches: Iterator[tuple[Any, ...]], device: Device) -> float:
    """Seconds that copying a batch to the device takes when nothing else runs: the median of some
    copies; 0 where the batch is on the step's device already."""
    import tensorflow as tf

    if device == "cpu":
        return 0.0
    batch = next(batches)
    if "GPU" in batch[0].device:
        return 0.0
    seconds = []
    for _ in range(_COPIES):
        began = time.perf_counter()
        with tf.device("/gpu:0"):
            copied = tf.identity(batch[0])
        copied[0, 0, 0, 0].numpy()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _limits(job: dict[str, Any], buffered_batches: int) -> Limits:
    return Limits(measure_s=job["measure_s"], warm_up_s=job["warm_up_s"], buffered_batches=buffered_batches)


def _buffered_batches(config: TrainingConfig) -> int:
    """Batches that can lie ready when the first step ends: those that are prefetched, one in each call
    that decodes at the same time, and the one that is handed over."""
    return config.prefetch + (config.parallel_calls or usable_cores()) + 1


def _raw(run: Run, built: float) -> dict[str, Any]:
    """The run's raw values; ``built`` is when making the loader and the model began."""
    total_s = run.first_step_s + sum(window.seconds for window in run.windows)
    raw = asdict(run)
    # A microsecond is finer than any clock's noise here, and a third of the file.
    for name in ("step_s", "wait_s"):
        raw[name] = [round(seconds, 6) for seconds in raw[name]]
    return {**raw, "build_s": max(0.0, run.measured_to - built - total_s)}


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no tuples; the config's sequences are."""
    return {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}


if __name__ == "__main__":
    status = 1
    try:
        log_to_stderr()
        status = main(*sys.argv[1:])
    except ValueError as error:
        print(error, file=sys.stderr)
        status = 2
    except (RunFailed, OSError) as error:
        print(error, file=sys.stderr)
        status = FAILED
    except Exception as error:
        # TensorFlow's errors among them: the cause in one line, not its graph.
        print(f"{type(error).__name__}: {last_line(error)}", file=sys.stderr)
        status = FAILED
    except KeyboardInterrupt:
        status = 130
    # Tearing down a pipeline that still reads ahead takes seconds, and everything is written.
    sys.stderr.flush()
    os._exit(status)
