"""Diagnoses a pipeline: asks the measuring processes one after another, and judges what they found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.doctor import rules_files, rules_memory, rules_order, rules_step, rules_threads
from tools.doctor.config import DoctorConfig
from tools.doctor.facts import Facts, StepFacts, from_json
from tools.doctor.findings import find
from tools.doctor.launch import Said, measure
from tools.doctor.result import Diagnosis
from tools.doctor.verdict import judge
from tools.doctor.verify import verify
from tools.doctor.xla_advice import advise

RULES = (
    *rules_step.RULES,
    *rules_threads.RULES,
    *rules_files.RULES,
    *rules_memory.RULES,
    *rules_order.RULES,
)

MEASURE_S = 1.0
"""Of each prefix: long enough for the ladder's rates to agree with a hand-written timing within a tenth."""
START_S = 6.0
"""That a process takes to import TensorFlow and to make the user's dataset, on two cores."""
LEAST_S = 3.0
"""Left of the budget, below which no further process is begun."""

Tell = Callable[[str], None]


def diagnose(
    make_dataset: Callable[[], Any] | str,
    step: Callable[..., Any] | str | None = None,
    *,
    fit: Callable[[], Any] | str | None = None,
    verify: bool = False,
    budget_s: float = 120.0,
    tell: Tell | None = None,
) -> Diagnosis:
    """Diagnose a pipeline, and a step with it, from a notebook or a script.

    ``make_dataset`` and ``step`` are functions that stand in a file, or references to them
    ('path/to/file.py:name'): they are imported again in processes of their own, where everything is measured.
    Errors: ValueError for what is wrong with them, RunFailed when they raise or hang.
    """
    config = DoctorConfig(
        dataset=reference_to(make_dataset),
        step=reference_to(step) if step is not None else None,
        fit=reference_to(fit) if fit is not None else None,
        verify=verify,
        budget_s=budget_s,
    )
    return run(config, tell=tell or (lambda _: None))


def reference_to(function: Callable[..., Any] | str) -> str:
    """A reference by which another process can import ``function``. Errors: ValueError."""
    if isinstance(function, str):
        return function
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier() or not Path(code.co_filename).is_file():
        raise ValueError(
            f"{name or function!r} must be a function at the top of a file, for it is imported again in a "
            "process of "
            "its own: write the cell to a file (%%writefile pipeline.py) and name it as 'pipeline.py:name'"
        )
    return f"{code.co_filename}:{name}"


def run(config: DoctorConfig, *, tell: Tell) -> Diagnosis:
    """All that ``config`` asks, within its budget.

    Errors: ValueError for a mistake of the user's, RunFailed for code of the user's that raises, each in one
    sentence.
    """
    began = time.monotonic()
    tell(f"this takes about {expected_s(config):.0f} s, and no more than {config.budget_s:.0f} s")
    known: dict[str, Any] = {}
    unfinished: str | None = None
    other_cores = 0.0
    for job in _jobs(config):
        left_s = config.budget_s - (time.monotonic() - began)
        if left_s < LEAST_S or unfinished:
            break
        said = _measure(job, known, timeout_s=left_s, tell=tell)
        unfinished = said.cut_off_while
        other_cores = max(other_cores, said.other_cores or 0.0)
    facts = facts_of(known)
    facts.unfinished = unfinished
    facts.other_cores = other_cores
    diagnosis = diagnosis_of(config, facts)
    if config.verify and not unfinished:
        verify(
            facts,
            diagnosis.findings,
            job=job_of(config, "rate"),
            deadline=began + config.budget_s,
            tell=tell,
        )
    diagnosis.seconds = time.monotonic() - began
    return diagnosis


def facts_of(known: dict[str, Any]) -> Facts:
    return from_json(Facts, known)  # type: ignore[no-any-return]


def diagnosis_of(config: DoctorConfig, facts: Facts) -> Diagnosis:
    """The judgement of what was found."""
    findings = find(facts, RULES)
    return Diagnosis(
        asked=asdict(config),
        facts=facts,
        verdict=judge(facts),
        findings=findings,
        xla=advise(facts),
        predicted=[
            {"kind": each.kind, "line": each.place.line, "gain": each.predicted_gain} for each in findings
        ],
    )


def expected_s(config: DoctorConfig) -> float:
    """How long it will take for a pipeline of ten calls."""
    seconds = START_S + 12 * 1.5 * MEASURE_S + 4
    if config.step or config.fit:
        seconds += 2 * START_S + 12 * MEASURE_S
    return min(seconds, config.budget_s)


def job_of(config: DoctorConfig, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "dataset": config.dataset,
        "arguments": config.arguments(),
        "step": config.step,
        "fit": config.fit,
        "seconds": MEASURE_S,
        "compile_log": bool(config.step or config.fit),
        **more,
    }


def _jobs(config: DoctorConfig) -> list[dict[str, Any]]:
    """What is measured, in this order; the step first, for it tells most."""
    jobs = [job_of(config, "dataset")]
    if config.step or config.fit:
        jobs.append(job_of(config, "step", name="step", jit=None, couple=True))
        jobs.append(job_of(config, "step", name="other_jit", jit="other", couple=False))
    return jobs


def _measure(job: dict[str, Any], known: dict[str, Any], *, timeout_s: float, tell: Tell) -> Said:
    if job.get("jit") == "other":
        step = from_json(StepFacts, known["step"]) if known.get("step") else None
        if step is None or not step.functions:
            return Said()
        job = {**job, "jit": not any(function.jit for function in step.functions)}
    said = measure(job, timeout_s=timeout_s, tell=tell)
    known.update(said.found)
    return said
