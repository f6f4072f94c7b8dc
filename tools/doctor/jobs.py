"""What a measuring process does: look at a pipeline, at a step, or only at a rate."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psutil

from loaders.cores import usable_cores
from tools.doctor import coupling, facts, ladder
from tools.doctor.chain import build
from tools.doctor.fixes import Change, applied
from tools.doctor.watch import Watch
from training.native_log import NativeLog

if TYPE_CHECKING:
    from tools.doctor.worker import Reporter

Job = dict[str, Any]


class PipelineFailed(Exception):
    """The user's pipeline raised; the sentence names the element and the call."""


def dataset(job: Job, reporter: Reporter, log: NativeLog) -> None:
    """The ladder of a pipeline: what it consists of, the rate of each prefix, and of the whole as it runs."""
    seconds = job["seconds"]
    make_dataset = _factory(job)
    reporter.tell("making the dataset")
    rows = ladder.inspect(make_dataset)
    if not rows:
        raise ValueError(f"{job['dataset']}: it made no dataset")
    whole = build(make_dataset)[0]
    reporter.found(
        rows=rows,
        cores=usable_cores(),
        options=ladder.options_of(whole),
        memory_mib=psutil.virtual_memory().total / 2**20,
        files=ladder.source_files(make_dataset),
    )
    try:
        for _ in ladder.measure_rows(make_dataset, rows, seconds=seconds, tell=reporter.tell):
            reporter.found(rows=rows)
        reporter.found(features=ladder.record_features(make_dataset, rows))
        reporter.tell("timing the whole pipeline as it runs")
        per_s = rows[-1].rate.per_s if rows[-1].rate else 1.0
        fill_s = max(
            (ladder.fill_time_s(rows, n) for n, row in enumerate(rows) if row.call == "cache"), default=0.0
        )
        real = ladder.measure_real(make_dataset, seconds=2 * seconds, per_s=per_s, fill_s=fill_s)
        reporter.found(real=real)
        reporter.tell("reading TensorFlow's own model")
        ladder.read_own_model(make_dataset, rows, seconds=seconds)
        ladder.measure_functions(make_dataset, rows, tell=reporter.tell, seconds=seconds / 2)
        ladder.measure_dali(make_dataset, rows, seconds=seconds / 2, tell=reporter.tell)
        ladder.measure_inner(make_dataset, rows, seconds=seconds / 2, tell=reporter.tell)
        reporter.found(rows=rows)
    except ValueError as error:
        if str(error) == "it gives no element":
            raise ValueError(f"{job['dataset']}: the dataset gives no element") from None
        raise _located(make_dataset, rows, error) from error
    except Exception as error:
        raise _located(make_dataset, rows, error) from error


def step(job: Job, reporter: Reporter, log: NativeLog) -> None:
    """A step and its dataset: together, apart, and what the step makes TensorFlow trace and compile."""
    import tensorflow as tf

    found = facts.StepFacts()
    watch = Watch(jit=job["jit"], compiled=lambda: (len(log.compiles), log.compile_s))
    with watch:
        make_dataset = _factory(job)
        user_step = _step(job)
        loop = coupling.Loop(make_dataset=make_dataset, step=user_step, watch=watch, log=log, facts=found)
        try:
            coupling.first_steps(loop, tell=reporter.tell)
            coupling.finish(loop)
            reporter.found(**{job["name"]: found})
            if job["couple"]:
                coupling.coupled(loop, seconds=2 * job["seconds"], tell=reporter.tell)
                coupling.finish(loop)
                reporter.found(**{job["name"]: found})
            coupling.step_alone(loop, seconds=job["seconds"], tell=reporter.tell)
            if job["couple"]:
                coupling.loader_alone(loop, seconds=job["seconds"], tell=reporter.tell)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not any(seen.jit for seen in watch.functions.values()):
                raise
            # XLA can't compile it: that is what was asked.
            found.failed = " ".join(error.message.split())[:400]
        coupling.finish(loop)
        reporter.found(**{job["name"]: found})


def rate(job: Job, reporter: Reporter, log: NativeLog) -> None:
    """One figure: elements a second of the pipeline, with the step where there is one, and with a fix
    applied."""
    changes = [Change(**each) for each in job["changes"]]
    jit = next((each.value for each in changes if each.kind == "jit"), None)
    watch = Watch(jit=jit, compiled=lambda: (len(log.compiles), log.compile_s))
    with ExitStack() as stack:
        if job["step"] or job["fit"]:
            stack.enter_context(watch)
        make_dataset = _factory(job)

        def changed() -> Any:
            with applied(changes):
                return make_dataset()

        if not (job["step"] or job["fit"]):
            reporter.tell("timing the pipeline")
            per_s = job["per_s"]
            measured = ladder.measure_real(changed, seconds=job["seconds"], per_s=per_s, fill_s=job["fill_s"])
            reporter.found(rate=measured.per_s)
            return
        found = facts.StepFacts()
        loop = coupling.Loop(make_dataset=changed, step=_step(job), watch=watch, log=log, facts=found)
        coupling.first_steps(loop, tell=reporter.tell)
        coupling.coupled(loop, seconds=job["seconds"], tell=reporter.tell)
        reporter.found(rate=found.coupled_per_s)


def _factory(job: Job) -> Callable[[], Any]:
    from tools.doctor.worker import load

    make_dataset = load(job["dataset"], "the pipeline")
    return functools.partial(make_dataset, **job["arguments"])


def _step(job: Job) -> Callable[..., Any]:
    from tools.doctor.worker import load

    if job["fit"]:
        from tools.doctor.keras_fit import fit_step

        return fit_step(load(job["fit"], "--fit")(), jit=job.get("jit"))
    user_step: Callable[..., Any] = load(job["step"], "--step")
    return user_step


def _located(make_dataset: Callable[[], Any], rows: list[facts.Row], error: Exception) -> Exception:
    """The user's exception with the element and the call that raised it: of the shortest prefix that does."""
    from tools.doctor.worker import sentence_of

    number = next((number for number, row in enumerate(rows) if row.rate is None), len(rows) - 1)
    row = rows[number]
    taken, began = 0, time.perf_counter()
    try:
        for _ in build(make_dataset)[1][number].dataset:
            taken += 1
            if time.perf_counter() - began > 20:
                break
    except Exception as again:
        error = again
    return PipelineFailed(
        f"element {taken + 1} of .{row.call} at {ladder.where(row.place)} raised {sentence_of(error)}"
    )
