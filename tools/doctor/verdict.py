"""What limits a run: input, compute, copies, compiling, the host, or nothing in particular."""

from __future__ import annotations

from dataclasses import dataclass

from tools.doctor.facts import Facts, StepFacts

BALANCED = 0.10
"""Dataset and step are as fast as each other within this share."""
COMPILE_SHARE = 0.10
WAIT_SHARE = 0.10
HOST_CORES = 0.5
"""Cores that a step keeps busy below which neither the host nor the device computes: they wait for each
other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One word, and the figures that prove it."""

    limit: str
    """'input-bound', 'compute-bound', 'balanced', 'compile-bound', 'host-bound', 'no step', 'fails' or
    'unknown'."""
    sentence: str


def judge(facts: Facts) -> Verdict:
    """The verdict on all that was measured."""
    step = facts.step
    if step is None:
        if facts.real is None:
            return Verdict(limit="unknown", sentence="the pipeline was not measured to its end")
        rate = facts.real
        return Verdict(
            limit="no step",
            sentence=f"the pipeline alone gives {rate.per_s:.4g} elements a second, with {rate.cores:.1f} of "
            f"{facts.cores} cores busy; name its step with --step to see whether that is enough",
        )
    if step.failed is not None:
        return Verdict(limit="fails", sentence=f"the step could not run: {step.failed}")
    if not step.step_per_s or not step.coupled_per_s or not step.loader_per_s:
        return Verdict(limit="unknown", sentence="the step was not measured to its end")
    figures = (
        f"dataset alone {step.loader_per_s:.4g}, step alone {step.step_per_s:.4g}, together "
        f"{step.coupled_per_s:.4g} steps a second; waiting for data {step.wait_share:.0%}, tracing and "
        "compiling "
        f"{step.compile_share:.0%} of the time"
    )
    return Verdict(limit=_limit_of(step), sentence=figures)


def _limit_of(step: StepFacts) -> str:
    ratio = step.loader_per_s / step.step_per_s
    if step.compile_share >= COMPILE_SHARE:
        return "compile-bound"
    if 1 - BALANCED <= ratio <= 1 / (1 - BALANCED):
        return "balanced"
    if ratio < 1:
        return "input-bound"
    if step.step_cores < HOST_CORES and step.wait_share <= WAIT_SHARE:
        return "host-bound"
    return "compute-bound"
