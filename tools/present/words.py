"""What the terminal, Markdown and the page have in common: figures and sentences, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from loaders.reference import short_name

KINDS = ("train", "ceiling", "loader")
"""The order in which cells are shown, the step's first."""
LEDGER = {
    "wait_s": "wait",
    "copy_s": "copy",
    "compute_s": "compute",
    "compile_s": "compile",
    "host_s": "host",
}
"""Parts of a ledger, and what they are called."""
LEAST_ROUNDS = 8
"""Rounds below which a result has no intervals."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal would obey, what turns text around, and halves of characters that UTF-8 can't hold."""

Cell = Mapping[str, Any]
Result = Mapping[str, Any]


def cleaned(value: Any) -> Any:
    """A copy in which every text is safe to print: what is not to be seen is replaced by U+FFFD."""
    if isinstance(value, str):
        return _UNSEEN.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {cleaned(name): cleaned(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    return value


def rate(images_per_s: float | None) -> str:
    """Images a second: whole above 100, else three figures."""
    return "" if images_per_s is None else figure(images_per_s)


def figure(value: float) -> str:
    """A number with about three figures, and none of its whole digits lost."""
    size = abs(value)
    digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def short(value: float) -> str:
    """A number without zeros behind its point, for ticks and settings."""
    return f"{value:,.10g}"


def percent(share: float | None, digits: int = 0) -> str:
    return "" if share is None else f"{100 * share:.{digits}f} %"


def interval(low: float | None, high: float | None) -> str:
    """Both ends; empty where there are too few rounds for one."""
    return "" if low is None or high is None else f"{figure(low)} to {figure(high)}"


def cell_label(cell: Cell) -> str:
    """A cell's short name: tfdata/jit, ceiling/jit, tfdata alone."""
    if cell["kind"] == "loader":
        return f"{short_name(cell['loader'])} alone"
    first = "ceiling" if cell["kind"] == "ceiling" else short_name(cell["loader"])
    return f"{first}/{cell['xla']}"


def by_kind(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in the order in which they are shown."""
    return sorted(cells, key=lambda cell: KINDS.index(cell["kind"]))


def title(result: Result) -> str:
    """What was compared, on what."""
    data, schema = result["data"], result["data"]["schema"]
    return (
        f"{data['records']:,} records of {schema['height']}x{schema['width']}x{schema['channels']}, "
        f"{data['bytes'] / max(1, data['records']) / 1000:.1f} KB each, "
        f"batch {result['config']['batch_size']}, on the {result['device'].upper()} ({_where(result)})"
    )


def _where(result: Result) -> str:
    metadata = result["metadata"]
    if result["device"] == "gpu" and metadata["gpus"]:
        return ", ".join(metadata["gpus"])
    cores = metadata.get("usable_cores") or metadata.get("cores")
    return f"{cores} cores" if cores else metadata["processor"]


def verdict(result: Result) -> str:
    return result.get("verdict") or (
        "No verdict: that takes a loader with the step, the loader alone and the step alone."
    )


def rounds_of(result: Result) -> int:
    """Rounds of the cell that has most."""
    return max((len(cell["rounds"]) for cell in result["cells"]), default=0)


def disturbed_rounds(cell: Cell) -> int:
    return sum(bool(each.get("disturbed")) for each in cell["rounds"])


def proof_sentence(result: Result) -> str:
    """Whether the loaders gave the same batches."""
    proof = result["proof"]
    names = [short_name(name) for name in proof["loaders"]]
    if proof.get("difference"):
        return f"The loaders do not give the same batches: {proof['difference']}."
    if len(names) < 2:
        return f"One loader only ({', '.join(names)}): nothing to prove equal."
    together = f"{', '.join(names[:-1])} and {names[-1]}"
    return (
        f"{together} give the same {proof['records']:,} records, bit for bit ({', '.join(proof['parts'])})."
    )


def faster_first(pair: Mapping[str, Any]) -> dict[str, Any]:
    """The pair turned so that its ratio is not below 1."""
    if pair["value"] >= 1:
        return dict(pair)
    low, high = pair["low"], pair["high"]
    return {
        **pair,
        "a": pair["b"],
        "b": pair["a"],
        "value": 1 / pair["value"],
        "low": None if high is None else 1 / high,
        "high": None if low is None else 1 / low,
    }


def pair_sentence(pair: Mapping[str, Any]) -> str:
    """What a pair, its faster cell first, says: equal, how much faster, or that it can't be told."""
    if pair["low"] is None:
        rounds = "1 round is" if pair["pairs"] == 1 else f"{pair['pairs']} rounds are"
        return f"not ranked: {rounds} too few for an interval"
    if pair["equal"]:
        return "equal, as far as this run can tell"
    return f"{pair['a']} is {times(pair['value'])}"


def times(ratio: float) -> str:
    """How much faster, for a ratio above 1."""
    return f"{100 * (ratio - 1):.1f} % faster" if ratio < 1.995 else f"{ratio:.1f} times as fast"


def fastest_sentence(result: Result) -> str | None:
    """The fastest cell with the step, and those that are equal to it; None where nothing was compared."""
    trained = [cell for cell in result["cells"] if cell["kind"] == "train"]
    pairs = result.get("comparisons") or []
    if len(trained) < 2 or not pairs:
        return None
    best = max(trained, key=lambda cell: float(cell["images_per_s"]))
    name = best["name"]
    beside = [pair for pair in pairs if name in (pair["a"], pair["b"])]
    equal = [pair["b"] if pair["a"] == name else pair["a"] for pair in beside if pair["equal"]]
    if any(pair["low"] is None for pair in beside):
        return f"Fastest in this run: {name}. Too few rounds to rank what is close."
    if not equal:
        return f"Fastest with the step: {name}, and no other is equal to it."
    return f"Fastest with the step: {name}. Equal to it, as far as this run can tell: {'; '.join(equal)}."


def pattern_words(pattern: Mapping[str, Any]) -> str:
    """The sentence of a pattern without its name, which is shown beside it."""
    return str(pattern["sentence"]).removeprefix(f"{pattern['name']}: ")


def notes(result: Result, *, findings: bool = True) -> list[str]:
    """What a reader of the table must know besides; ``findings`` are the patterns that are not steady,
    and the predictions that do not agree."""
    cells = by_kind(result["cells"])
    said = []
    if not result["complete"]:
        said.append(
            f"cut short ({result.get('why_stopped') or 'interrupted'}): the cells that were finished are here"
        )
    if result["proof"].get("difference"):
        said.append(f"the loaders do not give the same batches: {result['proof']['difference']}")
    if any(not cell["steady"] for cell in cells):
        said.append("* its rate was still changing when the warm-up was cut off")
    decodes = {cell["loader"]: cell["decode"] for cell in cells if cell.get("decode")}
    said += [f"{short_name(loader)} decodes by {decode}" for loader, decode in decodes.items()]
    said += _disturbances(cells)
    if findings:
        said += [note for cell in cells for note in _findings(cell)]
    if 0 < rounds_of(result) < LEAST_ROUNDS:
        what = "1 round is" if rounds_of(result) == 1 else f"{rounds_of(result)} rounds are"
        said.append(f"{what} too few for intervals: cells that are close are not ranked")
    cost = result.get("sampling_cost_share")
    if cost is not None:
        said.append(f"sampling took {100 * cost:.2f} % of one core")
    return said


def _disturbances(cells: Sequence[Cell]) -> list[str]:
    """One note for all: on a busy machine every cell has some."""
    disturbed = [cell for cell in cells if disturbed_rounds(cell)]
    if not disturbed:
        return []
    rounds = sum(disturbed_rounds(cell) for cell in disturbed)
    total = sum(len(cell["rounds"]) for cell in cells)
    which = "every cell" if len(disturbed) == len(cells) else ", ".join(map(cell_label, disturbed))
    return [
        f"other processes disturbed {rounds} of {total} measurements ({which}); run it on a quiet machine"
    ]


def _findings(cell: Cell) -> list[str]:
    said = []
    pattern, prediction = cell.get("pattern"), cell.get("prediction")
    if pattern and pattern["name"] not in ("steady", "warm-up only"):
        said.append(f"{cell_label(cell)}: {pattern['name']}: {pattern_words(pattern)}")
    if prediction and not prediction["agrees"]:
        said.append(f"{cell_label(cell)}: {prediction['sentence']}")
    return said
