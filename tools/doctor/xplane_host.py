"""What one host's part of a TensorFlow profile adds up to.

One thread is one line of events that lie inside each other. Times are picoseconds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.doctor.xplane_files import parse

MOST_NOTES = 15
"""Of the profiler's own warnings."""
_LONGEST_NAME = 160
_LONGEST_PATH = 4000
_NUMBERS = re.compile(r"\[\d+\]")
_NUMBERED = re.compile(r"[.]\d+$")
_INLINED = re.compile(r"^(.*/_\d+/|StatefulPartitionedCall/)")
_CALLED = re.compile(r"^__(?:inference|forward|backward)_(.+?)_\d+$")
_MODULE = re.compile(
    r"^(?:a_+(?:inference|forward|backward)_(.+?)_\d+__.*|(.+?)__XlaCompiled.*|(.+?)[._]\d+)$"
)
_COMPILE = re.compile(
    r"^((Cpu|Gpu|NVPTX|AMDGPU)Compiler::(RunBackend|Compile\w*)|HLO passes |HLO Transforms:|"
    r"XlaCompile(Backend)?\b|\w+Client::Compile)"
)
_NAMED = {
    "trace": re.compile(r"^tf\.function-graph_building$"),
    "get_next": re.compile(r"^IteratorGetNext(AsOptional)?Op::DoCompute$"),
    "produce": re.compile(r"^(Prefetch|Parallel\w+|MapAndBatch|ParseExample)Produce$"),
    "execute": re.compile(r"^\w*Executable::Execute"),
    "executor": re.compile(r"^(ExecutorState::Process|ExecutorDoneCallback)$"),
    "run": re.compile(r"^InstantiatedCapturedFunction::Run"),
}
"""Events by their names: a function's graph is built; the consumer asks for a batch; a thread of tf.data
makes elements; XLA's result runs; ops run; tf.data calls a function."""
_HANDS_OVER = re.compile(r"^(Prefetch|(Legacy)?Parallel\w*|MapAndBatch|ParseExample|DataService)")
"""tf.data ops that hand over what other threads made: their own time is waiting for those."""
_CALLS = frozenset(
    {"PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf", "Case",
     "_XlaCompile", "XlaLaunch"}
)  # fmt: skip
"""Op types that only call or compile others, which have events of their own."""
_DERIVED_LINES = ("Steps", "XLA Modules", "XLA Ops", "XLA TraceMe", "Framework", "Source", "Launch Stats")
"""Lines of a device that repeat what its streams hold."""


class _Frame:
    """An event and what encloses it on its thread."""

    __slots__ = ("begin", "depth", "end", "group", "inner", "kind", "name", "near", "owner", "stats")

    def __init__(
        self, span: tuple[int, int], kind: _Kind, stats: dict[str, Any], around: _Frame | None
    ) -> None:
        self.begin, self.end = span
        self.kind, self.group, self.name, self.stats = kind, kind.group, kind.name, stats
        self.near: dict[str, _Frame] = {} if around is None else around.inside()
        self.depth: int = 0 if around is None else around.depth + 1
        self.inner = 0
        """How much of it lies in events of its group inside of it."""
        self.owner = ""
        """The tf.data op whose thread produces here."""

    def inside(self) -> dict[str, _Frame]:
        return {**self.near, self.group: self}

    @property
    def span(self) -> tuple[int, int]:
        return self.begin, self.end

    @property
    def own(self) -> int:
        return max(0, self.end - self.begin - self.inner)


@dataclass(slots=True)
class _Kind:
    """What events of one name are."""

    group: str
    """``iterator``, ``op``, ``executor``, ``produce``, ``run``, ``get_next``, ``compile``, ``execute``,
    ``trace``, ``function``, ``step`` or ``codegen``."""
    name: str
    type: str = ""
    """Of ops, ``call`` for what only calls other ops; of compiling which part of it."""
    dataset: str = ""


@dataclass(slots=True)
class Host:
    """What one host's profile adds up to."""

    name: str
    window: int = 0
    busy: int = 0
    waiting: int | None = None
    compiling: int = 0
    tracing: int = 0
    device: int | None = None
    notes: list[str] = field(default_factory=list)
    iterators: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    """By path: calls, total, self."""
    datasets: dict[str, str] = field(default_factory=dict)
    threads: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    produced: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By path: what its own threads and its functions worked."""
    ops: dict[tuple[str, str, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    compiles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 5))
    """By name: calls, compiles, their time, traces, their time."""
    steps: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """When something on any thread was waiting, compiling, tracing."""
    runs: dict[int, _Frame] = field(default_factory=dict)
    """Calls of tf.data's functions, by their step's number."""
    executed: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def read_host(path: Path) -> Host:
    space = parse(path)
    host = Host(name=clean(path.name.removesuffix(".xplane.pb")))
    host.notes = [clean(note) for note in (*space.errors, *space.warnings)][:MOST_NOTES]
    events: list[tuple[int, int]] = []
    for plane in space.planes:
        device = plane.name.startswith("/device:")
        if plane.name == "/host:python-tracer":
            continue
        reader = _Plane(plane)
        lines = [line for line in plane.lines if line.events]
        if device and any(line.name.startswith("Stream") for line in lines):
            lines = [line for line in lines if not line.name.startswith(_DERIVED_LINES)]
        busy: list[tuple[int, int]] = []
        for line in lines:
            spans = [_span(line, event) for event in line.events]
            events.append((min(begin for begin, _ in spans), max(end for _, end in spans)))
            if device:
                busy += spans
                _add_device(host, reader, line)
            else:
                _add_thread(host, reader, line)
        if device and busy:
            host.device = max(host.device or 0, _length(busy))
        host.window = max(host.window, reader.watched())
    if not events:
        raise ValueError(f"{path} holds no events: it is no TensorFlow profile, or nothing ran in its time")
    host.window = host.window or max(1, max(end for _, end in events) - min(events)[0])
    _settle(host)
    return host


def _span(line: Any, event: Any) -> tuple[int, int]:
    begin = line.timestamp_ns * 1000 + event.offset_ps
    return begin, begin + max(0, event.duration_ps)


class _Plane:
    """A plane's names, looked up."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane
        self.place = clean(plane.name.removeprefix("/device:"))
        self._events = {number: meta.name for number, meta in plane.event_metadata.items()}
        self._stats = {number: meta.name for number, meta in plane.stat_metadata.items()}
        self._kinds: dict[tuple[int, bool], _Kind | None] = {}

    def name(self, event: Any) -> str:
        return clean(self._events.get(event.metadata_id, ""))

    def stats(self, event: Any) -> dict[str, Any]:
        return {self._stats.get(stat.metadata_id, ""): self._value(stat) for stat in event.stats}

    def _value(self, stat: Any) -> Any:
        which = stat.WhichOneof("value")
        if which == "ref_value":
            return self._stats.get(stat.ref_value, "")
        return None if which is None else getattr(stat, which)

    def watched(self) -> int:
        """Picoseconds from the start of profiling to its stop; 0 where that is not told."""
        told = self.stats(self._plane)
        start, stop = told.get("profile_start_time"), told.get("profile_stop_time")
        return max(0, stop - start) * 1000 if isinstance(start, int) and isinstance(stop, int) else 0

    def kind(self, event: Any, codegen: bool) -> _Kind | None:
        """What ``event`` is; None for what no figure needs."""
        key = (event.metadata_id, codegen)
        if key not in self._kinds:
            kind = _kind_of(self._events.get(event.metadata_id, ""), self.stats(event))
            self._kinds[key] = kind or (_Kind("codegen", "") if codegen else None)
        return self._kinds[key]


def _kind_of(raw: str, stats: dict[str, Any]) -> _Kind | None:
    name = raw[:_LONGEST_PATH].partition("#")[0]
    for stat, group in (("step_num", "step"), ("tf_function_call", "function")):
        if stat in stats:
            return _Kind(group, clean(name))
    if name.startswith("Iterator::"):
        path = clean(_NUMBERS.sub("", name.removeprefix("Iterator::")), _LONGEST_PATH)
        return _Kind("iterator", path, dataset=clean(str(stats.get("name", ""))))
    if _COMPILE.match(name):
        passes, _, of = name.partition(":")
        return _Kind("compile", of if passes == "HLO Transforms" else "", passes)
    for group, pattern in _NAMED.items():
        if pattern.match(name):
            return _Kind(group, clean(name))
    return _op_of(name, stats)


def _op_of(name: str, stats: dict[str, Any]) -> _Kind | None:
    if "hlo_op" in stats:
        return _Kind("op", clean(str(stats["hlo_op"])), _xla_type(stats["hlo_op"]))
    if name.startswith("ExecutorState::ProcessAsync::Start"):
        return _Kind("op", "", "call")
    before, colon, after = name.rpartition(":")
    if colon and before and not before.endswith(":") and after.isidentifier():
        calls = after in _CALLS or _CALLED.match(after)
        return _Kind("op", clean(_INLINED.sub("", before)), "call" if calls else clean(after))
    return None


def _xla_type(op: Any) -> str:
    """``MatMul.6`` is one of the ops of type MatMul."""
    return f"XLA:{clean(_NUMBERED.sub('', str(op)))}"


def _module(name: str) -> str:
    """The function or cluster that the user knows behind XLA's name of a module."""
    match = _MODULE.match(name)
    return clean(next(part for part in match.groups() if part) if match else name)


def clean(text: str, most: int = _LONGEST_NAME) -> str:
    """A name from the file that a terminal can show."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:most])
    return shown + "…" if len(text) > most else shown


def _frames(reader: _Plane, line: Any) -> Iterator[_Frame]:
    """The events of one thread, the enclosing before the enclosed."""
    codegen = "xla-cpu-codegen" in line.name
    events = [(_span(line, event), reader.kind(event, codegen), event) for event in line.events]
    stack: list[_Frame] = []
    for span, kind, event in sorted(events, key=lambda each: (each[0][0], -each[0][1])):
        if kind is None:
            continue
        while stack and stack[-1].end <= span[0]:
            stack.pop()
        wanted = kind.group in ("executor", "run", "compile")
        frame = _Frame(span, kind, reader.stats(event) if wanted else {}, stack[-1] if stack else None)
        if kind.group == "compile":
            # The same event for each module, which its stats name.
            module = frame.stats.get("name") or frame.stats.get("module") or kind.name
            frame.name = _module(str(module)[:_LONGEST_PATH])
        stack.append(frame)
        yield frame


def _add_thread(host: Host, reader: _Plane, line: Any) -> None:
    frames = list(_frames(reader, line))
    for frame in frames:
        _take_from_outer(frame)
    thread = clean(line.name.partition("/")[0])
    for frame in frames:
        if frame.group == "iterator":
            _add_iterator(host, frame, thread)
        elif frame.group == "op":
            _add_op(host, frame)
        elif frame.group in ("executor", "run", "produce"):
            _add_work(host, frame)
        elif frame.group in ("function", "trace"):
            _add_function(host, frame)
        elif frame.group == "step":
            host.steps[frame.name].append(frame.end - frame.begin)
        elif frame.group == "get_next":
            host.spans["waiting"].append(frame.span)
    _add_compiles(host, frames)
    rests = [frame.span for frame in frames if _is_busy(frame) is False]
    works = [frame.span for frame in frames if _is_busy(frame)]
    host.busy += _length(works + rests) - _length(rests)


def _is_busy(frame: _Frame) -> bool | None:
    """Whether a thread works there; False where it waits, None where only the events inside tell."""
    if frame.group == "iterator":
        return not hands_over(frame.name) if "::" in frame.name else None
    if frame.group == "get_next" or frame.kind.type.startswith("IteratorGetNext"):
        return False
    if frame.group == "op":
        return None if frame.kind.type == "call" else True
    return True if frame.group in ("executor", "compile", "codegen", "trace") else None


def _add_op(host: Host, frame: _Frame) -> None:
    if frame.kind.type.startswith("IteratorGetNext"):
        host.spans["waiting"].append(frame.span)
    elif frame.kind.type != "call":
        sums = host.ops["host", frame.kind.type, frame.name]
        sums[0] += 1
        sums[1] += frame.own


def _add_work(host: Host, frame: _Frame) -> None:
    """Of tf.data's own threads, and of the functions that it runs."""
    if frame.group == "executor":
        host.executed[_id(frame)] += frame.own
    elif frame.group == "run":
        host.runs[_id(frame)] = frame
    elif frame.owner:
        host.produced[frame.owner] += frame.own


def _add_function(host: Host, frame: _Frame) -> None:
    if frame.group == "function":
        host.compiles[frame.name][0] += 1
        return
    host.spans["tracing"].append(frame.span)
    function = frame.near.get("function")
    sums = host.compiles[function.name if function else "a function"]
    sums[3] += 1
    sums[4] += frame.end - frame.begin


def _take_from_outer(frame: _Frame) -> None:
    """Takes ``frame``'s time off that of what encloses it."""
    outer = frame.near.get(frame.group)
    if outer is not None:
        outer.inner += min(frame.end, outer.end) - frame.begin
    produce = frame.near.get("produce")
    if produce is None or frame.group not in ("iterator", "executor"):
        return
    between = [frame.near.get(group) for group in ("iterator", "executor")]
    if not any(each is not None and each.depth > produce.depth for each in between):
        produce.inner += min(frame.end, produce.end) - frame.begin
        if frame.group == "iterator":
            # Who produces asks its own input.
            produce.owner = produce.owner or frame.name.rpartition("::")[0]


def _id(frame: _Frame) -> int:
    number = frame.stats.get("id", 0)
    return number % 2**64 if isinstance(number, int) else 0


def _add_iterator(host: Host, frame: _Frame, thread: str) -> None:
    sums = host.iterators[frame.name]
    sums[0] += 1
    sums[1] += frame.end - frame.begin
    sums[2] += frame.own
    host.datasets.setdefault(frame.name, frame.kind.dataset)
    host.threads[frame.name][thread] += frame.end - frame.begin
    if "::" not in frame.name:
        host.spans["root"].append(frame.span)


def _add_compiles(host: Host, frames: Sequence[_Frame]) -> None:
    """XLA compiles before it runs: a compiling op compiles from its start to the run that follows."""
    signs: dict[int, list[_Frame]] = defaultdict(list)
    for frame in frames:
        if frame.group == "compile" and "compile" not in frame.near:
            signs[id(frame.near.get("op"))].append(frame)
    runs: dict[int, list[int]] = defaultdict(list)
    for frame in frames:
        if frame.group == "execute":
            runs[id(frame.near.get("op"))].append(frame.begin)
    for key, found in signs.items():
        op = found[0].near.get("op")
        if op is None:
            _add_bare_compiles(host, found)
            continue
        done = max(sign.end for sign in found)
        span = (op.begin, min((begin for begin in runs[key] if begin >= done), default=done))
        host.spans["compiling"].append(span)
        called = _CALLED.match(op.name)
        names = [*(sign.name for sign in found), called.group(1) if called else op.name, "a function"]
        sums = host.compiles[next(name for name in names if name)]
        sums[1] += 1
        sums[2] += span[1] - span[0]


def _add_bare_compiles(host: Host, signs: Sequence[_Frame]) -> None:
    """Compiles that no op asked for: each has several events, the passes before the backend among them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    name = "a function"
    for sign in reversed(signs):
        # Passes without a name belong to the backend that follows.
        name = sign.name or name
        counts[name][sign.kind.type] += 1
        host.spans["compiling"].append(sign.span)
        host.compiles[name][2] += sign.end - sign.begin
    for name, each in counts.items():
        host.compiles[name][1] += max(each.values())


def _add_device(host: Host, reader: _Plane, line: Any) -> None:
    for event in line.events:
        stats = reader.stats(event)
        if "hlo_op" in stats:
            name, kind = clean(str(stats["hlo_op"])), _xla_type(stats["hlo_op"])
        else:
            name, _, kind = clean(str(stats.get("tf_op", ""))).rpartition(":")
        sums = host.ops[reader.place, kind or "kernel", name or reader.name(event)]
        sums[0] += 1
        sums[1] += max(0, event.duration_ps)


def _settle(host: Host) -> None:
    """What only all threads together tell."""
    waiting = host.spans.get("waiting") or host.spans.get("root")
    host.waiting = _length(waiting) if waiting else None
    host.compiling = _length(host.spans["compiling"])
    host.tracing = _length(host.spans["tracing"])
    for number, frame in host.runs.items():
        inner = [frame.near[group] for group in ("iterator", "produce") if group in frame.near]
        if inner:
            nearest = max(inner, key=lambda each: each.depth)
            owner = nearest.name if nearest.group == "iterator" else nearest.owner
            if owner:
                host.produced[owner] += host.executed.get(number, 0)


def _length(spans: Iterable[tuple[int, int]]) -> int:
    """Of the union of ``spans``."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        if reached is None or begin > reached:
            total += end - begin
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total


def hands_over(path: str) -> bool:
    return _HANDS_OVER.match(path.rpartition("::")[2]) is not None
