"""Asks the doctor about every planted fault and healthy pipeline: ``python -m tests.planted.suite [NAME…]``.

Each answer is a line of the file that ``--answers`` names; what is there already is not asked again, so
that a
run that was cut off goes on where it was. ``--runs 10`` asks ten times. The exit status is 1 where an
answer is
wrong: a fault is right when its finding comes first, at its line; a healthy pipeline when it has no finding
above a note.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.planted import data, twins
from tests.planted.twins import HERE, missing

ROOT = HERE.parents[1]
TIMEOUT_S = 300
KEPT = ("kind", "severity", "line", "measure", "predicted_gain", "measured_gain", "message")
"""Of each finding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A pipeline of which it is known what the doctor must say."""

    path: Path
    kind: str | None
    """Of the first finding; None where there must be none."""
    second_kind: str | None
    line: int | None
    has_step: bool
    gain: bool
    """Whether the fix is mechanical, and ``--verify`` measures it."""
    requires: str | None

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @classmethod
    def read(cls, path: Path) -> Planted:
        text = path.read_text(encoding="utf-8")
        names: dict[str, Any] = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                names[node.name] = None
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = node.value.value if isinstance(node.value, ast.Constant) else None
                names[node.targets[0].id] = value
        line = next(
            (n for n, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith("# FAULT")), None
        )
        return cls(
            path=path,
            kind=names.get("KIND"),
            second_kind=names.get("SECOND_KIND"),
            line=line,
            has_step="train_step" in names,
            gain=bool(names.get("GAIN")),
            requires=names.get("REQUIRES"),
        )


def planted() -> Iterator[Planted]:
    for folder in ("faults", "healthy"):
        for path in sorted((HERE / folder).glob("*.py")):
            if path.stem != "__init__":
                yield Planted.read(path)


def ask(one: Planted, *, verify: bool) -> dict[str, Any]:
    """The doctor's answer, through its command line."""
    result = data.root() / f"diagnosis-{os.getpid()}.json"
    command = [sys.executable, "tools/diagnose.py", f"{one.path}:make_dataset", "--json", str(result)]
    if one.has_step:
        command += ["--step", f"{one.path}:train_step"]
    if verify:
        command += ["--verify", "--budget-s", "280"]
    environment = {**os.environ, "PLANTED_DATA": str(data.root()), **prepared(one.path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if not result.exists():
        return {"name": one.name, "failed": done.stderr.strip().splitlines()[-1:] or ["it said nothing"]}
    told = json.loads(result.read_text())
    result.unlink()
    return {
        "name": one.name,
        "verdict": told["verdict"],
        "seconds": told["seconds"],
        "findings": [{name: each[name] for name in KEPT} for each in told["findings"]],
    }


def prepared(path: Path) -> Mapping[str, str]:
    """What a fault's ``prepare`` wants in the environment; nothing where it has none."""
    if "def prepare(" not in path.read_text():
        return {}
    done = twins._run(twins.read_fault(path), "prepare")
    environment: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return environment


def wrong(one: Planted, answer: Mapping[str, Any]) -> str | None:
    """What is wrong with an answer; None where it is right."""
    if "failed" in answer:
        return f"failed: {answer['failed']}"
    found = answer["findings"]
    if one.kind is None:
        loud = [each for each in found if each["severity"] != "note"]
        return (
            f"healthy, but {loud[0]['kind']} at line {loud[0]['line']}: {loud[0]['message']}"
            if loud
            else None
        )
    first = [(each["kind"], each["line"]) for each in found]
    if not first or first[0] != (one.kind, one.line):
        return f"wanted {one.kind} at line {one.line}, got {first[:3]}"
    if one.second_kind is not None and (len(first) < 2 or first[1][0] != one.second_kind):
        return f"wanted {one.second_kind} second, got {first[1:3]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted.suite")
    parser.add_argument(
        "names", nargs="*", help="faults/NAME or healthy/NAME, or a part of it; all when left out"
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--verify", action="store_true", help="measure the fixes that are mechanical")
    parser.add_argument("--answers", type=Path, help="file of the answers; by default beside the data sets")
    asked = parser.parse_args()
    for name in data.makers():
        data.folder(name)
    path = asked.answers or data.root() / "answers.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    bad = 0
    for number in range(asked.runs):
        for one in planted():
            if asked.names and not any(name in one.name for name in asked.names):
                continue
            if why := missing(one.requires):
                print(f"{one.name}: skipped, {why}", flush=True)
                continue
            answers = [each for each in known if each["name"] == one.name]
            if len(answers) > number:
                answer = answers[number]
            else:
                answer = ask(one, verify=asked.verify and one.gain)
                with path.open("a") as file:
                    file.write(json.dumps(answer) + "\n")
            fault = wrong(one, answer)
            bad += fault is not None
            print(
                f"{one.name}: {fault or 'right'} ({answer.get('seconds', 0):.0f} s){_gains(answer)}",
                flush=True,
            )
    print("all right" if not bad else f"{bad} wrong")
    return 1 if bad else 0


def _gains(answer: Mapping[str, Any]) -> str:
    first = next(iter(answer.get("findings", [])), None)
    if first is None:
        return ""
    gain, measured = first["predicted_gain"], first["measured_gain"]
    words = f"{gain:.2f}" if isinstance(gain, float) else f"{gain}"
    return f" predicted {words}" + (f", measured {measured:.2f}" if measured is not None else "")


if __name__ == "__main__":
    sys.exit(main())
