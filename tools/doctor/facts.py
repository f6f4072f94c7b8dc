"""What is found out about a pipeline and its step, in the form in which it is judged and written.

Everything in here is plain data: it comes from the measuring process as JSON. ``from_json`` gives the same
values back that ``dataclasses.asdict`` took apart.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int
    code: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpCost:
    """Ops of one type that one line made, within one call of a mapped function."""

    type: str
    place: Place | None
    seconds: float
    """For one call of the function, over all threads."""
    share: float
    """Of the time of all its ops."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """A map_fn, or another loop, in a mapped function."""

    place: Place | None
    parallel_iterations: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapped:
    """The function that a call maps over its elements."""

    name: str
    place: Place | None
    stateful: bool
    """TensorFlow may not run it beside itself unless it is told to."""
    random: list[Place]
    """Lines that draw random numbers."""
    python: list[Place]
    """Lines that call back into Python."""
    loops: list[Loop]
    decodes: list[Place]
    ops: int
    """Number of ops in its graph and all that it calls."""
    parsed_features: list[str]
    """Names of the features that it reads of a tf.train.Example."""
    costs: list[OpCost] = field(default_factory=list)
    """Dearest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """What draining a dataset took."""

    per_s: float
    """Elements a second."""
    cpu_s: float
    """CPU seconds of the process for one element."""
    cores: float
    first_s: float
    """Until the first elements came."""
    bytes: float
    """Bytes of one element."""
    elements: int
    """Of the first pass, as far as it went."""
    ended: bool
    """Whether that pass came to its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnModel:
    """What TensorFlow's own model says of a call, in the real run."""

    node: str
    """Its name for the op that ran: not always the one that was written."""
    elements: int
    processing_s: float
    """CPU seconds for one element, as it counts them."""
    parallelism: float | None
    """That AUTOTUNE, or the user, chose."""
    buffer_size: float | None
    buffered: int
    buffered_mib: float


@dataclass(kw_only=True, slots=True)
class Row:
    """One call of the user's in the ladder."""

    call: str
    place: Place
    inputs: list[int]
    """Rows that it reads."""
    arguments: dict[str, Any]
    records: float | None
    """Records in one element; None where an element is something else, as a file's name."""
    element: list[str]
    """dtype and shape of each part of an element; ? for what isn't known."""
    cardinality: int | None = None
    """Elements of one pass, where TensorFlow knows it: -1 without an end, None where it can't tell."""
    mapped: Mapped | None = None
    rate: Rate | None = None
    """Of the chain up to here, as it is written."""
    own: OwnModel | None = None
    inner: list[Row] = field(default_factory=list)
    """The calls of the pipeline that an interleave or flat_map makes of one of its elements."""
    options: dict[str, Any] = field(default_factory=dict)
    """For with_options: what they set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    name: str
    kind: str
    text: str
    place: Place | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A call of a tf.function in which it was traced or compiled."""

    function: str
    function_place: Place | None
    place: Place | None
    """The user's call."""
    step: int
    traced: bool
    compiled: bool
    seconds: float
    compile_s: float
    arguments: list[Argument]


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A line that reads tensors' values."""

    place: Place
    per_step: float
    """Reads a step."""
    seconds_per_step: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NotCompilable:
    op: str
    place: Place | None
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFunction:
    """A tf.function of the user's that the step called."""

    name: str
    place: Place | None
    jit: bool
    calls: int
    traces: int
    not_compilable: list[NotCompilable]


@dataclass(kw_only=True, slots=True)
class StepFacts:
    """What a step did. Rates are steps a second."""

    loader_per_s: float = 0.0
    """The dataset alone, taken by Python as a training loop takes it."""
    step_per_s: float = 0.0
    """The step alone, on elements that are already there."""
    coupled_per_s: float = 0.0
    """Both together, all compiling and tracing behind the first steps included."""
    wait_share: float = 0.0
    """Share of the coupled time that the step waited for elements."""
    compile_share: float = 0.0
    """Share of the coupled time in calls that traced or compiled."""
    loader_cores: float = 0.0
    step_cores: float = 0.0
    coupled_cores: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    first_step_s: float = 0.0
    compile_s: float = 0.0
    """Seconds that XLA compiled in all."""
    wait_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    """Of each step, the wait included."""
    events: list[Event] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    functions: list[StepFunction] = field(default_factory=list)
    profiler: Place | None = None
    """Where a profiler was started that still ran at the end."""
    failed: str | None = None
    """Why the step could not run."""
    failed_place: Place | None = None


@dataclass(kw_only=True, slots=True)
class Facts:
    """All that is known; what could not be found out is missing."""

    cores: int = 1
    rows: list[Row] = field(default_factory=list)
    real: Rate | None = None
    """The whole pipeline with the options that it has, TensorFlow's optimisations included."""
    options: dict[str, Any] = field(default_factory=dict)
    overhead_s: float = 0.0
    step: StepFacts | None = None
    other_jit: StepFacts | None = None
    """The step with XLA switched the other way: on where it is off."""
    features: dict[str, int] = field(default_factory=dict)
    """Bytes of each feature of a record, where records are tf.train.Examples."""
    files: list[int] = field(default_factory=list)
    """Bytes of each file that the pipeline's names name."""
    memory_mib: float = 0.0
    """Of the machine."""
    other_cores: float = 0.0
    """Cores that other processes kept busy while it was measured, the most of all measuring processes."""
    unfinished: str | None = None
    """What it was doing when its time was over."""


def from_json(kind: Any, value: Any) -> Any:
    """``value`` as an instance of the annotated type ``kind``. Errors: TypeError, KeyError for other data."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return from_json(next(each for each in arguments if each is not type(None)), value)
    if origin is list:
        return [from_json(arguments[0], each) for each in value]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{name: from_json(hints[name], value[name]) for name in hints if name in value})
    return value
