"""Proves every planted fault against its fixed twin: ``python -m tests.planted.twins [NAME…]``.

Each side runs in a fresh process, in turn: faulty, fixed, fixed, faulty. What is counted and not timed runs
once a side. The exit status is 1 where a fault is not proved.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.planted import data

HERE = Path(__file__).resolve().parent
FAULTS = HERE / "faults"
TIMEOUT_S = 120

TIMED = {"throughput", "memory", "time-to-first"}
UNITS = {
    "throughput": "elements/s",
    "memory": "MiB",
    "time-to-first": "s to the first",
    "compiles": "compiles",
    "variety": "variants an image",
    "order": "of an epoch's records",
    "retraces": "traces",
    "not-compilable": "of 40 steps run",
    "shuffle-after-batch": "neighbours apart",
}
"""By kind, else by proof."""
LEAST_RATIO = {
    "throughput": 1.15,
    "memory": 1 / 0.7,
    "time-to-first": 1.15,
    "compiles": 2.0,
    "variety": 1.5,
    "order": 1.15,
}
"""How many times as good the fixed twin must be."""
COMPILED = re.compile(r"\] Compiled \S+ \d+ times, compile time")
"""What TensorFlow's device_compilation_profiler writes once for each compile."""

OTHERS = re.compile(r"^.* cores of others$", re.MULTILINE)
"""What a timed side says about the rest of the machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    path: Path
    proof: str
    kind: str
    requires: str | None
    prepares: bool

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def unit(self) -> str:
        return UNITS.get(self.kind, UNITS[self.proof])

    @property
    def more_is_worse(self) -> bool:
        return self.proof in {"memory", "time-to-first", "compiles"} and self.kind != "not-compilable"

    @property
    def counts_compiles(self) -> bool:
        return self.proof == "compiles" and self.kind not in {"retraces", "not-compilable"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    faulty: float
    fixed: float
    raw: Mapping[str, Sequence[float]]
    """The figures of each side's processes; ``faulty`` and ``fixed`` are their medians."""
    ratio: float
    """How many times as good the fixed twin is."""
    proved: bool


def read_fault(path: Path) -> Fault:
    """What a fault's file says about itself; it is not run."""
    tree = ast.parse(path.read_text())
    constants: dict[str, Any] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                constants[name] = value
    return Fault(
        path=path,
        proof=constants["PROOF"],
        kind=constants["KIND"],
        requires=constants.get("REQUIRES"),
        prepares=any(isinstance(each, ast.FunctionDef) and each.name == "prepare" for each in tree.body),
    )


def missing(requires: str | None) -> str | None:
    """Why a fault can't be proved here, or None where it can."""
    match requires:
        case None:
            return None
        case "dali" if importlib.util.find_spec("nvidia.dali") is None:
            return "DALI is not installed"
        case "gpu" if not Path("/proc/driver/nvidia").exists():
            return "there is no NVIDIA GPU"
        case "gcc" if shutil.which("gcc") is None and shutil.which("g++") is None:
            return "there is no compiler"
        case "dali" | "gpu" | "gcc":
            return None
    raise ValueError(f"REQUIRES must be dali, gpu or gcc: {requires!r}")


def prove(fault: Fault) -> Proof:
    environment = json.loads(_last_line(_run(fault, "prepare"))) if fault.prepares else {}
    sides = ("faulty", "fixed", "fixed", "faulty") if fault.proof in TIMED else ("faulty", "fixed")
    figures: dict[str, list[float]] = {"faulty": [], "fixed": []}
    for side in sides:
        figures[side].append(_figure(fault, side, environment))
    faulty, fixed = median(figures["faulty"]), median(figures["fixed"])
    worse, better = (fixed, faulty) if fault.more_is_worse else (faulty, fixed)
    ratio = better / worse if worse else float("inf")
    proved = ratio >= LEAST_RATIO[fault.proof]
    return Proof(faulty=faulty, fixed=fixed, raw=figures, ratio=ratio, proved=proved)


def _figure(fault: Fault, side: str, environment: Mapping[str, str]) -> float:
    done = _run(fault, side, environment)
    return len(COMPILED.findall(done.stderr)) if fault.counts_compiles else float(_last_line(done))


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1]


def _run(
    fault: Fault, side: str, more_environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One side in a fresh process; its temporary files go with it.

    Errors: RuntimeError with the end of its output when it fails.
    """
    with tempfile.TemporaryDirectory(prefix="feedline-twin-") as folder:
        environment = {
            **os.environ,
            **(more_environment or {}),
            "PLANTED_DATA": str(data.root()),
            "TMPDIR": folder,
            "TF_CPP_MIN_LOG_LEVEL": "0",
            "TF_CPP_VMODULE": "device_compilation_profiler=1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.planted.side", str(fault.path), side],
            cwd=HERE.parents[1],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{fault.name}, {side}: exit {done.returncode}\n{done.stderr[-3000:]}")
    if words := OTHERS.search(done.stderr):
        print(f"  {fault.name}, {side}: {words[0]}", file=sys.stderr)
    return done


def faults(names: list[str]) -> Iterator[Fault]:
    """All faults, or those that are named.

    Errors: ValueError for a name that is none.
    """
    there = {path.stem: path for path in sorted(FAULTS.glob("*.py")) if path.stem != "__init__"}
    for name in names or there:
        if name not in there:
            raise ValueError(f"a fault must be one of {', '.join(there)}: {name!r}")
        yield read_fault(there[name])


def main(names: list[str]) -> int:
    table = Table("fault", "proof", "faulty", "fixed", "times as good", "")
    wanted = list(faults(names))
    data.make_all()
    all_proved = True
    for fault in wanted:
        reason = missing(fault.requires)
        if reason:
            table.add_row(fault.name, fault.proof, "", "", "", f"skipped: {reason}")
            continue
        try:
            proof = prove(fault)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
            table.add_row(fault.name, fault.proof, "", "", "", "FAILED")
            all_proved = False
            continue
        all_proved &= proof.proved
        table.add_row(
            fault.name,
            f"{fault.proof}: {fault.unit}",
            f"{proof.faulty:.4g}",
            f"{proof.fixed:.4g}",
            f"{proof.ratio:.2f}",
            "PROVED" if proof.proved else "not proved",
        )
        raw = {side: [f"{figure:.4g}" for figure in figures] for side, figures in proof.raw.items()}
        print(f"{fault.name}: {raw}, {proof.ratio:.2f}", file=sys.stderr)
    Console(width=130).print(table)
    return 0 if all_proved else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
