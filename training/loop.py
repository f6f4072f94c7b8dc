"""The training loop: next batch, step, and nothing that waits for the device in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from loaders.base import Loader
from loaders.cli import RunFailed
from training.config import TrainingConfig, profile_range
from training.step import Trainer, fetch
from training.timing import StepTimes

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class History:
    """What a run did, step by step."""

    times: StepTimes
    loss: list[float] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)


def train(
    trainer: Trainer,
    loader: Loader,
    steps: int,
    *,
    evaluate: Callable[[], dict[str, float]] | None = None,
    log_ids: Any = None,
) -> History:
    """Train ``steps`` steps.

    Losses stay on the device until a progress line or the end fetches them. ``log_ids``
    is an unbuffered file for the ids of the records (the loader was built ``with_ids``).
    Errors: whatever the pipeline or the step raises; OSError for files.
    """
    config = trainer.config
    history = History(times=StepTimes(batch_size=config.batch_size))
    board = _Board(config)
    profiler = _Profiler(config, steps)
    batches = iter(loader.dataset())
    pending: list[tf.Tensor] = []
    began = time.perf_counter()
    for step in range(steps):
        profiler.before(step)
        with profiler.trace("wait_for_data", step):
            batch = next(batches, None)
        if batch is None:
            raise RunFailed(
                f"the loader {loader.name} ended after {step} of {steps} steps; training must not end"
            )
        got = time.perf_counter()
        with profiler.trace("train", step):
            pending.append(trainer.step(batch[0], batch[1]))
        if log_ids is not None:
            _write_ids(log_ids, batch[2], step, loader, config.batch_size)
        last = step + 1 == steps
        if last or (step + 1) % config.log_every == 0:
            history.loss += [fetch(loss) for loss in pending]
            pending.clear()
        ended = time.perf_counter()
        history.times.add(wait_s=got - began, step_s=ended - began)
        began = ended
        profiler.after(step)
        if not pending:
            _report(history, step, steps, board)
            began = time.perf_counter()
        due = last or (config.eval_every and (step + 1) % config.eval_every == 0)
        if evaluate and due:
            history.evaluations.append({"step": step + 1, **evaluate()})
            board.write(step + 1, history.evaluations[-1])
            began = time.perf_counter()
    return history


def evaluate(trainer: Trainer, loader: Loader, records: int | None = None) -> dict[str, float]:
    """Token and line accuracy over one pass (or its first ``records`` records).

    Padding rows and padding codes do not count.
    """
    totals = [0, 0, 0, 0]
    left = records
    for image_BHWC, tokens_BT, all_valid_B in loader.dataset():
        valid_B = all_valid_B
        if left is not None:
            valid_B = tf.logical_and(valid_B, tf.range(tf.size(valid_B)) < left)
            left -= int(valid_B.shape[0])
        counts = trainer.evaluate(image_BHWC, tokens_BT, valid_B).numpy().tolist()
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        if left is not None and left <= 0:
            break
    tokens_right, tokens, lines_right, lines = totals
    result = {
        "token_accuracy": tokens_right / tokens if tokens else 0.0,
        "line_accuracy": lines_right / lines if lines else 0.0,
        "records": lines,
    }
    log.info(
        "evaluation: token accuracy %.4f, line accuracy %.4f over %d records",
        result["token_accuracy"],
        result["line_accuracy"],
        lines,
    )
    return result


def _report(history: History, step: int, steps: int, board: _Board) -> None:
    """The progress line, over the steps since the one before."""
    times = history.times
    since = step + 1 - ((step % board.every) + 1)
    rate, share = times.rate_since(since), times.wait_share_since(since)
    note = "  (with start-up)" if since == 0 else ""
    log.info("step %d/%d  loss %.4f  %.0f img/s  waiting for data %.0f %%%s",
             step + 1, steps, history.loss[-1], rate, 100 * share, note)  # fmt: skip
    board.write(step + 1, {"loss": history.loss[-1], "images_per_s": rate, "wait_share": share})


def _write_ids(file: Any, image_id_BN: tf.Tensor, step: int, loader: Loader, batch_size: int) -> None:
    """Add a step's records to the unbuffered ``file``; on a full disk it ends with the step before."""
    plan, whole = loader.source.plan, file.tell()
    lines = []
    for row, image_id in enumerate(image_id_BN.numpy()):
        text = image_id.tobytes().rstrip(b"\0").decode("utf-8", "backslashreplace")
        epoch = plan.epoch_of(step * batch_size + row)
        lines.append(f"{epoch},{step},{_csv(text)}\n")
    _write_whole(file, "".join(lines).encode(), whole)


def _write_whole(file: Any, content: bytes, whole: int) -> None:
    """Write all of ``content`` to an unbuffered file, or cut it back to ``whole`` bytes and raise OSError."""
    left = memoryview(content)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        with suppress(OSError):
            file.truncate(whole)
        raise OSError(error.errno, error.strerror, file.name) from error


def _csv(text: str) -> str:
    """A field of a CSV file (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


class _Board:
    """Scalars for TensorBoard; nothing without --logdir."""

    def __init__(self, config: TrainingConfig) -> None:
        self.every = config.log_every
        self._writer = tf.summary.create_file_writer(config.logdir) if config.logdir else None

    def write(self, step: int, scalars: dict[str, float]) -> None:
        if self._writer is None:
            return
        with self._writer.as_default():
            for name, value in scalars.items():
                if name != "step":
                    tf.summary.scalar(name, value, step=step)
        self._writer.flush()


class _Profiler:
    """TensorFlow's profiler around the steps of --profile-steps; elsewhere it does nothing."""

    def __init__(self, config: TrainingConfig, steps: int) -> None:
        self._logdir = config.logdir
        self._steps = profile_range(config.profile_steps) if config.profile_steps else range(0)
        if self._steps and self._steps.stop > steps:
            raise ValueError(
                f"--profile-steps {config.profile_steps} must end within the {steps} steps of the run"
            )
        self._on = False

    def before(self, step: int) -> None:
        if self._steps and step == self._steps.start:
            tf.profiler.experimental.start(self._logdir)
            self._on = True

    def after(self, step: int) -> None:
        if self._on and step + 1 == self._steps.stop:
            tf.profiler.experimental.stop()
            self._on = False
            log.info("profile of steps %d to %d: %s", self._steps.start, step, self._logdir)

    def trace(self, name: str, step: int) -> Any:
        """A named event in the profile; ``train`` carries the step's number as TensorBoard expects it."""
        if not self._on:
            return nullcontext()
        if name == "train":
            return tf.profiler.experimental.Trace(name, step_num=step, _r=1)
        return tf.profiler.experimental.Trace(name, step=step)


def log_ids_file(path: str | None) -> Any:
    """A context with the file for --log-ids, its header written; None without one."""
    return _open_ids(path) if path else nullcontext()


def _open_ids(path: str) -> Any:
    file = open(path, "wb", buffering=0)  # noqa: SIM115
    _write_whole(file, b"epoch,step,image_id\n", 0)
    return file
