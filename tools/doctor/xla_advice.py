"""Whether XLA pays for a step: both ways measured after their warm-up, with the steps that earn compiling
back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tools.doctor.facts import Facts, StepFacts

WORTH = 1.05


@dataclass(frozen=True, kw_only=True, slots=True)
class XlaAdvice:
    """One line of advice, and its figures; None for what was not measured."""

    advice: str
    off_per_s: float | None = None
    jit_per_s: float | None = None
    compile_s: float | None = None
    break_even_steps: int | None = None
    """Steps after which compiling is earned back; None where it never is."""


def advise(facts: Facts) -> XlaAdvice | None:
    """What to do about XLA; None where there is no step with a tf.function."""
    step, other = facts.step, facts.other_jit
    if step is None or not step.functions:
        return None
    jit_is_on = any(function.jit for function in step.functions)
    jit, off = (step, other) if jit_is_on else (other, step)
    if jit is not None and jit.failed is not None:
        lines = sorted({f"{each.op} at line {each.place.line}" for function in jit.functions
                        for each in function.not_compilable if each.place})  # fmt: skip
        what = f": XLA can't compile {', '.join(lines[:3])}" if lines else ""
        return XlaAdvice(advice=f"fix this first, or leave XLA off{what}", off_per_s=_rate(off))
    off_per_s, jit_per_s = _rate(off), _rate(jit)
    compile_s = jit.compile_s if jit is not None else None
    if off_per_s is None or jit_per_s is None:
        return XlaAdvice(
            advice="not measured both ways", off_per_s=off_per_s, jit_per_s=jit_per_s, compile_s=compile_s
        )
    again = jit is not None and jit.compile_share >= 0.1
    even = None
    if jit_per_s > off_per_s and compile_s is not None:
        even = math.ceil(compile_s / (1 / off_per_s - 1 / jit_per_s))
    if again:
        advice = "fix this first: it compiles again and again"
    elif jit_per_s > WORTH * off_per_s:
        advice = f"use it: {jit_per_s / off_per_s:.2f} times as fast, earned back after {even} steps"
    elif off_per_s > WORTH * jit_per_s:
        advice = f"don't: {off_per_s / jit_per_s:.2f} times as fast without"
    else:
        advice = "makes no difference here"
    return XlaAdvice(
        advice=advice, off_per_s=off_per_s, jit_per_s=jit_per_s, compile_s=compile_s, break_even_steps=even
    )


def _rate(step: StepFacts | None) -> float | None:
    return step.step_per_s if step is not None and step.step_per_s else None
