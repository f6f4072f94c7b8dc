"""What the functions consist of that a pipeline maps over its elements, and which of their ops cost the
time."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.doctor.sites import Site, site_of_traceback

_INLINED = re.compile(r"^.*/_\d+/")

PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
"""Ops that call back into Python, under its global lock."""
WHILE_OPS = frozenset({"While", "StatelessWhile"})
DECODE_OPS = frozenset(
    {"DecodePng", "DecodeJpeg", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg", "DecodeWebP",
     "DecodeWav", "DecodeRaw", "DecodePaddedRaw", "DecodeCompressed"}
)  # fmt: skip
PARSE_OPS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample", "ParseSequenceExampleV2"})
_RANDOM = ("Random", "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial", "StatelessRandom",
           "StatelessMultinomial", "StatelessTruncatedNormal", "StatefulUniform", "StatefulStandardNormal",
           "StatefulTruncatedNormal", "SampleDistortedBoundingBox", "RngReadAndSkip")  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One op of a function's graph, or of a graph that it calls."""

    name: str
    type: str
    site: Site | None
    """The user's line that made it."""
    stateful: bool
    depth: int
    """0 in the function itself, 1 in the body of a loop, and so on."""
    op: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class OpTime:
    """Time of a function's ops of one type that one line made."""

    type: str
    site: Site | None
    seconds: float
    """For one call of the function, over all threads."""
    share: float
    """Of the time of all its ops."""


def ops_of(function: Any) -> list[Op]:
    """All ops of TensorFlow's wrapper of a dataset's function, nested graphs included."""
    return list(walk(function.function.graph))


def is_stateful(ops: list[Op]) -> bool:
    """Whether TensorFlow may not run calls of the function beside each other of its own accord.

    The rule is tf.data's own: an op that is stateful by its definition makes the function so. Looking
    things up in a table and reading a variable are allowed there, too.
    """
    allowed = (
        "Assert",
        "LookupTableFind",
        "ReadVariableOp",
        "Placeholder",
        "VarHandleOp",
        "HashTable",
        "While",
        "If",
    )
    return any(op.stateful and not op.type.startswith(allowed) for op in ops)


def is_random(op: Op) -> bool:
    return op.type.startswith(_RANDOM) and op.type != "RandomDataset"


def walk(graph: Any) -> Iterator[Op]:
    """All ops of a graph, those of the functions that they run behind them."""
    return _walk(graph, 0, set())


def _walk(graph: Any, depth: int, seen: set[str]) -> Iterator[Op]:
    for op in graph.get_operations():
        inner = _functions_of(op, graph)
        yield Op(
            name=op.name,
            type=op.type,
            site=site_of_traceback(op.traceback) if op.traceback else None,
            # A call or a loop is as stateful as what it runs, which comes next.
            stateful=bool(op.op_def.is_stateful) and not inner,
            depth=depth,
            op=op,
        )
        for name, body in inner:
            if name not in seen:
                seen.add(name)
                yield from _walk(body, depth + (op.type in WHILE_OPS), seen)


def _functions_of(op: Any, graph: Any) -> list[tuple[str, Any]]:
    """The graphs that ``op`` runs, by their functions' names."""
    found = []
    for attribute in op.op_def.attr:
        if attribute.type != "func":
            continue
        name = op.get_attr(attribute.name).name
        body = _graph_named(name, graph)
        if body is not None:
            found.append((name, body))
    return found


def _graph_named(name: str, graph: Any) -> Any:
    outer: Any = graph
    while outer is not None:
        functions = getattr(outer, "_functions", {})
        held = functions.get(name)
        if held is not None and getattr(held, "graph", None) is not None:
            return held.graph
        outer = getattr(outer, "outer_graph", None)
    return None


def time_ops(function: Any, element: Any, *, seconds: float = 0.5) -> list[OpTime]:
    """Which ops of ``function`` take the time when it is called on ``element``, dearest first.

    ``element``: a tuple of the function's arguments. TensorFlow's own profiler tells each op's time by its
    name; ops of one type that the same line made are summed.
    Errors: whatever the function raises.
    """
    import tensorflow as tf

    flat = tf.nest.flatten(element, expand_composites=True)
    concrete = function.function

    def run() -> None:
        concrete._inference_function.call_flat(*flat, *concrete.captured_inputs)

    run()
    with tempfile.TemporaryDirectory(prefix="feedline-profile-") as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(folder, options)
        calls, began = 0, time.perf_counter()
        try:
            while calls < 2 or time.perf_counter() - began < seconds:
                run()
                calls += 1
                if calls >= 64:
                    break
        finally:
            tf.profiler.experimental.stop()
        spent = read_op_times(Path(folder))
    by_name = {op.name: op for op in ops_of(function)}
    sums: dict[tuple[str, Site | None], float] = {}
    for (name, _), each in spent.items():
        # A loop's body is inlined when it runs: "map/while/body/_7/map/while/DecodePng".
        op = by_name.get(_INLINED.sub("", name))
        if op is None or op.type in WHILE_OPS or _functions_of(op.op, op.op.graph):
            continue
        # The type as it was written: what runs may be a variant of it, as _MklMatMul.
        key = (op.type, op.site)
        sums[key] = sums.get(key, 0.0) + each / calls
    total = sum(sums.values()) or 1.0
    times = [OpTime(type=kind, site=site, seconds=s, share=s / total) for (kind, site), s in sums.items()]
    return sorted(times, key=lambda each: -each.seconds)


def read_op_times(folder: Path) -> dict[tuple[str, str], float]:
    """Seconds of all ops in the profile under ``folder``, by (name, type)."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    spent: dict[tuple[str, str], float] = {}
    for path in sorted(folder.rglob("*.xplane.pb")):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            names = {number: meta.name for number, meta in plane.event_metadata.items()}
            for line in plane.lines:
                for event in line.events:
                    name, colon, kind = names.get(event.metadata_id, "").rpartition(":")
                    if colon and kind.isidentifier():
                        key = (name, kind)
                        spent[key] = spent.get(key, 0.0) + event.duration_ps / 1e12
    return spent
